//! Which cluster a server runs, whatever its process: its data directory and the number initdb gave it.

use super::discover::Postmaster;
use std::fs::File;
use std::io::Read;

impl Postmaster {
    /// One line that is the same for each run on the same data; without the number where that may not be read.
    pub fn identity(&self) -> String {
        // The first eight bytes of the control file, reached through the server's own directory: also in a container.
        let mut id = [0; 8];
        let read = File::open(format!("/proc/{}/cwd/global/pg_control", self.pid)).and_then(|mut f| f.read_exact(&mut id));
        let pgdata = self.pgdata.display();
        if read.is_ok() { format!("{} {pgdata}", u64::from_ne_bytes(id)) } else { pgdata.to_string() }
    }
}
