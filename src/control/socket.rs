//! The control socket as a file: `pgwt.sock` in a trace directory, for its owner alone from its first moment, gone at the end.
//!
//! Only whoever holds the directory's lock makes it, so that a socket found there is a left one. A path longer than a socket's may be is reached
//! through the opened directory.

use anyhow::{Context, Result, bail};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Its name in the directory.
pub const NAME: &str = "pgwt.sock";
/// Longest path a socket can have everywhere.
const LONGEST: usize = 100;

/// A socket that is listened on. Dropping it removes the file, if it still is this one.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    file: (u64, u64),
}

impl Socket {
    /// Makes it. The error is one line; [`Self::is_taken`] says of it that somebody answers there.
    pub fn make(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("no control socket: {} cannot be looked at", path.display())),
            Ok(found) if !found.file_type().is_socket() => bail!("no control socket: {} is there and is no socket", path.display()),
            Ok(_) if reach(dir, |short| UnixStream::connect(short)).is_ok() => return Err(Taken(path).into()),
            Ok(_) => fs::remove_file(&path).with_context(|| format!("no control socket: the old {} cannot be removed", path.display()))?,
        }
        let made = || format!("no control socket: {} cannot be made", path.display());
        let listener = reach(dir, bind).with_context(made)?;
        listener.set_nonblocking(true).with_context(made)?;
        let file = identity(&path).with_context(made)?;
        Ok(Self { listener, path, file })
    }

    /// Whether an error of [`Self::make`] means that another recorder answers on the socket.
    pub fn is_taken(error: &anyhow::Error) -> bool {
        error.is::<Taken>()
    }

    /// The listening end, once more.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Somebody answers on the socket.
#[derive(Debug)]
struct Taken(PathBuf);

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "another pg_wait_tracer daemon is already running and answers on {}: stop it, or give another directory with -T",
            self.0.display()
        )
    }
}

impl std::error::Error for Taken {}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}

/// Connects to the socket in a directory.
pub fn connect(dir: &Path) -> io::Result<UnixStream> {
    reach(dir, |path| UnixStream::connect(path))
}

/// Does something with the socket's path, or with a short one that leads to the same place.
fn reach<T>(dir: &Path, then: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = dir.join(NAME);
    if path.as_os_str().len() <= LONGEST {
        return then(&path);
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let opened = fs::File::open(dir)?;
        then(&PathBuf::from(format!("/proc/self/fd/{}/{NAME}", opened.as_raw_fd())))
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a socket"))
}

/// A socket's file takes over the mode of the socket, if that was set before: there is no moment in which others may connect.
#[cfg(target_os = "linux")]
fn bind(path: &Path) -> io::Result<UnixListener> {
    use rustix::fs::Mode;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The umask may have taken the owner's rights, too.
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, 128)?;
    Ok(UnixListener::from(socket))
}

#[cfg(not(target_os = "linux"))]
fn bind(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_for_its_owner_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        // Also where the path is longer than a socket's may be.
        let deep = dir.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        for dir in [dir.path(), &deep] {
            let socket = Socket::make(dir).unwrap();
            let mode = fs::metadata(dir.join(NAME)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{mode:o}");
            connect(dir).unwrap();
            let taken = Socket::make(dir).unwrap_err();
            assert!(Socket::is_taken(&taken) && taken.to_string().contains("already running"), "{taken}");
            drop(socket);
            assert!(!dir.join(NAME).exists());
        }
    }

    #[test]
    fn a_left_socket_is_replaced_and_anything_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(dir.path().join(NAME)).unwrap());
        assert_eq!(connect(dir.path()).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let socket = Socket::make(dir.path()).unwrap();
        connect(dir.path()).unwrap();
        // Somebody else's, by now: it stays.
        fs::remove_file(dir.path().join(NAME)).unwrap();
        fs::write(dir.path().join(NAME), "mine").unwrap();
        drop(socket);
        let refused = Socket::make(dir.path()).unwrap_err();
        assert!(!Socket::is_taken(&refused) && refused.to_string().contains("is no socket"), "{refused}");
        assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), b"mine");
    }
}
