//! The text in which metrics are read by others: Prometheus text format 0.0.4 and OpenMetrics 1.0. Pure.
//!
//! A family is told once, with all its samples; without samples it is left out. Its unit is the end of its name.

use std::fmt::{self, Write};

/// What every name begins with.
pub const PREFIX: &str = "pg_wait_tracer_";

/// Which of the two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Only ever grows; its samples end in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Always 1; what counts are the labels. Its samples end in `_info`.
    Info,
}

/// Units that a name may end in.
const UNITS: [&str; 4] = ["seconds", "bytes", "ratio", "hertz"];

/// A value, written without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// Nanoseconds, told in seconds.
    Ns(u64),
    /// Anything else.
    Float(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Ns(ns) => write!(f, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
            Self::Float(x) if x.is_nan() => f.write_str("NaN"),
            Self::Float(x) if x.is_infinite() => f.write_str(if *x > 0.0 { "+Inf" } else { "-Inf" }),
            Self::Float(x) => write!(f, "{x}"),
        }
    }
}

/// One sample: its labels and its value.
pub type Sample<'a> = (Vec<(&'static str, &'a str)>, Value);

/// Metrics being written.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    out: String,
}

impl Exposition {
    /// Nothing yet.
    pub fn new(format: Format) -> Self {
        Self { format, out: String::new() }
    }

    /// A counter, by its name without prefix and `_total`.
    pub fn counter<'a>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample<'a>>) {
        self.family(Kind::Counter, name, help, samples);
    }

    /// A counter of one sample without labels.
    pub fn count(&mut self, name: &str, help: &str, value: Value) {
        self.family(Kind::Counter, name, help, [(Vec::new(), value)]);
    }

    /// A gauge, by its name without prefix.
    pub fn gauges<'a>(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample<'a>>) {
        self.family(Kind::Gauge, name, help, samples);
    }

    /// A gauge of one sample without labels; left out when it is not known.
    pub fn gauge(&mut self, name: &str, help: &str, value: Option<Value>) {
        self.family(Kind::Gauge, name, help, value.map(|v| (Vec::new(), v)));
    }

    /// Something described by its labels, by its name without prefix and `_info`.
    pub fn info(&mut self, name: &str, help: &str, labels: Vec<(&'static str, &str)>) {
        self.family(Kind::Info, name, help, [(labels, Value::Count(1))]);
    }

    fn family<'a>(&mut self, kind: Kind, name: &str, help: &str, samples: impl IntoIterator<Item = Sample<'a>>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let tail = match kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        let open = self.format == Format::OpenMetrics;
        // The older text calls a family like its samples.
        let family = format!("{PREFIX}{name}{}", if open { "" } else { tail });
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Info if open => "info",
            Kind::Gauge | Kind::Info => "gauge",
        };
        let out = &mut self.out;
        // Writing into a string does not fail.
        let _ = writeln!(out, "# HELP {family} {}", Escaped(help, open));
        let _ = writeln!(out, "# TYPE {family} {kind}");
        if open && let Some(unit) = UNITS.iter().find(|unit| name.ends_with(**unit)) {
            let _ = writeln!(out, "# UNIT {family} {unit}");
        }
        for (labels, value) in samples {
            let _ = write!(out, "{PREFIX}{name}{tail}");
            for (i, (label, text)) in labels.iter().enumerate() {
                let _ = write!(out, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, Escaped(text, true));
            }
            let _ = writeln!(out, "{} {value}", if labels.is_empty() { "" } else { "}" });
        }
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

/// Text inside quotes (true), or to the end of a line.
struct Escaped<'a>(&'a str, bool);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.1 => f.write_str("\\\"")?,
                // Names of events are of the server, which may have been told anything.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format) -> String {
        let mut e = Exposition::new(format);
        e.counter("wait_seconds", "A \"help\"\nof two \\ lines", [(vec![("event", "a\"b\\c\nd\u{1b}")], Value::Ns(1_000_000_007))]);
        e.gauge("left", "h", Some(Value::Float(f64::INFINITY)));
        e.gauge("unknown", "h", None);
        e.info("build", "h", vec![("version", "1")]);
        e.finish()
    }

    #[test]
    fn both_texts_are_as_their_specifications_have_them() {
        assert_eq!(
            text(Format::Prometheus),
            "# HELP pg_wait_tracer_wait_seconds_total A \"help\"\\nof two \\\\ lines\n\
             # TYPE pg_wait_tracer_wait_seconds_total counter\n\
             pg_wait_tracer_wait_seconds_total{event=\"a\\\"b\\\\c\\nd\u{fffd}\"} 1.000000007\n\
             # HELP pg_wait_tracer_left h\n# TYPE pg_wait_tracer_left gauge\npg_wait_tracer_left +Inf\n\
             # HELP pg_wait_tracer_build_info h\n# TYPE pg_wait_tracer_build_info gauge\npg_wait_tracer_build_info{version=\"1\"} 1\n"
        );
        assert_eq!(
            text(Format::OpenMetrics),
            "# HELP pg_wait_tracer_wait_seconds A \\\"help\\\"\\nof two \\\\ lines\n\
             # TYPE pg_wait_tracer_wait_seconds counter\n# UNIT pg_wait_tracer_wait_seconds seconds\n\
             pg_wait_tracer_wait_seconds_total{event=\"a\\\"b\\\\c\\nd\u{fffd}\"} 1.000000007\n\
             # HELP pg_wait_tracer_left h\n# TYPE pg_wait_tracer_left gauge\npg_wait_tracer_left +Inf\n\
             # HELP pg_wait_tracer_build h\n# TYPE pg_wait_tracer_build info\npg_wait_tracer_build_info{version=\"1\"} 1\n# EOF\n"
        );
    }
}
