//! Holds the rules of docs/ARCHITECTURE.md that a compiler does not: who may depend on whom, and how files look.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Module, and the modules it may use. `run` and `main` wire everything and are not listed.
const MAY_USE: &[(&str, &[&str])] = &[
    ("trace", &["trace"]),
    ("show", &["show", "trace"]),
    ("store", &["store", "trace"]),
    ("analysis", &["analysis", "trace"]),
    ("pg", &["pg", "trace"]),
    ("capture", &["capture", "pg", "trace"]),
    // Of capture only its words, see below.
    ("control", &["control", "analysis", "capture", "trace"]),
    ("session", &["session", "analysis", "capture", "show", "store", "trace"]),
    ("render", &["render", "analysis", "show", "trace"]),
    ("ui", &["ui", "session", "analysis", "show", "trace", "when"]),
    ("when", &[]),
    ("cli", &[]),
    ("config", &["config", "cli"]),
    ("demo", &["demo"]),
];

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &["src/capture/sys/perf.rs", "src/capture/window/shared.rs", "src/pg/memory.rs", "src/pg/memory/map.rs"];

/// Lines of code a file may have; the budget is about 400, this is where it is no longer "about".
const LONGEST: usize = 520;

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    files(&root.join("src"), &mut paths);
    assert!(paths.len() > 20, "the sources were not found");
    paths.into_iter().map(|p| (p.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&p).unwrap())).collect()
}

/// The code before the test module.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap()
}

/// Top-level modules named by `crate::x`, and by `crate::{x::…, y::…}`.
fn uses(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut fresh = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        fresh = true;
                        if !word.is_empty() {
                            found.insert(std::mem::take(&mut word));
                        }
                    }
                    c if (c.is_alphanumeric() || c == '_') && fresh && depth == 0 => word.push(c),
                    c if c.is_whitespace() => {}
                    _ => {
                        fresh = false;
                        if !word.is_empty() {
                            found.insert(std::mem::take(&mut word));
                        }
                    }
                }
            }
            if !word.is_empty() {
                found.insert(word);
            }
        } else {
            found.insert(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found
}

#[test]
fn uses_are_read_in_both_forms() {
    let text = "use crate::trace::Trace; use crate::{analysis::answer::{A, B}, session, ui::x};";
    assert_eq!(uses(text), ["trace", "analysis", "session", "ui"].map(String::from).into());
}

#[test]
fn of_capture_session_and_control_know_only_the_words() {
    let mut named = 0;
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with("src/session") || path.starts_with("src/control")) {
        for (at, _) in code(&text).match_indices("crate::capture") {
            named += 1;
            assert!(text[at..].starts_with("crate::capture::command::"), "{path}: {}", text[at..].lines().next().unwrap());
        }
    }
    assert!(named >= 2, "{named}");
}

#[test]
fn modules_depend_only_on_what_the_house_allows() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let module = path.trim_start_matches("src/").split(['/', '.']).next().unwrap().to_owned();
        let Some((_, allowed)) = MAY_USE.iter().find(|(m, _)| *m == module) else {
            assert!(["lib", "main", "run"].contains(&module.as_str()), "{path}: module '{module}' has no place in the table");
            continue;
        };
        for used in uses(code(&text)) {
            // Doc links of lib.rs and macros are not dependencies; anything else named by crate:: is.
            if !allowed.contains(&used.as_str()) && MAY_USE.iter().any(|(m, _)| *m == used) {
                wrong.push(format!("{path} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn analysis_and_drawing_have_no_clock_thread_or_file() {
    for (path, text) in sources() {
        let pure = path.starts_with("src/analysis")
            || path.starts_with("src/trace")
            || path.starts_with("src/ui/draw")
            || path.starts_with("src/ui/pages");
        if pure {
            for word in ["std::fs", "std::thread", "Instant::now", "SystemTime", "fastrand", "std::env"] {
                assert!(!code(&text).contains(word), "{path} uses {word}");
            }
        }
    }
}

#[test]
fn unsafe_stands_only_where_it_may() {
    for (path, text) in sources() {
        let has = text
            .lines()
            .any(|l| !l.trim_start().starts_with("//") && (l.contains("unsafe {") || l.contains("unsafe fn") || l.contains("unsafe impl")));
        assert!(!has || UNSAFE.contains(&path.as_str()), "{path} holds unsafe code");
        if has {
            let blocks = text.matches("unsafe {").count() + text.matches("unsafe impl").count();
            assert!(text.matches("SAFETY:").count() >= blocks, "{path}: an unsafe block without SAFETY");
        }
    }
}

#[test]
fn every_file_says_what_it_owns_and_is_of_readable_length() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!"), "{path} does not open with //!");
        let lines = code(&text).lines().filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with("//")).count();
        assert!(lines <= LONGEST, "{path} has {lines} lines of code: does it own one noun?");
        let name = Path::new(&path).file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(
            !["util", "utils", "helper", "helpers", "misc", "common", "manager", "types", "mod"].contains(&name.as_str()),
            "{path}: say what it owns"
        );
    }
}
