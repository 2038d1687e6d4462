//! Text into the clipboard of the user's terminal, wherever that runs: OSC 52, wrapped where a multiplexer is in between. Pure.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Which multiplexer is between the program and the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// None.
    Nothing,
    /// tmux.
    Tmux,
    /// GNU screen.
    Screen,
}

impl Between {
    /// As the environment says.
    pub fn read() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        match (set("TMUX"), set("STY")) {
            (true, _) => Self::Tmux,
            (false, true) => Self::Screen,
            (false, false) => Self::Nothing,
        }
    }
}

/// What is to be written to the terminal. tmux takes the plain sequence into its own buffer and passes the wrapped one on, each only when it is
/// configured to: it gets both.
pub fn osc52(text: &str, between: Between) -> String {
    let plain = format!("\x1b]52;c;{}\x07", base64(text.as_bytes()));
    match between {
        Between::Nothing => plain,
        Between::Tmux => format!("{plain}\x1bPtmux;{}\x1b\\", plain.replace('\x1b', "\x1b\x1b")),
        Between::Screen => format!("\x1bP{plain}\x1b\\"),
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = ALPHABET.get((word >> (18 - 6 * i) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if i <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_usual_one() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("select 'ä'", "c2VsZWN0ICfDpCc=")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn multiplexers_get_it_wrapped() {
        assert_eq!(osc52("foo", Between::Nothing), "\x1b]52;c;Zm9v\x07");
        assert_eq!(osc52("foo", Between::Tmux), "\x1b]52;c;Zm9v\x07\x1bPtmux;\x1b\x1b]52;c;Zm9v\x07\x1b\\");
        assert_eq!(osc52("foo", Between::Screen), "\x1bP\x1b]52;c;Zm9v\x07\x1b\\");
    }
}
