//! The other end of the control socket: one line asked, one line back.

use super::socket::{NAME, connect};
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer, bytes.
const LONGEST: u64 = 16 << 20;

/// Asks the recorder of a directory. The error is one line: what is wrong, and what to do.
pub fn call(dir: &Path, request: &str) -> Result<String> {
    let shown = dir.join(NAME);
    let shown = shown.display();
    let start = || format!("start one with pg_wait_tracer --daemon -T {}", dir.display());
    let mut stream = match connect(dir) {
        Ok(stream) => stream,
        Err(e) if e.kind() == ErrorKind::NotFound => bail!("no recorder runs here, there is no {shown}: {}", start()),
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
            bail!("no recorder answers on {shown}, it was left by one that was killed: {}", start())
        }
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            bail!("{shown} is for the user the recorder runs as alone: call this as that user, or with sudo")
        }
        Err(e) => return Err(e).with_context(|| format!("cannot connect to {shown}")),
    };
    let talk = |stream: &mut std::os::unix::net::UnixStream| -> std::io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // A recorder that sends us away does not read; what it said is there all the same.
        let asked = stream.write_all(format!("{request}\n").as_bytes()).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        match stream.take(LONGEST).read_to_end(&mut answer) {
            Err(e) if answer.is_empty() => return Err(e),
            _ => {}
        }
        if answer.is_empty() { asked.map(|()| answer) } else { Ok(answer) }
    };
    let answer = talk(&mut stream).with_context(|| format!("the recorder on {shown} did not answer"))?;
    let line = answer.split(|b| *b == b'\n').next().unwrap_or_default();
    if line.is_empty() {
        bail!("the recorder on {shown} ended before it answered");
    }
    String::from_utf8(line.to_vec()).with_context(|| format!("what answers on {shown} is no recorder"))
}
