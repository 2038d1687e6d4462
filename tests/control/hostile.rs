//! Whoever asks badly gets a clear error or is dropped; others are answered, and the capture goes on.

use crate::{SOON, Talk, address, ask, http, plays, scrape};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STATUS: &str = r#"{"cmd":"status"}"#;

fn error(text: &str) -> serde_json::Value {
    json!({ "ok": false, "error": text })
}

/// Asks on a new connection, and is answered soon.
fn others_are_answered(rec: &std::path::Path) {
    let began = Instant::now();
    assert_eq!(ask(rec, STATUS)["ok"], true);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn words_are_answered_one_by_one_and_in_order() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &[]);
    let mut talk = Talk::to(&rec).unwrap();
    assert_eq!(talk.ask("{not json"), error("invalid json"));
    assert_eq!(talk.ask("{}"), error("missing cmd"));
    assert_eq!(talk.ask(r#"{"cmd":"fly"}"#), error("unknown command"));
    // Empty lines, several requests at once, Windows' line ends, and bytes that are no text.
    talk.send(b"\n\r\n  \n{\"cmd\":\"x\"}\n{\"cmd\":\"status\"}\r\n\xff\xfe\x00{\n{\"cmd\":\"metrics\"}\n");
    assert_eq!(talk.line().unwrap(), error("unknown command"));
    assert_eq!(talk.line().unwrap()["mode"], "sampled");
    assert_eq!(talk.line().unwrap(), error("invalid json"));
    assert!(talk.line().unwrap()["samples_total"].as_u64().unwrap() > 0);
    // Half a request, another client, the rest.
    talk.send(b"{\"cmd\":");
    others_are_answered(&rec);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(talk.ask("\"status\"}")["ok"], true);
    // The last line needs no end where the connection has one.
    talk.send(STATUS.as_bytes());
    talk.0.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(talk.line().unwrap()["ok"], true);
    assert_eq!(talk.line(), None);
    // Of a scenario no window can be opened; nothing waits for an answer that nobody gives.
    assert_eq!(ask(&rec, r#"{"cmd":"escalate","duration_s":5}"#)["error"], "escalation requires --mode tiered");
    daemon.stop();
}

#[test]
fn long_requests_are_refused_and_their_sender_hears_it() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &[]);
    for size in [(64 << 10), (64 << 10) + 7, 1 << 20] {
        let mut talk = Talk::to(&rec).unwrap();
        let line = vec![b'x'; size];
        // It may be told before it has sent everything.
        match talk.0.get_mut().write_all(&line).and_then(|()| talk.0.get_mut().write_all(b"\n")) {
            Ok(()) => {}
            Err(e) => assert!(matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{e}"),
        }
        assert_eq!(talk.line().unwrap(), error("request too long"), "{size}");
        assert_eq!(talk.line(), None);
    }
    // As long as it may be.
    let mut talk = Talk::to(&rec).unwrap();
    let padded = format!("{{\"cmd\":\"status\",\"x\":\"{}\"}}", "y".repeat((64 << 10) - 40));
    assert_eq!(talk.ask(&padded)["ok"], true);
    assert_eq!(talk.ask(STATUS)["ok"], true);
    daemon.stop();
}

#[test]
fn of_two_hundred_clients_sixty_four_are_served_and_the_others_told() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &[]);
    // Of others there are none: those before have been forgotten.
    crate::until("nobody else is connected", || {
        ask(&rec, r#"{"cmd":"prometheus"}"#).to_string().contains("pg_wait_tracer_control_clients 1\\n")
    });
    std::thread::sleep(Duration::from_millis(200));
    let mut talks: Vec<Talk> = (0..200).map(|_| Talk::to(&rec).unwrap()).collect();
    let (mut served, mut refused) = (0, 0);
    for talk in &mut talks {
        // Who was sent away already may not be written to.
        let _ = talk.0.get_mut().write_all(format!("{STATUS}\n").as_bytes());
        let answer = talk.line().unwrap();
        if answer["ok"] == true {
            served += 1;
        } else {
            assert_eq!(answer, error("too many clients"));
            assert_eq!(talk.line(), None);
            refused += 1;
        }
    }
    assert_eq!((served, refused), (64, 136));
    // They stay as long as they like, and make room by going.
    for talk in talks.iter_mut().take(64) {
        assert_eq!(talk.ask(STATUS)["ok"], true);
    }
    drop(talks);
    crate::until("there is room again", || Talk::to(&rec).is_some_and(|mut t| t.ask(STATUS)["ok"] == true));
    daemon.stop();
}

/// Resident memory of a process, bytes.
fn rss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn who_never_reads_is_dropped_and_who_says_nothing_may_stay() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &[]);
    let mut silent = Talk::to(&rec).unwrap();
    let before = rss(daemon.pid());
    let mut deaf: Vec<UnixStream> = (0..8).map(|_| UnixStream::connect(rec.join("pgwt.sock")).unwrap()).collect();
    let requests = "{\"cmd\":\"prometheus\"}\n".repeat(10_000);
    for stream in &mut deaf {
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(n @ 1..) = stream.write(&requests.as_bytes()[sent..]) {
            sent += n;
        }
    }
    let began = Instant::now();
    let dropped = |stream: &mut UnixStream| match stream.write(b"\n") {
        Err(e) if e.kind() == ErrorKind::WouldBlock => false,
        Err(_) => true,
        Ok(_) => false,
    };
    let mut highest = 0;
    crate::until("those who do not read are dropped", || {
        others_are_answered(&rec);
        highest = highest.max(rss(daemon.pid()));
        deaf.iter_mut().all(dropped)
    });
    assert!(began.elapsed() >= Duration::from_secs(3), "dropped after {:?}: they had no time to read", began.elapsed());
    assert!(highest < before + (16 << 20), "{before} grew to {highest}");
    assert_eq!(silent.ask(STATUS)["ok"], true);
    let text = ask(&rec, r#"{"cmd":"prometheus"}"#)["prometheus"].as_str().unwrap().to_owned();
    assert!(text.contains("pg_wait_tracer_control_clients_dropped_total 8\n"), "{text}");
    daemon.stop();
}

#[test]
fn http_is_as_patient_and_no_more() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &["--metrics-listen", "127.0.0.1:0"]);
    let at = address(&daemon);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "200 OK"),
        ("GET /metrics HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET /secret HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("\u{1}\u{2}nonsense\r\n\r\n", "400 Bad Request"),
        (&format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000)), "431 Request Header Fields Too Large"),
    ] {
        let (head, _) = http(&at, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{request:.40}: {head}");
        assert!(head.contains("Connection: close"), "{head}");
    }
    // Clients that say nothing take all places for five seconds: others hear it, the socket is not concerned, and then there is room again.
    let mut slow: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(&at).unwrap()).collect();
    let began = Instant::now();
    slow[0].write_all(b"GET /met").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (head, _) = http(&at, "");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    others_are_answered(&rec);
    crate::until("the slow are dropped", || {
        // A byte now and then does not help.
        let _ = slow[0].write_all(b"x");
        std::thread::sleep(Duration::from_millis(100));
        began.elapsed() > Duration::from_secs(4) && http_now(&at).is_some()
    });
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(4) && waited < Duration::from_secs(15), "{waited:?}");
    for stream in &mut slow {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty()),
            Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert!(scrape(&at).get("control_clients_dropped_total", &[]) >= 32.0);
    daemon.stop();
}

/// The status of `/`, if there is room for us.
fn http_now(at: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}
