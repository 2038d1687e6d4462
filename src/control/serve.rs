//! The thread `pgwt-control`: one poll for all who listen and all who are connected.

use super::Doors;
use super::board::Served;
use super::client::{Client, Stream};
use super::desk::Desk;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Result};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Clients of the control socket at once.
pub const MOST: usize = 64;
/// Clients of HTTP at once. They are dropped soon when they ask for nothing.
pub const MOST_HTTP: usize = 32;
/// How much nicer than capture this thread is.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// How often it is looked for what capture answers.
const LOOK: Duration = Duration::from_millis(5);
/// How long nobody is accepted when accepting fails: descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// The listening ends.
#[derive(Debug)]
pub struct Listeners {
    lines: Option<UnixListener>,
    http: Option<TcpListener>,
}

impl Listeners {
    /// Those of the doors.
    pub fn new(doors: &Doors) -> Result<Self> {
        let lines = doors.socket.as_ref().map(super::socket::Socket::listener).transpose()?;
        let http = doors.metrics.as_ref().map(TcpListener::try_clone).transpose()?;
        if let Some(http) = &http {
            http.set_nonblocking(true)?;
        }
        Ok(Self { lines, http })
    }

    fn lines(&self) -> Result<Stream> {
        let Some(listener) = &self.lines else { return Err(ErrorKind::WouldBlock.into()) };
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(Stream::Lines(stream))
    }

    fn http(&self) -> Result<Stream> {
        let Some(listener) = &self.http else { return Err(ErrorKind::WouldBlock.into()) };
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(Stream::Http(stream))
    }
}

/// Serves until the other end of `ended` is closed.
pub fn run(listeners: Listeners, desk: &Desk, ended: &UnixStream) {
    // Whoever asks without end takes what capture leaves of the CPU. Of a thread, on Linux.
    #[cfg(target_os = "linux")]
    rustix::process::nice(NICE).ok();
    let mut clients: Vec<Client> = Vec::new();
    let mut paused: Option<Instant> = None;
    loop {
        let now = Instant::now();
        if paused.is_some_and(|until| now >= until) {
            paused = None;
        }
        let Some(found) = wait(&listeners, &clients, ended, paused, now) else { return };
        let now = Instant::now();
        for (client, flags) in clients.iter_mut().zip(found.clients) {
            client.work(flags, desk, now);
        }
        clients.retain(|c| !c.is_over());
        let mut failed = false;
        if found.lines {
            failed |= accept(|| listeners.lines(), &mut clients, MOST, desk, now);
        }
        if found.http {
            failed |= accept(|| listeners.http(), &mut clients, MOST_HTTP, desk, now);
        }
        if failed {
            paused = Some(now + PAUSE);
        }
        let lines = clients.iter().filter(|c| c.is_lines()).count();
        desk.board().served.clients.store(lines as u64, Ordering::Relaxed);
    }
}

/// Takes in all who knock. True: it failed in a way that would only fail again.
fn accept(next: impl Fn() -> Result<Stream>, clients: &mut Vec<Client>, most: usize, desk: &Desk, now: Instant) -> bool {
    // As many as there can be, so that nobody keeps this thread by knocking.
    for _ in 0..most {
        match next() {
            Ok(stream) => {
                let client = Client::new(stream, now);
                let alike = clients.iter().filter(|c| c.is_lines() == client.is_lines()).count();
                if alike < most {
                    clients.push(client);
                } else {
                    Served::count(&desk.board().served.refused);
                    client.send_away();
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
    false
}

/// What there is to do.
struct Found {
    lines: bool,
    http: bool,
    /// In the order of the clients.
    clients: Vec<PollFlags>,
}

/// Waits for something to do. `None`: it is over.
fn wait(listeners: &Listeners, clients: &[Client], ended: &UnixStream, paused: Option<Instant>, now: Instant) -> Option<Found> {
    let mut fds = vec![PollFd::new(ended, PollFlags::IN)];
    let (lines, http) = (listeners.lines.as_ref(), listeners.http.as_ref());
    let (lines, http) = if paused.is_some() { (None, None) } else { (lines, http) };
    fds.extend(lines.map(|l| PollFd::new(l, PollFlags::IN)));
    fds.extend(http.map(|l| PollFd::new(l, PollFlags::IN)));
    let interests: Vec<_> = clients.iter().map(Client::interest).collect();
    fds.extend(interests.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
    let due = clients.iter().filter_map(Client::due).chain(paused).min().map(|due| due.saturating_duration_since(now));
    let look = clients.iter().any(Client::is_waiting).then_some(LOOK);
    let work = clients.iter().any(Client::has_work).then_some(Duration::ZERO);
    let patience = [due, look, work].into_iter().flatten().min();
    // A millisecond more: what is due then is due when it is looked at.
    let patience = patience.map(|p| if p.is_zero() { p } else { p + Duration::from_millis(1) });
    let patience = patience.and_then(|p| Timespec::try_from(p).ok());
    if let Err(error) = poll(&mut fds, patience.as_ref())
        && error != rustix::io::Errno::INTR
    {
        // There is no memory: later.
        std::thread::sleep(PAUSE);
    }
    let mut found = fds.iter().map(PollFd::revents);
    if found.next().is_none_or(|flags| !flags.is_empty()) {
        return None;
    }
    let mut next = |is: bool| if is { found.next().unwrap_or_else(PollFlags::empty) } else { PollFlags::empty() };
    let (lines, http) = (!next(lines.is_some()).is_empty(), !next(http.is_some()).is_empty());
    let clients = interests.iter().map(|i| next(i.is_some())).collect();
    Some(Found { lines, http, clients })
}
