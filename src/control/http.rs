//! As much of HTTP/1.1 as a scraper needs: one GET or HEAD per connection. Pure.

use super::exposition::Format;

/// Longest head of a request, bytes.
pub const LONGEST: usize = 16 << 10;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The metrics.
    Metrics(Format),
    /// A line saying where they are.
    Root,
    /// Anything else.
    NotFound,
    /// Another method than GET and HEAD.
    NotAllowed,
    /// No request.
    Bad,
}

/// A request, once its head is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub wanted: Wanted,
    /// Whether only the head of the answer is (HEAD).
    pub head: bool,
}

/// Reads the head of a request. `None`: it is not complete yet.
pub fn read(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").or_else(|| bytes.windows(2).position(|w| w == b"\n\n"))?;
    let bad = Request { wanted: Wanted::Bad, head: false };
    let Some(head) = bytes.get(..end).and_then(|head| std::str::from_utf8(head).ok()) else { return Some(bad) };
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Some(bad);
    };
    if !version.starts_with("HTTP/1.") || method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase()) {
        return Some(bad);
    }
    let accept: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map(|(_, value)| value)
        .collect();
    let path = target.split('?').next().unwrap_or_default();
    let wanted = match (method, path) {
        ("GET" | "HEAD", "/metrics") => Wanted::Metrics(preferred(&accept.join(","))),
        ("GET" | "HEAD", "/") => Wanted::Root,
        ("GET" | "HEAD", _) => Wanted::NotFound,
        _ => Wanted::NotAllowed,
    };
    Some(Request { wanted, head: method == "HEAD" })
}

/// OpenMetrics, if it is asked for by name and at least as much as plain text.
fn preferred(accept: &str) -> Format {
    let weight = |media: &str| {
        let ranges = accept.split(',').map(|range| range.split(';').map(str::trim));
        let weights = ranges.filter_map(|mut parts| {
            let asked = parts.next()?.eq_ignore_ascii_case(media);
            let q = parts.find_map(|p| p.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
            asked.then_some(q)
        });
        weights.fold(0.0_f64, f64::max)
    };
    let open = weight("application/openmetrics-text");
    if open > 0.0 && open >= weight("text/plain") { Format::OpenMetrics } else { Format::Prometheus }
}

/// A whole answer, after which the connection ends.
pub fn answer(request: Request, metrics: impl FnOnce(Format) -> String) -> Vec<u8> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match request.wanted {
        Wanted::Metrics(format) => ("200 OK", format.content_type(), metrics(format)),
        Wanted::Root => ("200 OK", PLAIN, "pg_wait_tracer: metrics are at /metrics\n".into()),
        Wanted::NotFound => ("404 Not Found", PLAIN, "not found: metrics are at /metrics\n".into()),
        Wanted::NotAllowed => ("405 Method Not Allowed\r\nAllow: GET, HEAD", PLAIN, "only GET and HEAD\n".into()),
        Wanted::Bad => ("400 Bad Request", PLAIN, "not an HTTP/1.1 request\n".into()),
    };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n",
        body.len()
    );
    if !request.head {
        out.push_str(&body);
    }
    out.into_bytes()
}

/// The answer when there are too many clients, or the head is too long.
pub fn refusal(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Option<Wanted> {
        read(text.as_bytes()).map(|r| r.wanted)
    }

    #[test]
    fn requests_are_read_when_they_are_complete() {
        assert_eq!(wanted("GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(wanted("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Wanted::Metrics(Format::Prometheus)));
        assert_eq!(wanted("GET / HTTP/1.0\r\n\r\n"), Some(Wanted::Root));
        assert_eq!(wanted("GET /metric HTTP/1.1\r\n\r\n"), Some(Wanted::NotFound));
        assert_eq!(wanted("POST /metrics HTTP/1.1\r\n\r\n"), Some(Wanted::NotAllowed));
        for bad in ["GET /metrics\r\n\r\n", "get / HTTP/1.1\r\n\r\n", "\r\n\r\n", "GET / HTTP/2\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n"] {
            assert_eq!(wanted(bad), Some(Wanted::Bad), "{bad:?}");
        }
        assert_eq!(read(b"GET /\xff HTTP/1.1\r\n\r\n").map(|r| r.wanted), Some(Wanted::Bad));
    }

    #[test]
    fn the_text_is_the_one_the_scraper_prefers() {
        use Format::{OpenMetrics, Prometheus};
        for (accept, format) in [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/plain", Prometheus),
            ("application/openmetrics-text", OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
            ("application/openmetrics-text;q=0.1, text/plain;q=0.9", Prometheus),
            ("application/openmetrics-text;q=0", Prometheus),
        ] {
            assert_eq!(preferred(accept), format, "{accept}");
            let request = format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n");
            assert_eq!(wanted(&request), Some(Wanted::Metrics(format)));
        }
    }

    #[test]
    fn a_head_has_the_length_and_no_body() {
        let get = answer(Request { wanted: Wanted::Root, head: false }, |_| unreachable!());
        let head = answer(Request { wanted: Wanted::Root, head: true }, |_| unreachable!());
        assert!(get.starts_with(&head) && get.len() > head.len() && head.ends_with(b"\r\n\r\n"));
    }
}
