//! The two threads that listen for the user: one reads keys and the mouse, one waits for signals. Both are named, both end when asked, both
//! only send messages.

use super::msg::{Msg, Signal};
use anyhow::{Context, Result};
use crossbeam_channel::Sender;
use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::{Handle, Signals};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a request to end may go unnoticed.
const PATIENCE: Duration = Duration::from_millis(100);
/// Signals that end the program.
const ENDING: [i32; 3] = [SIGTERM, SIGHUP, SIGINT];

/// The two threads.
#[derive(Debug)]
pub struct Listeners {
    over: Arc<AtomicBool>,
    signals: Handle,
    threads: Vec<JoinHandle<()>>,
}

impl Listeners {
    /// Starts both.
    pub fn start(news: &Sender<Msg>) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        // Once the screen is closed these signals do what they always do.
        for signal in ENDING.into_iter().chain([SIGTSTP]) {
            signal_hook::flag::register_conditional_default(signal, over.clone()).context("cannot listen for signals")?;
        }
        let mut signals = Signals::new(ENDING.into_iter().chain([SIGTSTP, SIGCONT])).context("cannot listen for signals")?;
        let handle = signals.handle();
        let out = news.clone();
        let waiting = std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let signal = match signal {
                    SIGTSTP => Signal::Stop,
                    SIGCONT => Signal::Continue,
                    n => Signal::Terminate(n),
                };
                if out.send(Msg::Signal(signal)).is_err() {
                    return;
                }
            }
        });
        let (out, stop) = (news.clone(), over.clone());
        let reading = std::thread::Builder::new().name("keys".into()).spawn(move || read(&out, &stop));
        let threads = vec![waiting.context("cannot start the signal thread")?, reading.context("cannot start the key thread")?];
        Ok(Self { over, signals: handle, threads })
    }
}

/// Waits for input on standard input, a terminal; whether the terminal is gone. The event reader itself does not notice: it would spin on the end
/// of file.
fn gone() -> bool {
    let stdin = std::io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    // An error other than an interruption also means that nothing will come any more.
    poll(&mut polled, Some(&wait)).is_err_and(|e| e != rustix::io::Errno::INTR)
        || polled.iter().any(|p| p.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

fn read(news: &Sender<Msg>, over: &AtomicBool) {
    // With standard input redirected, the event reader opens the terminal itself, and is the one that waits.
    let direct = std::io::stdin().is_terminal();
    while !over.load(Ordering::Relaxed) {
        if direct && gone() {
            let _ = news.send(Msg::Broken("the terminal is gone".into()));
            return;
        }
        let got = match event::poll(if direct { Duration::ZERO } else { PATIENCE }) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let msg = match got {
            Ok(event) => Msg::Input(event),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Msg::Broken(format!("cannot read from the terminal: {error}")),
        };
        let last = matches!(msg, Msg::Broken(_));
        if news.send(msg).is_err() || last {
            return;
        }
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.signals.close();
        // The key thread may be inside the event reader, which waits for the rest of an unfinished sequence as long as it takes. It holds
        // nothing but the end of a channel: it is left behind rather than waited for.
        let end = Instant::now() + 2 * PATIENCE;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}
