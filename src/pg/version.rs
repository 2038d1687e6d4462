//! Which PostgreSQL a binary is, without running it: every server holds the line `PostgreSQL 18.4 on x86_64-…` that `version()` returns.

use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Starts the line that `version()` returns.
const MARK: &[u8] = b"PostgreSQL ";

/// The version a binary states, such as `18.4` or `19rc1`. Reads its constants (about 2 MB); all of a binary without section headers.
pub fn of_binary(path: &Path) -> Option<String> {
    in_constants(File::open(path).ok()?).or_else(|| scan(File::open(path).ok()?))
}

fn in_constants(file: File) -> Option<String> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    find(elf.section_by_name(".rodata")?.data().ok()?)
}

/// The number in front of the first dot or letter.
pub fn major(version: &str) -> Option<u16> {
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn scan(mut file: impl Read) -> Option<String> {
    const OVERLAP: usize = 128;
    let mut window = Vec::with_capacity(OVERLAP + (1 << 16));
    loop {
        let kept = window.len();
        file.by_ref().take(1 << 16).read_to_end(&mut window).ok()?;
        if let Some(version) = find(&window) {
            return Some(version);
        }
        if window.len() == kept {
            return None;
        }
        window.drain(..window.len().saturating_sub(OVERLAP));
    }
}

fn find(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| *b == b'P') {
        rest = rest.get(at..)?;
        if let Some(version) = rest.strip_prefix(MARK).and_then(stated) {
            return Some(version);
        }
        rest = rest.get(1..)?;
    }
    None
}

/// `18.4 on x86_64-pc-linux-gnu, …` or `15.20 (Debian 15.20-0) on …` → the version; anything else that begins with the same word → nothing.
fn stated(text: &[u8]) -> Option<String> {
    let text = text.get(..OVERLONG.min(text.len()))?;
    let line: Vec<u8> = text.iter().copied().take_while(|b| (b' '..0x7f).contains(b)).collect();
    let line = String::from_utf8(line).ok()?;
    let (version, rest) = line.split_once(' ')?;
    let sane = version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    (sane && (rest.starts_with("on ") || (rest.starts_with('(') && rest.contains(") on ")))).then(|| version.to_owned())
}

/// As much of the line as is looked at.
const OVERLONG: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_line_wherever_it_lies() {
        let line = b"\0PostgreSQL 18.4 on x86_64-pc-linux-gnu, compiled by gcc\0";
        for pad in [0, 1, 65_530, 65_535, 65_536, 131_070] {
            let mut file = b"PostgreSQL server\0PostgreSQL %s\0postgres (PostgreSQL) 17\n\0".to_vec();
            file.resize(file.len() + pad, b'P');
            file.extend_from_slice(line);
            assert_eq!(scan(&*file).as_deref(), Some("18.4"), "{pad}");
        }
        assert_eq!(scan(&b"nothing here"[..]), None);
        assert_eq!(scan(&b"PostgreSQL "[..]), None);
    }

    #[test]
    fn versions_of_packagers() {
        assert_eq!(stated(b"15.20 (Debian 15.20-0+deb12u1) on x86_64\0").as_deref(), Some("15.20"));
        assert_eq!(stated(b"19rc1 on x86_64").as_deref(), Some("19rc1"));
        assert_eq!(stated(b"database system"), None);
        assert_eq!(major("19rc1"), Some(19));
        assert_eq!(major("15.20"), Some(15));
        assert_eq!(major(""), None);
    }
}
