//! The control socket, `ctl` and the metrics: what they say, and that nobody who asks, however badly, disturbs the capture or others.
//! Most play a scenario; `live` needs a server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "support/binary.rs"]
mod binary;
#[cfg(all(feature = "capture", target_os = "linux"))]
mod support;

#[path = "control/daemon.rs"]
mod daemon;
#[path = "control/hostile.rs"]
mod hostile;
#[path = "control/http.rs"]
mod http;
#[cfg(all(feature = "capture", target_os = "linux"))]
#[path = "control/live.rs"]
mod live;
#[path = "control/meter.rs"]
mod meter;
#[path = "control/published.rs"]
mod published;
#[path = "control/text.rs"]
mod text;

use binary::{Daemon, prints, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(5);

/// A daemon that plays a scenario without an end.
fn plays(dir: &Path, more: &[&str]) -> Daemon {
    let script = dir.join("endless.toml");
    let steady = "title = \"Steady\"\nloop = true\nlength = \"60s\"\nrate = 100\n[[session]]\npid = 100\ncount = 5\ndoes = [\"0s..60s Lock:transactionid query=5\"]\n";
    std::fs::write(&script, steady).unwrap();
    let rec = dir.join("rec");
    let mut daemon = Daemon::start(&rec, &[&["--script", script.to_str().unwrap(), "--mode", "sampled"], more].concat());
    daemon.says("recording into");
    until("it has a socket and an account", || Talk::to(&rec).is_some_and(|mut talk| talk.ask(r#"{"cmd":"status"}"#)["backends"] == 5));
    daemon
}

/// Where its metrics are.
fn address(daemon: &Daemon) -> String {
    let said = daemon.stderr();
    let line = said.lines().find(|l| l.contains("metrics at http://")).unwrap();
    line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
}

/// A client of a control socket.
struct Talk(BufReader<UnixStream>);

impl Talk {
    fn to(rec: &Path) -> Option<Self> {
        let stream = UnixStream::connect(rec.join("pgwt.sock")).ok()?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        Some(Self(BufReader::new(stream)))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next line; `None` at the end of the connection.
    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(e) => panic!("no answer: {e}"),
        }
    }

    fn ask(&mut self, request: &str) -> Value {
        self.send(format!("{request}\n").as_bytes());
        self.line().expect("an answer")
    }
}

/// One request on a connection of its own.
fn ask(rec: &Path, request: &str) -> Value {
    Talk::to(rec).expect("a socket").ask(request)
}

/// Sends bytes to a metrics address, and reads to the end: head and body.
fn http(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

/// The metrics, read.
fn scrape(address: &str) -> text::Metrics {
    let (head, body) = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    text::Metrics::read(&body, text::Dialect::Prometheus)
}
