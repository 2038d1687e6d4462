//! Asks the terminal for its background colour (OSC 11), so that dark letters are not put on a dark ground nor light ones on a light.
//!
//! Runs once, on the screen's thread, after the terminal was made raw and before the key thread starts: nobody else reads then. The question for
//! the terminal's kind (DA1) goes with it, which every terminal answers; so one that does not know colours does not cost the whole patience.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Write, stdin, stdout};
use std::time::{Duration, Instant};

/// Longest wait for a terminal that answers nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest reply that is read.
const LONGEST: usize = 256;

/// Whether the terminal's background is light; `None` when it does not say.
pub fn is_light() -> Option<bool> {
    let mut out = stdout();
    out.write_all(b"\x1b]11;?\x1b\\\x1b[c").and_then(|()| out.flush()).ok()?;
    let (input, end) = (stdin(), Instant::now() + PATIENCE);
    let mut reply = Vec::new();
    while !is_whole(&reply) && reply.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        if left.is_zero() || poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&wait)).is_ok_and(|n| n == 0) {
            break;
        }
        let mut part = [0; 64];
        match rustix::io::read(&input, &mut part) {
            Ok(0) => break,
            Ok(n) => reply.extend(part.iter().take(n)),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    light(&reply)
}

/// Whether the reply to the second question is there: `ESC [ ? … c`.
fn is_whole(reply: &[u8]) -> bool {
    let start = reply.windows(3).position(|w| w == b"\x1b[?");
    start.is_some_and(|at| reply.iter().skip(at).any(|b| *b == b'c'))
}

/// Reads `ESC ] 11 ; rgb:RRRR/GGGG/BBBB` with one to four digits per channel.
fn light(reply: &[u8]) -> Option<bool> {
    let text = String::from_utf8_lossy(reply);
    let (_, color) = text.split_once("]11;rgb:")?;
    let mut channels = color.split('/').take(3).map(|channel| {
        let digits: String = channel.chars().take_while(char::is_ascii_hexdigit).take(4).collect();
        let most = f64::from(16u32.pow(u32::try_from(digits.len()).ok()?) - 1);
        Some(f64::from(u32::from_str_radix(&digits, 16).ok()?) / most)
    });
    let (r, g, b) = (channels.next()??, channels.next()??, channels.next()??);
    Some(0.299 * r + 0.587 * g + 0.114 * b > 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_however_they_are_written() {
        assert_eq!(light(b"\x1b]11;rgb:ffff/ffff/dddd\x1b\\\x1b[?62;4c"), Some(true));
        assert_eq!(light(b"\x1b]11;rgb:1e/1e/1e\x07"), Some(false));
        assert_eq!(light(b"q\x1b]11;rgb:fd/f6/e3\x07\x1b[?1;2c"), Some(true));
        for nothing in [&b""[..], b"\x1b[?1;2c", b"\x1b]11;rgb:", b"\x1b]11;rgb:ff/ff", b"\x1b]11;rgb:x/y/z\x07", b"\xff\xfe"] {
            assert_eq!(light(nothing), None);
        }
    }

    #[test]
    fn the_kind_of_terminal_ends_the_wait() {
        assert!(is_whole(b"\x1b]11;rgb:1e/1e/1e\x07\x1b[?62;4c"));
        assert!(is_whole(b"\x1b[?1;2c"));
        assert!(!is_whole(b"\x1b]11;rgb:cc/cc/cc\x07\x1b[?62"));
    }
}
