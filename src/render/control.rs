//! Answers of a control socket for people: a member per line, its unit taken from the end of its name. Pure.

use crate::show;
use serde_json::Value;

/// Why something was denied, in one line.
pub fn refusal(answer: &Value) -> String {
    let why = answer.get("error").and_then(Value::as_str).unwrap_or("the recorder refused and did not say why");
    let left = answer.get("budget_remaining_s").and_then(Value::as_f64);
    let about_budget = why.contains("budget");
    match left {
        Some(left) if left >= 0.0 && about_budget => format!("denied: {}; budget left: {}", show::safe(why), seconds(left)),
        _ => format!("denied: {}", show::safe(why)),
    }
}

/// An answer.
pub fn text(answer: &Value) -> String {
    if let Some(text) = answer.get("prometheus").and_then(Value::as_str) {
        return text.to_owned();
    }
    if let Some(escalated) = answer.get("escalated").and_then(Value::as_bool) {
        return window(answer, escalated);
    }
    let mut rows = Vec::new();
    collect("", answer.get("health").unwrap_or(answer), &mut rows);
    let width = rows.iter().map(|(name, _)| show::width(name)).max().unwrap_or(0);
    let lines: Vec<String> = rows.iter().map(|(name, value)| format!("{}  {value}\n", show::left(name, width))).collect();
    lines.concat()
}

/// What came of opening or closing a window.
fn window(answer: &Value, escalated: bool) -> String {
    let number = |member: &str| answer.get(member).and_then(Value::as_f64);
    let budget = number("budget_remaining_s").map_or(String::new(), |left| format!("; budget left: {}", limit(left)));
    if !escalated {
        return format!("no window is open{budget}\n");
    }
    let tier = answer.get("tier").and_then(Value::as_str).unwrap_or("exact");
    let granted = number("granted_s").map_or("until it is closed".into(), |s| format!("{} granted", seconds(s)));
    let closes = number("seconds_remaining").map_or(String::new(), |s| format!(", it closes in {}", seconds(s)));
    format!("{} window open: {granted}{closes}{budget}\n", show::safe(tier))
}

/// Names and values of an object's members, those of objects inside with a point.
fn collect(before: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let Value::Object(members) = value else {
        rows.push((before.to_owned(), show::safe(&value.to_string()).into_owned()));
        return;
    };
    for (member, value) in members.iter().filter(|(member, _)| !before.is_empty() || *member != "ok") {
        let name = if before.is_empty() { member.clone() } else { format!("{before}.{member}") };
        if value.is_object() {
            collect(&name, value, rows);
        } else {
            let (name, value) = told(&name, value);
            rows.push((show::safe(name).into_owned(), value));
        }
    }
}

/// A name without its unit, and a value with it.
fn told<'a>(name: &'a str, value: &Value) -> (&'a str, String) {
    let number = value.as_f64();
    let unit = |end: &str| name.strip_suffix(end).zip(number);
    if let Some(x) = number.filter(|_| name.ends_with("_per_s")) {
        return (name, format!("{x:.0}"));
    }
    if let Some((name, x)) = unit("_s") {
        return (name, limit(x));
    }
    if let Some(x) = number.filter(|_| name.ends_with("_seconds_remaining")) {
        return (name, seconds(x));
    }
    if name.ends_with("_ns_total") || name.ends_with("_ns") {
        return (name, show::duration(value.as_u64().unwrap_or(0)));
    }
    if let Some((name, x)) = unit("_bytes") {
        return (name, bytes(x));
    }
    if let Some((name, x)) = unit("_pct") {
        return (name, format!("{x:.1} %"));
    }
    if let Some((name, x)) = unit("_hz") {
        return (name, format!("{x} Hz"));
    }
    if let Some((name, x)) = unit("_cores") {
        return (name, if x < 0.0 { "unknown".into() } else { format!("{x} cores") });
    }
    let text = match value {
        Value::Null => show::NONE.into(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.into(),
        Value::String(text) if text.is_empty() => show::NONE.into(),
        Value::String(text) => show::safe(text).into_owned(),
        Value::Number(n) if n.is_f64() => format!("{:.2}", n.as_f64().unwrap_or(0.0)),
        Value::Array(all) if all.is_empty() => show::NONE.into(),
        other => show::safe(&other.to_string()).into_owned(),
    };
    (name, if name.ends_with("bytes_written_total") { bytes(number.unwrap_or(0.0)) } else { text })
}

/// Seconds of a budget; below 0 there is no limit.
fn limit(s: f64) -> String {
    if s < 0.0 { "no limit".into() } else { seconds(s) }
}

fn seconds(s: f64) -> String {
    if s < 60.0 { format!("{} s", (s * 10.0).round() / 10.0) } else { show::duration((s * 1e9) as u64) }
}

fn bytes(n: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut n = n;
    for unit in units {
        if n < 1024.0 || unit == "TiB" {
            return if unit == "bytes" { format!("{n} bytes") } else { format!("{n:.1} {unit}") };
        }
        n /= 1024.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_an_aligned_list_with_units() {
        let answer = json!({
            "ok": true, "mode": "tiered", "uptime_s": 245.3, "backends": 12, "escalation_budget_remaining_s": -1.0, "escalation_seconds_remaining": 41,
            "effective_cpu_capacity_cores": -1.0, "own_rss_bytes": 12_582_912, "cpu_ns_total": 1_500_000_000, "recording_error": null,
            "trace_dir": "/x\u{1b}[2J", "window": { "open": true, "overhead_pct": 3.25, "price_ns": 300 },
        });
        assert_eq!(
            text(&answer),
            "backends                      12\n\
             cpu_ns_total                  1.50 s\n\
             effective_cpu_capacity        unknown\n\
             escalation_budget_remaining   no limit\n\
             escalation_seconds_remaining  41 s\n\
             mode                          tiered\n\
             own_rss                       12.0 MiB\n\
             recording_error               —\n\
             trace_dir                     /x␛[2J\n\
             uptime                        4m 05s\n\
             window.open                   yes\n\
             window.overhead               3.2 %\n\
             window.price_ns               300 ns\n"
        );
    }

    #[test]
    fn what_came_of_a_window_is_a_sentence() {
        let opened = json!({ "ok": true, "escalated": true, "granted_s": 30, "seconds_remaining": 30, "budget_remaining_s": 240.5, "tier": "exact" });
        assert_eq!(text(&opened), "exact window open: 30 s granted, it closes in 30 s; budget left: 4m 00s\n");
        let closed = json!({ "ok": true, "escalated": false, "budget_remaining_s": -1.0 });
        assert_eq!(text(&closed), "no window is open; budget left: no limit\n");
        let denied = json!({ "ok": false, "error": "escalation budget exhausted for this hour", "budget_remaining_s": 0.0 });
        assert_eq!(refusal(&denied), "denied: escalation budget exhausted for this hour; budget left: 0 s");
        let never = json!({ "ok": false, "error": "escalation requires --mode tiered", "budget_remaining_s": 0.0 });
        assert_eq!(refusal(&never), "denied: escalation requires --mode tiered");
    }
}
