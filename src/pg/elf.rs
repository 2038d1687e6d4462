//! Addresses of the server's global variables at run time, for the few things that are private to a process.
//!
//! The file is opened through `/proc/PID/exe`, so a binary that was replaced on disk, or lies in a container, is the one that runs. `.dynsym`
//! is enough: stripped servers export their globals to extensions.

use super::process::{Mapping, ProcFs};
use anyhow::{Context, Result};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Smallest page of any machine PostgreSQL runs on; mappings start at multiples of it.
const PAGE: u64 = 4096;

/// Run-time addresses of global variables, in the order asked; `None` for those the binary does not export.
///
/// The same in all processes of a server: they are forked from the postmaster and never `exec`.
pub fn addresses(proc_fs: &ProcFs, pid: i32, names: &[&str]) -> Result<Vec<Option<u64>>> {
    let exe = proc_fs.path(pid, "exe");
    let binary = fs::read(&exe).with_context(|| format!("cannot read the binary of process {pid}"))?;
    let file = fs::metadata(&exe).with_context(|| format!("cannot read the binary of process {pid}"))?;
    let link = fs::read_link(&exe).unwrap_or_default();
    let maps = proc_fs.maps(pid).with_context(|| format!("cannot read the mappings of process {pid}"))?;
    let device = (libc::major(file.dev()), libc::minor(file.dev()));
    let first =
        first_mapping(&maps, device, file.ino(), &link.to_string_lossy()).context("the server's binary is not among its mappings")?;
    resolve(&binary, first, names)
}

/// The lowest mapping of the binary itself: by device and inode. Overlay file systems may show other numbers in `maps` than in `stat`, then
/// by the whole path. Never by a part of it: extensions lie in directories called `postgresql`.
fn first_mapping<'a>(maps: &'a [Mapping], device: (u32, u32), inode: u64, path: &str) -> Option<&'a Mapping> {
    maps.iter().find(|m| m.inode == inode && m.device == device).or_else(|| maps.iter().find(|m| m.inode != 0 && m.path == path))
}

/// Link-time addresses moved to where the binary was loaded: by nothing for a fixed-address binary.
fn resolve(binary: &[u8], first: &Mapping, names: &[&str]) -> Result<Vec<Option<u64>>> {
    let file = ElfFile64::<Endianness>::parse(binary).context("the server's binary is no 64-bit ELF file")?;
    let endian = file.endian();
    let segment = file
        .elf_program_headers()
        .iter()
        .find(|p| p.p_type(endian) == elf::PT_LOAD && p.p_offset(endian) / PAGE == first.offset / PAGE)
        .context("the server's binary is mapped in an unknown way")?;
    let linked = segment.p_vaddr(endian).wrapping_sub(segment.p_offset(endian));
    let moved = first.start.wrapping_sub(first.offset).wrapping_sub(linked);
    let mut found = vec![None; names.len()];
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        if symbol.address() == 0 || symbol.is_undefined() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        for (slot, _) in found.iter_mut().zip(names).filter(|(slot, wanted)| slot.is_none() && **wanted == name) {
            *slot = Some(symbol.address().wrapping_add(moved));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, offset: u64, device: (u32, u32), inode: u64, path: &str) -> Mapping {
        Mapping { start, end: start + PAGE, shared: false, offset, device, inode, path: path.into() }
    }

    #[test]
    fn the_binary_is_found_among_its_libraries() {
        let maps = [
            mapping(0x1000, 0, (8, 1), 7, "/usr/lib/postgresql/18/lib/pg_stat_statements.so"),
            mapping(0x5000, 0, (8, 1), 9, "/usr/lib/postgresql/18/bin/postgres"),
            mapping(0x6000, PAGE, (8, 1), 9, "/usr/lib/postgresql/18/bin/postgres"),
        ];
        assert_eq!(first_mapping(&maps, (8, 1), 9, "").map(|m| m.start), Some(0x5000));
        assert_eq!(first_mapping(&maps, (0, 40), 9, "/usr/lib/postgresql/18/bin/postgres").map(|m| m.start), Some(0x5000));
        assert_eq!(first_mapping(&maps, (0, 40), 9, "postgres"), None);
    }

    /// A minimal ELF file: header, one `PT_LOAD`, sections null, `.dynsym`, `.dynstr`, with one symbol.
    fn tiny(kind: u16, vaddr: u64, value: u64) -> Vec<u8> {
        let mut f = Vec::new();
        f.extend_from_slice(b"\x7fELF\x02\x01\x01");
        f.resize(16, 0);
        let half = |f: &mut Vec<u8>, v: u16| f.extend_from_slice(&v.to_le_bytes());
        let word = |f: &mut Vec<u8>, v: u32| f.extend_from_slice(&v.to_le_bytes());
        let long = |f: &mut Vec<u8>, v: u64| f.extend_from_slice(&v.to_le_bytes());
        half(&mut f, kind);
        half(&mut f, 62);
        word(&mut f, 1);
        long(&mut f, 0);
        long(&mut f, 64);
        long(&mut f, 64 + 56 + 48 + 16);
        word(&mut f, 0);
        for v in [64, 56, 1, 64, 3, 2] {
            half(&mut f, v);
        }
        word(&mut f, 1);
        word(&mut f, 6);
        for v in [0, vaddr, vaddr, 0x2000, 0x2000, PAGE] {
            long(&mut f, v);
        }
        f.resize(64 + 56 + 24, 0);
        word(&mut f, 1);
        f.extend_from_slice(&[0x11, 0]);
        half(&mut f, 1);
        long(&mut f, value);
        long(&mut f, 8);
        f.extend_from_slice(b"\0MyProc\0\0\0\0\0\0\0\0\0");
        f.resize(f.len() + 64, 0);
        for (kind, offset, size, link, entry) in [(11_u32, 64 + 56, 48, 2, 24), (3, 64 + 56 + 48, 16, 0, 0)] {
            word(&mut f, 0);
            word(&mut f, kind);
            for v in [0, 0, offset, size] {
                long(&mut f, v);
            }
            word(&mut f, link);
            word(&mut f, 1);
            long(&mut f, 8);
            long(&mut f, entry);
        }
        f
    }

    #[test]
    fn position_independent_and_fixed_binaries() {
        let pie = tiny(3, 0, 0x1234);
        let at = resolve(&pie, &mapping(0x5555_0000_0000, 0, (8, 1), 9, ""), &["MyProc", "MyBEEntry"]).unwrap();
        assert_eq!(at, [Some(0x5555_0000_1234), None]);
        let fixed = tiny(2, 0x40_0000, 0x40_1234);
        let at = resolve(&fixed, &mapping(0x40_0000, 0, (8, 1), 9, ""), &["MyProc"]).unwrap();
        assert_eq!(at, [Some(0x40_1234)]);
        assert!(resolve(b"\x7fELF", &mapping(0, 0, (8, 1), 9, ""), &["MyProc"]).is_err());
    }
}
