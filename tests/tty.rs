//! The real binary in a real pseudo-terminal: a picture of a real server, three levels down and back; and every way out leaves a sane terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/binary.rs"]
mod binary;
mod support;

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use support::{Options, Server, wait_until};

const PATIENCE: Duration = Duration::from_secs(20);

/// The program in a terminal of its own.
struct Terminal {
    master: Option<Box<dyn MasterPty + Send>>,
    keys: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    bytes: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
}

impl Terminal {
    fn start(columns: u16, rows: u16, arguments: &[&str]) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_pg_wait_tracer"));
        command.args(arguments);
        Self::run(columns, rows, command)
    }

    fn run(columns: u16, rows: u16, mut command: CommandBuilder) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        for (name, value) in [
            ("TERM", "xterm-256color"),
            ("COLORTERM", "truecolor"),
            ("LANG", "C.UTF-8"),
            ("TZ", "UTC"),
            ("XDG_CONFIG_HOME", "/nonexistent"),
        ] {
            command.env(name, value);
        }
        for name in ["PGDATA", "NO_COLOR", "TMUX"] {
            command.env_remove(name);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let (out, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if out.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let [high, wide] = [rows, columns].map(|n| std::num::NonZero::new(n).unwrap());
        Self { master: Some(pair.master), keys: Some(keys), child, bytes, screen: vt100::Parser::new(high, wide, 0), raw: Vec::new() }
    }

    fn press(&mut self, keys: &str) {
        let writer = self.keys.as_mut().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    fn take(&mut self) {
        while let Ok(bytes) = self.bytes.recv_timeout(Duration::from_millis(20)) {
            self.screen.process(&bytes);
            self.raw.extend(bytes);
        }
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the screen shows all of these.
    fn shows(&mut self, words: &[&str]) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.take();
            let text = self.text();
            if words.iter().all(|w| text.contains(w)) {
                return;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("ended with {status:?} instead of showing {words:?}:\n{}", self.text());
            }
        }
        panic!("never showed {words:?}:\n{}", self.text());
    }

    /// Waits for the end; the status, and whether the terminal was given back as it was: main screen, cursor, no raw mode, no mouse.
    fn ends(&mut self) -> u32 {
        assert!(wait_until(PATIENCE, || self.child.try_wait().unwrap().is_some()), "still running:\n{}", self.text());
        let status = self.child.wait().unwrap().exit_code();
        self.take();
        self.sane();
        status
    }

    fn sane(&self) {
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "left in the alternate screen");
        assert!(!screen.hide_cursor(), "left without a cursor");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None, "left with the mouse on");
        if let Some(termios) = self.master.as_ref().and_then(|m| m.get_termios()) {
            let modes = termios.local_flags.bits();
            assert_ne!(modes & libc::ICANON, 0, "left in raw mode");
            assert_ne!(modes & libc::ECHO, 0, "left without echo");
        }
    }

    fn pid(&self) -> i32 {
        self.child.process_id().unwrap() as i32
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scenario() -> String {
    format!("{}/tests/scenarios/mix.toml", env!("CARGO_MANIFEST_DIR"))
}

fn play(columns: u16, rows: u16) -> Terminal {
    let mut terminal = Terminal::start(columns, rows, &["tui", "--script", &scenario()]);
    terminal.shows(&["AAS", "DB Time", "CPU*"]);
    terminal
}

fn signal(pid: i32, name: &str) {
    assert!(std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_real_server_three_levels_down_and_back() {
    let Some(server) = Server::start("18", &Options::new().preload("pg_stat_statements")) else { return };
    server.psql("CREATE TABLE t (id int PRIMARY KEY)");
    server.psql("INSERT INTO t VALUES (1)");
    let mut holder = server.connect();
    holder.batch_execute("BEGIN; DELETE FROM t").unwrap();
    let _waiters: Vec<_> = (0..3).map(|_| server.session("DELETE FROM t WHERE id = 1")).collect();
    let mut terminal = Terminal::start(120, 40, &["tui", "--mode", "sampled", "--pid", &server.pid().to_string()]);
    terminal.shows(&["DB Time", "Lock", "SAMPLED", "pg18"]);
    // The time model: DB Time, then the largest class, which is Lock.
    terminal.press("\u{1b}[B");
    terminal.press("\r");
    terminal.shows(&["› Lock", "Lock:transactionid"]);
    terminal.press("\r");
    terminal.shows(&["› Lock:", "pid"]);
    terminal.press("\r");
    terminal.shows(&["› pid "]);
    terminal.shows(&["DELETE FROM t"]);
    terminal.press("\u{7f}\u{7f}\u{7f}");
    terminal.shows(&["DB Time", "Idle"]);
    terminal.press("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn over_the_directory_of_a_daemon_its_windows_are_opened_and_closed() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q", "-s", "1"]).finish();
    let load = server.pgbench(&["-n", "-S", "-c", "2", "-T", "3600"]);
    let dir = tempfile::TempDir::new().unwrap();
    let pid = server.pid().to_string();
    let tiered = ["--mode", "tiered", "--pid", &pid, "--max-overhead", "100000", "--escalation-budget", "15"];
    // Nothing opens by itself meanwhile.
    let quiet = ["--anomaly-aas-factor", "0", "--anomaly-lock-fraction", "0", "--anomaly-cpu-cusum-disable"];
    let _daemon = binary::Daemon::start(dir.path(), &[&tiered[..], &quiet[..]].concat());
    let path = dir.path().to_str().unwrap();
    binary::until("there is something to look at", || binary::run(&["dump", path]).status.success());
    let mut terminal = Terminal::start(140, 40, &["tui", "-T", path]);
    terminal.shows(&["DB Time", "pg18", "budget 15/15 s"]);
    terminal.press("e");
    terminal.shows(&["seconds:", "15 of 15 s"]);
    terminal.press("10\r");
    terminal.shows(&["EXACT", "s left"]);
    terminal.press("H");
    terminal.shows(&["exact window opened (manual, 10 s)", "What happened in the window shown"]);
    terminal.press("E");
    terminal.shows(&["exact window closed: closed by hand"]);
    // What the recorder refuses is said here.
    terminal.press("e99\r");
    terminal.shows(&["EXACT"]);
    terminal.shows(&["budget 0/15 s"]);
    terminal.press("e5\r");
    terminal.shows(&["no window: escalation budget exhausted for this hour"]);
    terminal.press("q");
    assert_eq!(terminal.ends(), 0);
    drop(load);
}

#[test]
fn every_way_out_leaves_a_sane_terminal() {
    for (way, keys) in [("q", "q"), ("Ctrl-C", "\u{3}")] {
        let mut terminal = play(80, 24);
        terminal.press(keys);
        assert_eq!(terminal.ends(), 0, "{way}");
    }
    for name in ["TERM", "HUP", "INT"] {
        let mut terminal = play(80, 24);
        signal(terminal.pid(), name);
        terminal.ends();
    }
}

#[test]
fn ctrl_z_stops_with_a_sane_terminal_and_fg_draws_again() {
    let mut terminal = play(80, 24);
    terminal.press("\u{1a}");
    let stopped = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().rsplit_once(") ").unwrap().1.starts_with('T');
    assert!(wait_until(PATIENCE, || stopped(terminal.pid())), "not stopped");
    terminal.take();
    terminal.sane();
    signal(terminal.pid(), "CONT");
    let end = Instant::now() + PATIENCE;
    while !terminal.screen.screen().alternate_screen() && Instant::now() < end {
        terminal.take();
    }
    terminal.shows(&["AAS", "DB Time", "CPU*"]);
    terminal.press("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn a_terminal_that_goes_away_ends_the_program() {
    let pair = native_pty_system().openpty(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_pg_wait_tracer"));
    command.args(["tui", "--script", &scenario()]);
    command.env("TERM", "xterm-256color");
    // Its own HUP would end it anyway: this is about a terminal that dies without one.
    command.set_controlling_tty(false);
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut first = [0; 256];
    pair.master.try_clone_reader().unwrap().read_exact(&mut first).unwrap();
    drop(pair.master);
    let ended = wait_until(PATIENCE, || child.try_wait().unwrap().is_some());
    let _ = child.kill();
    assert!(ended, "still running without a terminal");
}

#[test]
fn too_small_says_so_and_still_quits() {
    let mut terminal = Terminal::start(40, 10, &["tui", "--script", &scenario()]);
    terminal.shows(&["too small", "80x24", "40x10"]);
    terminal.press("q");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn an_error_is_told_on_the_main_screen() {
    let mut terminal = Terminal::start(80, 24, &["tui", "--script", "/nonexistent.toml"]);
    assert_eq!(terminal.ends(), 1);
    assert!(terminal.text().contains("/nonexistent.toml"), "{}", terminal.text());
    let mut terminal = Terminal::start(80, 24, &["tui", "--script", &scenario(), "--theme", "sepia"]);
    assert_eq!(terminal.ends(), 2);
    assert!(terminal.text().contains("sepia") && terminal.text().contains("dark"), "{}", terminal.text());
}

#[test]
fn no_color_sends_no_colour() {
    let mut terminal = Terminal::start(80, 24, &["tui", "--script", &scenario(), "--color", "never"]);
    terminal.shows(&["AAS", "DB Time"]);
    let raw = String::from_utf8_lossy(&terminal.raw).into_owned();
    assert!(!raw.contains("\u{1b}[38;") && !raw.contains("\u{1b}[48;") && !raw.contains("\u{1b}[31m"), "colour was sent");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn odd_bytes_from_the_terminal_neither_close_the_screen_nor_keep_it_open() {
    // Unfinished, unknown and invalid sequences, and mouse reports of the cell 0,0 that no terminal has.
    for odd in ["\u{1b}[1;99Z", "\u{1b}[<0;5", "\u{1b}[200~x", "\u{1b}[<0;0;0M", "\u{1b}[32;0;0M", "\u{1b}[M   "] {
        let mut terminal = play(80, 24);
        terminal.press(odd);
        // Time for the sequence to arrive; what is waited for is that nothing happens.
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            terminal.take();
            assert!(terminal.child.try_wait().unwrap().is_none(), "{odd:?} closed the screen");
        }
        signal(terminal.pid(), "TERM");
        terminal.ends();
    }
}

/// CPU time of the thread that reads keys, by the kernel's own account.
fn key_thread(pid: i32) -> Duration {
    let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|t| t.unwrap().path());
    let keys = tasks.find(|t| std::fs::read_to_string(t.join("comm")).is_ok_and(|name| name.trim() == "keys")).expect("a key thread");
    let account = std::fs::read_to_string(keys.join("schedstat")).unwrap();
    Duration::from_nanos(account.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn with_standard_input_redirected_keys_are_waited_for_and_read_from_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // At its end, and with nothing in it for as long as it takes.
    for redirected in ["</dev/null".to_owned(), format!("<>'{}'", pipe.display())] {
        let mut command = CommandBuilder::new("sh");
        let program = env!("CARGO_BIN_EXE_pg_wait_tracer");
        command.args(["-c", &format!("exec '{program}' tui --script '{}' {redirected}", scenario())]);
        let mut terminal = Terminal::run(80, 24, command);
        terminal.shows(&["AAS", "DB Time", "CPU*"]);
        let (before, end) = (key_thread(terminal.pid()), Instant::now() + Duration::from_secs(1));
        while Instant::now() < end {
            terminal.take();
        }
        let used = key_thread(terminal.pid()).saturating_sub(before);
        assert!(used < Duration::from_millis(50), "{redirected}: the key thread used {used:?} of CPU in a second without keys");
        terminal.press("?");
        terminal.shows(&["Help"]);
        signal(terminal.pid(), "TERM");
        terminal.ends();
    }
}
