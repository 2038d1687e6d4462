//! Who may read a recording: directories 0750, files 0640, all of one group.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Owner and modes of everything a recorder makes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    /// Group of every file; `None`: the recorder's own.
    pub group: Option<u32>,
}

/// The number of a group by its name, as `/etc/group` has it.
pub fn group(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    })
}

impl Access {
    /// Makes a directory, if it is not there.
    pub fn directory(self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o750).create(path)?;
        let dir = File::open(path)?;
        dir.set_permissions(Permissions::from_mode(0o750))?;
        self.own(&dir)
    }

    fn own(self, file: &File) -> io::Result<()> {
        self.group.map_or(Ok(()), |gid| fchown(file, None, Some(gid)))
    }

    /// Opens a file for writing with the right owner and mode from its first byte on.
    pub fn open(self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        let file = options.mode(0o640).open(path)?;
        if file.metadata()?.permissions().mode() & 0o777 != 0o640 {
            file.set_permissions(Permissions::from_mode(0o640))?;
        }
        self.own(&file)?;
        Ok(file)
    }

    /// Writes a whole file in one step: beside it, then renamed.
    pub fn replace(self, path: &Path, content: &[u8]) -> io::Result<()> {
        use std::io::Write;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".tmp");
        let beside = Path::new(&beside);
        self.open(beside, OpenOptions::new().write(true).create(true).truncate(true))?.write_all(content)?;
        fs::rename(beside, path)
    }
}

/// Makes renames and removals in a directory last.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
