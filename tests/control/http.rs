//! Metrics as a scraper gets them, and where they can be listened for.

use crate::binary::{prints, refused};
use crate::text::{Dialect, Metrics};
use crate::{address, ask, http, plays, scrape};
use std::net::TcpListener;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn a_scraper_gets_what_it_asks_for() {
    let dir = TempDir::new().unwrap();
    let daemon = plays(dir.path(), &["--metrics-listen", ":0"]);
    let at = address(&daemon);
    assert!(at.starts_with("127.0.0.1:"), "{at}");
    let (head, body) = http(&at, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    Metrics::read(&body, Dialect::OpenMetrics);
    let (head, body) = http(&at, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4") && body.is_empty(), "{head}");
    // The same in the words of the socket and of ctl.
    let rec = dir.path().join("rec");
    let text = ask(&rec, r#"{"cmd":"prometheus"}"#)["prometheus"].as_str().unwrap().to_owned();
    Metrics::read(&text, Dialect::Prometheus);
    Metrics::read(&prints(&["ctl", "-T", rec.to_str().unwrap(), "prometheus"]), Dialect::Prometheus);
    daemon.stop();
}

#[test]
fn the_rate_of_db_time_is_average_active_sessions() {
    let dir = TempDir::new().unwrap();
    let daemon = plays(dir.path(), &["--metrics-listen", ":0"]);
    let at = address(&daemon);
    crate::until("a few seconds are counted", || scrape(&at).sum("observed_seconds_total") >= 2.0);
    let first = scrape(&at);
    crate::until("a few seconds more", || scrape(&at).sum("observed_seconds_total") >= first.sum("observed_seconds_total") + 3.0);
    let second = scrape(&at);
    let seconds = second.sum("observed_seconds_total") - first.sum("observed_seconds_total");
    let lock = [("class", "Lock")];
    let aas = (second.get("db_time_seconds_total", &lock) - first.get("db_time_seconds_total", &lock)) / seconds;
    assert!((aas - 5.0).abs() < 1e-6, "{aas}");
    let event = [("class", "Lock"), ("event", "transactionid")];
    assert_eq!(second.get("event_seconds_total", &event), second.get("db_time_seconds_total", &lock));
    assert!((second.get("active_sessions", &lock) - 5.0).abs() < 1e-6);
    assert_eq!(second.sum("db_time_seconds_total"), second.get("db_time_seconds_total", &lock));
    assert_eq!((second.get("metering_dropped_records_total", &[]), second.get("recording_up", &[])), (0.0, 1.0));
    assert!(second.get("cpu_seconds_total", &[]) > 0.0 && second.get("resident_memory_bytes", &[]) > 1e6);
    daemon.stop();
}

#[test]
fn an_address_that_cannot_be_had_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let script = crate::binary::scenario("storm");
    refused(&["--script", &script, "--metrics-listen", &at], 1, &[&at, "--metrics-listen", "in use"]);
    refused(&["--script", &script, "--metrics-listen", "nowhere"], 2, &["nowhere", ":9187"]);
    refused(&["--script", &script, "--metrics-listen", "host.invalid:1"], 1, &["host.invalid", "not known"]);
    let dir = TempDir::new().unwrap();
    let dir = dir.path().to_str().unwrap();
    refused(&["--replay", "-T", dir, "--metrics-listen", ":0"], 2, &["--metrics-listen", "recording is looked at"]);
}

#[test]
fn text_beside_it_serves_them_too() {
    let dir = TempDir::new().unwrap();
    let script = crate::binary::scenario("storm");
    let mut command = crate::binary::program();
    command.args(["--script", &script, "--format", "text", "-i", "1", "--metrics-listen", "[::1]:0"]).env("TMPDIR", dir.path());
    let mut text = crate::binary::Daemon::spawn(command);
    text.says("metrics at http://[::1]:");
    let at = address(&text);
    crate::until("it counts", || scrape(&at).get("ticks_total", &[]) > 5.0);
    let metrics = scrape(&at);
    assert!(!metrics.families.keys().any(|name| name.contains("recording")), "nothing is recorded");
    std::thread::sleep(Duration::from_millis(100));
    assert!(text.is_running());
    text.stop();
}
