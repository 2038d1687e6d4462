//! Directories that hold what they should not: the rest is shown, and what is not read is named.

use crate::binary::{prints, refused};
use crate::{path, recorded};
use std::fs;
use tempfile::TempDir;

#[test]
fn an_unreadable_file_among_good_ones_is_named_and_the_others_answer() {
    let dir = recorded("mix");
    let good = fs::read(dir.path().join("current.trace")).unwrap();
    let alone = prints(&["dump", path(&dir)]);
    for (name, bytes, why) in [
        ("2026-01-02_01.trace.lz4", &b"this is no trace, whatever its name says"[..], "not a trace file: it does not begin with PGWT"),
        ("2026-01-02_02.trace.lz4", &good[..20], "not a trace file: it is shorter than a file header"),
        ("2026-01-02_00.trace.lz4", b"", "not a trace file: it is shorter than a file header"),
    ] {
        fs::write(dir.path().join(name), bytes).unwrap();
        let dump = prints(&["dump", path(&dir)]);
        assert!(dump.contains(&format!("{name} is not read: {why}.")), "{dump}");
        for line in alone.lines().filter(|l| l.contains("DB Time  ") || l.contains("IO:DataFileRead")) {
            assert!(dump.contains(line), "{line}: {dump}");
        }
        let replay = prints(&["--replay", "-T", path(&dir), "--view", "system_event"]);
        assert!(
            replay.contains(&format!("{name} is not read: {why}."))
                && replay.contains("IO:WalSync                           —      4000.0"),
            "{replay}"
        );
        let json = prints(&["--replay", "-T", path(&dir), "--format", "json"]);
        assert!(json.contains("is not read"), "{json}");
    }
    // Not of this program, and not taken for a recording.
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    fs::write(dir.path().join("current.trace.corrupt.1790000000"), "kept aside").unwrap();
    assert!(!prints(&["dump", path(&dir)]).contains("notes.txt"));
}

#[test]
fn a_file_cut_in_its_middle_tells_what_is_whole() {
    let dir = recorded("mix");
    let good = fs::read(dir.path().join("current.trace")).unwrap();
    // A finished file whose end is missing, another hour's name: what stands before the cut counts.
    fs::write(dir.path().join("2026-01-02_03.trace.lz4"), &good[..good.len() / 2]).unwrap();
    fs::remove_file(dir.path().join("current.trace")).unwrap();
    fs::remove_file(dir.path().join("current.trace.meta")).ok();
    let dump = prints(&["dump", path(&dir)]);
    assert!(dump.contains("what stands behind byte") && dump.contains("cannot be read"), "{dump}");
    assert!(dump.contains("IO:DataFileRead") && !dump.contains("(10.0 s)"), "{dump}");
}

#[test]
fn nothing_but_what_cannot_be_read_is_one_line_and_status_1() {
    let dir = TempDir::new().unwrap();
    for (command, empty) in [(&["dump", path(&dir)][..], "dump"), (&["--replay", "-T", path(&dir)], "replay")] {
        for entry in fs::read_dir(dir.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        refused(command, 1, &["holds no recording", "--daemon -T", path(&dir)]);
        fs::write(dir.path().join("current.trace"), b"PGWT").unwrap();
        refused(command, 1, &[path(&dir), "holds no recording"]);
        fs::write(dir.path().join("2026-01-02_01.trace.lz4"), format!("garbage, long enough for a header, for {empty}")).unwrap();
        refused(command, 1, &["no trace file in", path(&dir), "2026-01-02_01.trace.lz4", "does not begin with PGWT"]);
        fs::write(dir.path().join("2026-01-02_01.trace.lz4"), crate::by_hand::file_header(1)).unwrap();
        refused(command, 1, &["trace format 1 is not read, only 2 and 3"]);
        // A whole header and not one block.
        fs::write(dir.path().join("2026-01-02_01.trace.lz4"), crate::by_hand::file_header(3)).unwrap();
        refused(command, 1, &[path(&dir), "holds no recording"]);
    }
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for missing in ["/nonexistent/traces", file.to_str().unwrap()] {
        refused(&["dump", missing], 1, &["cannot read the trace directory", missing]);
        refused(&["--replay", "-T", missing], 1, &["cannot read the trace directory", missing]);
    }
}
