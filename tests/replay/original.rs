//! Directories as the program this one succeeds lays them out, byte by byte, and what they hold by hand: two finished files (trace formats 2 and 3), one that
//! grows, and the files of names beside them.

use crate::binary::{objects, prints};
use crate::{by_hand, path};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

const S: u64 = 1_000_000_000;
/// The recording began at 2026-09-21T14:13:20Z, when the monotonic clock showed 1,000 s; each file begins an hour later.
const WALL: u64 = 1_790_000_000 * S;
const FILES: [u64; 3] = [1_000 * S, 4_600 * S, 8_200 * S];

const IO: u32 = 0x0a00_0003;
const LOCK: u32 = 0x0300_0005;
const LWLOCK: u32 = 0x0100_0002;
const CLIENT_READ: u32 = 0x0600_0000;
const CHECKPOINTER: u32 = 0x0500_0002;

fn header(version: u16, file: usize) -> Vec<u8> {
    by_hand::header_at(version, WALL + FILES[file] - FILES[0], FILES[file])
}

/// Full capture without a marker: what process 1000 did for ten seconds, and the checkpointer's sleep.
fn first() -> Vec<u8> {
    let m = FILES[0];
    let mut file = header(2, 0);
    by_hand::transitions(
        &mut file,
        2,
        &[
            (m + 2 * S, 1000, 0, 2 * S, 100, None),
            (m + 3 * S, 1000, IO, S, 100, None),
            (m + 7 * S, 1000, LOCK, 4 * S, 100, None),
            (m + 10 * S, 1000, CLIENT_READ, 3 * S, 0, None),
            (m + 10 * S, 2000, CHECKPOINTER, 10 * S, 0, None),
        ],
    );
    by_hand::footer(&mut file, &[m + 2 * S], &[28]);
    file
}

/// Five seconds of samples of process 1001, then a window of two seconds with one wait in it; samples inside it stand for nothing.
fn second() -> Vec<u8> {
    let m = FILES[1];
    let tenth = |i: u64| m + i * S / 10;
    let mut file = header(3, 1);
    let mut offsets = vec![28];
    let before: Vec<_> = (1..=50).map(|i| (tenth(i), 1001, if i <= 30 { LOCK } else { 0 }, -200)).collect();
    by_hand::samples(&mut file, S / 10, &before);
    offsets.push(file.len() as u64);
    let rows = [
        (m + 5 * S, 0, 0xFFFF_FFF4, 0, (2 << 8) | 1, Some(0)),
        (m + 7 * S, 1001, IO, 2 * S, -200, Some(S / 2)),
        (m + 7 * S, 0, 0xFFFF_FFF5, 0, (2 << 8) | 2, Some(0)),
    ];
    by_hand::transitions(&mut file, 3, &rows);
    offsets.push(file.len() as u64);
    let inside: Vec<_> = (51..=70).map(|i| (tenth(i), 1001, IO, -200)).collect();
    by_hand::samples(&mut file, S / 10, &inside);
    by_hand::footer(&mut file, &[tenth(1), m + 5 * S, tenth(51)], &offsets);
    file
}

/// Two blocks of a second each of process 1002; and how long the file is with one, and with two.
fn third() -> (Vec<u8>, usize) {
    let mut file = header(3, 2);
    let block = |file: &mut Vec<u8>, from: u64| {
        let rows: Vec<_> = (from + 1..=from + 10).map(|i| (FILES[2] + i * S / 10, 1002, LWLOCK, 0)).collect();
        by_hand::samples(file, S / 10, &rows);
    };
    block(&mut file, 0);
    let one = file.len();
    block(&mut file, 10);
    (file, one)
}

fn directory() -> TempDir {
    let dir = TempDir::new().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    put("2026-09-21_14.trace.lz4", &first());
    put("2026-09-21_15.trace.lz4", &second());
    let mut growing = third().0;
    // A block that is being written.
    growing.extend_from_slice(&first()[28..60]);
    put("current.trace", &growing);
    put("current.trace.meta", b"2");
    put("current.summary", b"PGWS");
    put("2026-09-21_14.summary.lz4", b"PGWS");
    put(
        "wait_event_names.json",
        br#"{
    "pg_version": 17,
    "LWLock": ["", "ShmemIndex", "WALWrite"],
    "Lock": ["relation", "extend", "frozenid", "page", "tuple", "transactionid"],
    "Activity": ["ArchiverMain", "AutovacuumMain", "CheckpointerMain"],
    "Client": ["ClientRead"],
    "IO": ["", "", "", "DataFileRead"]
}"#,
    );
    put(
        "backends.jsonl",
        b"{\"pid\":1000,\"type\":\"client\",\"user\":\"somebody\",\"db\":\"before\"}\n\
          {\"pid\":1000,\"type\":\"client\",\"user\":\"app\",\"db\":\"shop\",\"addr\":\"10.0.0.7\"}\n\
          {\"pid\":1001,\"type\":\"client\",\"user\":\"report\",\"db\":\"shop\"}\n\
          {\"pid\":2000,\"type\":\"checkpointer\"}\n{\"pid\":1002,\"ty",
    );
    put(
        "query_texts.jsonl",
        b"{\"q\":\"100\",\"t\":\"UPDATE accounts SET n = 1\",\"ts\":1790000000000000000}\n\
          {\"q\":\"-200\",\"t\":\"SELECT * FROM orders\",\"ts\":1790003600000000000}\n",
    );
    dir
}

fn row<'a>(o: &'a Value, key: &str, name: &Value) -> &'a Value {
    let rows = o["rows"].as_array().unwrap();
    rows.iter().find(|r| r[key] == *name).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

#[test]
fn its_figures_are_those_computed_by_hand() {
    let dir = directory();
    let all = objects(&["dump", path(&dir), "--format", "json"]);
    let [model, events, sessions, queries] = all.as_slice() else { panic!("{} objects", all.len()) };
    // 7 s of process 1000, 7 s of 1001, 2 s of 1002; watched for 10 s and 2 s, sampled for 5 s and 2 s, of two hours and two seconds.
    for o in &all {
        assert_eq!(o["db_time_ns"], "16000000000", "{o}");
        let c = &o["coverage"];
        assert_eq!((&c["exact_ns"], &c["sampled_ns"]), (&"12000000000".into(), &"7000000000".into()), "{c}");
        assert_eq!(c["gap_ns"], (7_202 * S - 19 * S).to_string());
        assert_eq!((&o["window"]["from"], &o["window"]["to"]), (&"2026-09-21T14:13:20Z".into(), &"2026-09-21T16:13:22Z".into()));
    }
    for (name, ms) in [("DB Time", 16_000.0), ("CPU*", 4_000.0), ("Lock", 7_000.0), ("IO", 3_000.0), ("LWLock", 2_000.0)] {
        assert_eq!(row(model, "name", &name.into())["ms"], ms, "{name}");
    }
    let event = |name: &str| {
        let r = row(events, "name", &name.into());
        (r["total_ms"].as_f64().unwrap(), r["waits"].as_u64(), r["samples"].as_u64().unwrap())
    };
    assert_eq!(event("Lock:transactionid"), (7_000.0, Some(1), 30));
    assert_eq!(event("IO:DataFileRead"), (3_000.0, Some(2), 0));
    assert_eq!(event("LWLock:WALWrite").0, 2_000.0);
    assert_eq!(event("CPU*").0, 4_000.0);
    assert_eq!(event("Client:ClientRead").0, 3_000.0);
    for (pid, user, ms, top) in [
        (1000, "app", 7_000.0, "Lock:transactionid"),
        (1001, "report", 7_000.0, "Lock:transactionid"),
        (1002, "", 2_000.0, "LWLock:WALWrite"),
    ] {
        let r = row(sessions, "pid", &pid.into());
        assert_eq!((r["db_time_ms"].as_f64(), r["top"].as_str()), (Some(ms), Some(top)), "{r}");
        assert_eq!(r["user"].as_str().unwrap_or_default(), user, "{r}");
    }
    let of = |query: &str| {
        let rows = queries["rows"].as_array().unwrap().iter().filter(|r| r["query_id"] == query);
        rows.map(|r| r["total_ms"].as_f64().unwrap()).sum::<f64>()
    };
    assert_eq!((of("100"), of("-200")), (7_000.0, 7_000.0), "{queries}");
    let dump = prints(&["dump", path(&dir)]);
    for has in [
        "3 files",
        "PostgreSQL     17",
        "exact 12.0 s, sampled 7.00 s, not observed",
        "UPDATE accounts SET n = 1",
        "SELECT * FROM orders",
        "app",
    ] {
        assert!(dump.contains(has), "{has}: {dump}");
    }
}

#[test]
fn replay_answers_of_each_of_its_files() {
    let dir = directory();
    let of = |from: &str, to: &str| {
        objects(&["--replay", "-T", path(&dir), "--view", "system_event", "--format", "json", "--from", from, "--to", to]).remove(0)
    };
    // Inside the second file: the last second of samples, and half of the wait in the window.
    let middle = of("15:13:24", "15:13:26");
    assert_eq!((&middle["db_time_ns"], &middle["fidelity"]), (&"2000000000".into(), &"mixed".into()));
    assert_eq!(row(&middle, "name", &"IO:DataFileRead".into())["total_ms"], 1_000.0);
    assert_eq!(row(&middle, "name", &"CPU*".into())["total_ms"], 1_000.0);
    let exact = of("14:13:21", "14:13:25");
    assert_eq!((&exact["db_time_ns"], &exact["fidelity"]), (&"4000000000".into(), &"exact".into()));
    // Nobody looked between the files.
    assert_eq!(of("14:30", "15:00")["aas"], Value::Null);
}

#[test]
fn its_watermark_says_how_far_the_growing_file_may_be_read() {
    let dir = directory();
    let time = || objects(&["--replay", "-T", path(&dir), "--from", "16:13:20", "--format", "json"]).remove(0)["db_time_ns"].clone();
    assert_eq!(time(), "2000000000");
    fs::write(dir.path().join("current.trace.meta"), "1").unwrap();
    assert_eq!(time(), "1000000000");
    // A watermark beyond what is there, or none: what is whole counts.
    fs::write(dir.path().join("current.trace.meta"), "9").unwrap();
    assert_eq!(time(), "2000000000");
    fs::remove_file(dir.path().join("current.trace.meta")).unwrap();
    assert_eq!(time(), "2000000000");
    let (whole, one) = third();
    fs::write(dir.path().join("current.trace"), &whole[..one]).unwrap();
    assert_eq!(time(), "1000000000");
}

/// Our recorder goes on where the other program left: it finishes its file and writes its own beside it.
#[test]
fn our_recorder_finishes_its_file_and_both_are_one_recording() {
    let dir = directory();
    let before = fs::read(dir.path().join("2026-09-21_14.trace.lz4")).unwrap();
    let flags = ["--script", &crate::binary::scenario("mix"), "-R", "0"];
    let mut daemon = crate::binary::Daemon::start(dir.path(), &flags);
    daemon.says("finished");
    assert!(daemon.stderr().contains("2026-09-21_16.trace.lz4: 32 bytes of a torn end were cut off"), "{}", daemon.stderr());
    crate::binary::until("it records", || dir.path().join("current.trace").exists());
    daemon.stop();
    assert_eq!(fs::read(dir.path().join("2026-09-21_14.trace.lz4")).unwrap(), before);
    let old = objects(&["dump", path(&dir), "--format", "json", "--to", "2026-09-21 16:13:22"]);
    assert!(old.iter().all(|o| o["db_time_ns"] == "16000000000"), "{old:?}");
    assert!(prints(&["dump", path(&dir)]).contains("4 files"));
    assert!(crate::traces(dir.path()).contains(&"2026-09-21_16.trace.lz4".to_owned()));
}
