//! A small reader of the Prometheus text format and of OpenMetrics, written from their specifications and from what `promtool check metrics` complains about.
//! It knows nothing of the program's own writer.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Prometheus,
    OpenMetrics,
}

#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub labels: BTreeSet<String>,
    pub samples: usize,
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub families: BTreeMap<String, Family>,
    /// By name and labels as they stand.
    pub samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

const ABBREVIATED: [&str; 14] = ["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"];
const NOT_BASE: [&str; 16] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "percent",
    "bits",
    "kibibytes",
    "mebibytes",
    "gibibytes",
    "millis",
];
const UNITS: [&str; 4] = ["seconds", "bytes", "ratio", "hertz"];

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        t => {
            assert!(t.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)), "{t}");
            t.parse().unwrap()
        }
    }
}

/// `{a="b",c="d"} 5`, from the brace on.
fn labels(text: &str) -> (Vec<(String, String)>, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Vec::new(), text) };
    let mut all = Vec::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name) && !name.starts_with("__"), "label {name}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("no end of the label: {text}")) {
                (at, '"') => break at,
                (_, '\\') => match chars.next().unwrap().1 {
                    'n' => value.push('\n'),
                    c @ ('"' | '\\') => value.push(c),
                    c => panic!("escape \\{c}"),
                },
                (_, c) => value.push(c),
            }
        };
        assert!(all.iter().all(|(n, _)| n != name), "label {name} twice");
        all.push((name.to_owned(), value));
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (all, rest.strip_prefix('}').unwrap_or_else(|| panic!("{text}"))),
        }
    }
}

impl Metrics {
    /// Reads all, and holds it to the rules.
    pub fn read(text: &str, dialect: Dialect) -> Self {
        let mut this = Self::default();
        let mut current = String::new();
        let mut unit = None;
        assert!(text.ends_with('\n') && !text.contains('\r'), "lines end in a line feed");
        let body = match dialect {
            Dialect::OpenMetrics => text.strip_suffix("# EOF\n").expect("it ends in # EOF"),
            Dialect::Prometheus => text,
        };
        assert!(!body.contains("# EOF"));
        for line in body.lines() {
            assert!(!line.is_empty() && line.trim() == line, "{line:?}");
            if let Some(meta) = line.strip_prefix("# ") {
                let mut words = meta.splitn(3, ' ');
                let (word, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
                assert!(is_name(name) && name.starts_with("pg_wait_tracer_") && name == name.to_lowercase(), "{name}");
                match word {
                    "HELP" => {
                        assert!(!this.families.contains_key(name), "{name}: told twice, or its samples are apart");
                        assert!(!rest.is_empty() && rest.ends_with('.'), "{name}: {rest}");
                        name.clone_into(&mut current);
                        unit = None;
                        this.families.insert(current.clone(), Family { help: rest.to_owned(), ..Family::default() });
                    }
                    "TYPE" => {
                        let family = this.families.get_mut(name).expect("HELP first");
                        assert!(name == current && family.kind.is_empty() && family.samples == 0, "{line}");
                        let known: &[&str] =
                            if dialect == Dialect::OpenMetrics { &["counter", "gauge", "info"] } else { &["counter", "gauge"] };
                        assert!(known.contains(&rest), "{line}");
                        rest.clone_into(&mut family.kind);
                    }
                    "UNIT" => {
                        assert!(dialect == Dialect::OpenMetrics && name == current && unit.is_none(), "{line}");
                        assert!(name.ends_with(&format!("_{rest}")), "{line}");
                        unit = Some(rest.to_owned());
                    }
                    _ => panic!("{line}"),
                }
                continue;
            }
            let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
            let (name, rest) = line.split_at(end);
            let (labels, rest) = labels(rest);
            let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(!value.contains(' '), "no times: {line}");
            let value = number(value);
            let family = this.families.get_mut(&current).expect("HELP and TYPE first");
            let tail = match (family.kind.as_str(), dialect) {
                ("counter", Dialect::OpenMetrics) => "_total",
                ("info", _) => "_info",
                _ => "",
            };
            assert_eq!(name, format!("{current}{tail}"), "a sample of another family: {line}");
            if family.kind == "counter" {
                assert!(name.ends_with("_total") && value >= 0.0 && value.is_finite(), "{line}");
            } else {
                assert!(!name.ends_with("_total"), "{line}");
            }
            let base = name.trim_end_matches("_total");
            for word in base.split('_') {
                assert!(!ABBREVIATED.contains(&word) && !NOT_BASE.contains(&word), "{name}: no base unit in full");
            }
            for reserved in ["_count", "_sum", "_bucket"] {
                assert!(!base.ends_with(reserved), "{name}");
            }
            // A unit stands at the end of a name, and there only; an instant is called a timestamp.
            let words: Vec<&str> = base.split('_').collect();
            for unit in UNITS {
                let inside = words[..words.len() - 1].contains(&unit);
                assert!(!inside || base.ends_with("remaining_seconds"), "{name}: unit {unit} inside");
            }
            if dialect == Dialect::OpenMetrics && UNITS.contains(words.last().unwrap()) {
                assert!(unit.is_some(), "{name} has a unit, and none is told");
            }
            if !family.labels.is_empty() || family.samples > 0 {
                assert_eq!(family.labels, labels.iter().map(|(n, _)| n.clone()).collect(), "{name}: other labels");
            }
            family.labels = labels.iter().map(|(n, _)| n.clone()).collect();
            family.samples += 1;
            let mut sorted = labels;
            sorted.sort();
            assert!(this.samples.insert((name.to_owned(), sorted), value).is_none(), "twice: {line}");
        }
        for (name, family) in &this.families {
            assert!(!family.kind.is_empty() && family.samples > 0, "{name}: {family:?}");
        }
        this
    }

    /// One sample, by its name without prefix.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let mut labels: Vec<(String, String)> = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        labels.sort();
        *self.samples.get(&(format!("pg_wait_tracer_{name}"), labels)).unwrap_or_else(|| panic!("no {name}"))
    }

    /// All samples of a name added up.
    pub fn sum(&self, name: &str) -> f64 {
        let of = |(key, value): (&(String, Vec<_>), &f64)| (key.0 == format!("pg_wait_tracer_{name}")).then_some(*value);
        let all: Vec<f64> = self.samples.iter().filter_map(of).collect();
        assert!(!all.is_empty(), "no {name}");
        all.iter().sum()
    }

    /// Every counter, by its text.
    pub fn counters(&self) -> BTreeMap<String, f64> {
        self.samples.iter().filter(|(key, _)| key.0.ends_with("_total")).map(|(key, value)| (format!("{key:?}"), *value)).collect()
    }
}

fn complains(text: &str) -> bool {
    let text = text.to_owned();
    std::panic::catch_unwind(move || Metrics::read(&text, Dialect::Prometheus)).is_err()
}

#[test]
fn the_reader_complains_where_promtool_does() {
    let head = |name: &str, kind: &str| format!("# HELP {name} Help.\n# TYPE {name} {kind}\n");
    let good = head("pg_wait_tracer_x_total", "counter") + "pg_wait_tracer_x_total{a=\"b\\\"\"} 1\n";
    assert!(!complains(&good));
    for bad in [
        "pg_wait_tracer_x_total 1\n".to_owned(),
        format!("{good}{good}"),
        format!("{good}pg_wait_tracer_x_total{{a=\"b\\\"\"}} 2\n"),
        format!("{good}pg_wait_tracer_x_total{{b=\"b\"}} 2\n"),
        good.replace("counter", "gauge"),
        good.replace("_total", ""),
        good.replace("x_total", "x_ms_total"),
        good.replace("x_total", "x_milliseconds_total"),
        good.replace("x_total", "x_seconds_spent_total"),
        good.replace("{a=", "{9a="),
        good.replace("} 1", "}1"),
        good.replace(" 1\n", " one\n"),
        good.replace("# TYPE pg_wait_tracer_x_total counter\n", ""),
        head("pg_wait_tracer_x_total", "counter"),
    ] {
        assert!(complains(&bad), "{bad}");
    }
}
