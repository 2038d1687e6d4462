//! One connection: bounded buffers in both directions, requests answered in order. Never blocks.

use super::board::Served;
use super::desk::{Desk, Reply, Waiting, refusal};
use super::http;
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest request, bytes.
pub const LONGEST: usize = 64 << 10;
/// With so much not read by the client yet, no more of its requests are answered.
const UNREAD: usize = 64 << 10;
/// Requests of one client answered before others have their turn.
const TURN: usize = 16;
/// A client that reads nothing of what waits for it for so long is dropped, as is one of HTTP that does not say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long what a client still sends is thrown away after the last answer, so that it can read that.
const LINGER: Duration = Duration::from_secs(1);

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// On the control socket: JSON lines.
    Lines(UnixStream),
    /// HTTP.
    Http(TcpStream),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Self::Lines(s) => s.read(into),
            Self::Http(s) => s.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Lines(s) => s.write(bytes),
            Self::Http(s) => s.write(bytes),
        }
    }

    fn finish(&self) {
        // It may be gone already.
        let _ = match self {
            Self::Lines(s) => s.shutdown(Shutdown::Write),
            Self::Http(s) => s.shutdown(Shutdown::Write),
        };
    }

    /// Tells a client that is not taken why, as far as that can be done at once.
    fn send_away(mut self) {
        let why = match &self {
            Self::Lines(_) => (refusal("too many clients") + "\n").into_bytes(),
            Self::Http(_) => http::refusal("503 Service Unavailable"),
        };
        let _ = self.write(&why);
        self.finish();
    }
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Requests are read and answered.
    Open,
    /// What was asked last is answered; then it ends.
    Last,
    /// All was sent; what still comes is thrown away.
    Lingering,
    /// To be forgotten.
    Over,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    phase: Phase,
    inbox: Vec<u8>,
    /// The client sends nothing more.
    eof: bool,
    /// The client is gone in both directions.
    hung: bool,
    outbox: Vec<u8>,
    sent: usize,
    waiting: Option<Waiting>,
    /// Since when nothing has moved that should.
    since: Instant,
}

impl Client {
    /// A new connection. It must not block.
    pub fn new(stream: Stream, now: Instant) -> Self {
        Self {
            stream,
            phase: Phase::Open,
            inbox: Vec::new(),
            eof: false,
            hung: false,
            outbox: Vec::new(),
            sent: 0,
            waiting: None,
            since: now,
        }
    }

    /// Tells it that there are too many, and forgets it.
    pub fn send_away(self) {
        self.stream.send_away();
    }

    /// Whether it speaks JSON lines.
    pub fn is_lines(&self) -> bool {
        matches!(self.stream, Stream::Lines(_))
    }

    /// Whether it can be forgotten.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether capture is to answer it.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether it has asked for more than was answered in its turn.
    pub fn has_work(&self) -> bool {
        self.phase == Phase::Open && self.waiting.is_none() && self.unread() < UNREAD && self.has_request()
    }

    fn has_request(&self) -> bool {
        match self.stream {
            Stream::Lines(_) => self.inbox.contains(&b'\n') || (self.eof && !self.inbox.is_empty()),
            Stream::Http(_) => false,
        }
    }

    fn unread(&self) -> usize {
        self.outbox.len() - self.sent
    }

    fn wants_more(&self) -> bool {
        match self.phase {
            Phase::Open => !self.eof && self.inbox.len() < LONGEST && self.unread() < UNREAD,
            Phase::Last | Phase::Over => false,
            Phase::Lingering => !self.eof,
        }
    }

    /// What is to be waited for, and where; `None`: nothing of this client.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.wants_more());
        flags.set(PollFlags::OUT, self.unread() > 0);
        let fd = match &self.stream {
            Stream::Lines(s) => s.as_fd(),
            Stream::Http(s) => s.as_fd(),
        };
        (!self.hung).then_some((fd, flags))
    }

    /// When it has to be looked at, whatever it does. `None`: an idle client may stay.
    pub fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Lingering => Some(self.since + LINGER),
            _ if self.unread() > 0 || !self.is_lines() => Some(self.since + PATIENCE),
            _ => None,
        }
    }

    /// Takes what came, answers, and sends what can be sent.
    pub fn work(&mut self, found: PollFlags, desk: &Desk, now: Instant) {
        if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            self.hung = true;
        }
        if self.wants_more() && (self.hung || found.contains(PollFlags::IN)) {
            self.read();
        }
        self.answer(desk, now);
        if self.unread() > 0 {
            self.write(now);
        }
        match self.phase {
            Phase::Open if self.eof && self.waiting.is_none() && !self.has_request() => self.phase = Phase::Last,
            _ => {}
        }
        if self.phase == Phase::Last && self.unread() == 0 {
            self.stream.finish();
            (self.phase, self.since) = (Phase::Lingering, now);
        }
        let late = self.due().is_some_and(|due| now >= due);
        let done = match self.phase {
            Phase::Lingering => self.eof || self.hung,
            // Nothing it could still read.
            _ => self.hung && self.waiting.is_none() && !self.has_work(),
        };
        if late && self.phase != Phase::Lingering {
            Served::count(&desk.board().served.dropped);
        }
        if late || done {
            self.phase = Phase::Over;
        }
    }

    fn read(&mut self) {
        let mut chunk = [0; 16 << 10];
        // Once, so that others have their turn: what remains is told again.
        match self.stream.read(&mut chunk) {
            Ok(0) => self.eof = true,
            Ok(_) if self.phase == Phase::Lingering => {}
            Ok(n) => self.inbox.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => (self.eof, self.hung) = (true, true),
        }
    }

    fn answer(&mut self, desk: &Desk, now: Instant) {
        if let Some(answer) = self.waiting.as_ref().and_then(|w| desk.outcome(w, now)) {
            self.waiting = None;
            self.say(answer, now);
        }
        if self.phase != Phase::Open {
            return;
        }
        if self.is_lines() { self.lines(desk, now) } else { self.http(desk, now) }
    }

    fn lines(&mut self, desk: &Desk, now: Instant) {
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = inbox.as_slice();
        for _ in 0..TURN {
            if self.waiting.is_some() || self.unread() >= UNREAD {
                break;
            }
            let end = rest.iter().position(|b| *b == b'\n');
            let Some(end) = end.or((self.eof && !rest.is_empty()).then_some(rest.len())) else { break };
            if end >= LONGEST {
                break;
            }
            let line = rest.get(..end).unwrap_or_default().trim_ascii();
            rest = rest.get(end + 1..).unwrap_or_default();
            if !line.is_empty() {
                match desk.take(line) {
                    Reply::Now(answer) => self.say(answer, now),
                    Reply::Later(waiting) => self.waiting = Some(waiting),
                }
            }
        }
        self.inbox = rest.to_vec();
        let first = self.inbox.iter().position(|b| *b == b'\n').unwrap_or(self.inbox.len());
        if first >= LONGEST && self.waiting.is_none() {
            self.say(refusal("request too long"), now);
            (self.inbox, self.phase) = (Vec::new(), Phase::Last);
        }
    }

    fn http(&mut self, desk: &Desk, now: Instant) {
        let answer = match http::read(&self.inbox) {
            Some(request) => http::answer(request, |format| desk.metrics(format)),
            None if self.inbox.len() > http::LONGEST => http::refusal("431 Request Header Fields Too Large"),
            None => return,
        };
        Served::count(&desk.board().served.http_requests);
        self.outbox = answer;
        (self.inbox, self.phase, self.since) = (Vec::new(), Phase::Last, now);
    }

    fn say(&mut self, answer: String, now: Instant) {
        if self.unread() == 0 {
            self.since = now;
        }
        self.outbox.extend_from_slice(answer.as_bytes());
        self.outbox.push(b'\n');
    }

    fn write(&mut self, now: Instant) {
        match self.stream.write(self.outbox.get(self.sent..).unwrap_or_default()) {
            Ok(n) => {
                self.sent += n;
                if n > 0 {
                    self.since = now;
                }
                if self.sent == self.outbox.len() {
                    (self.outbox, self.sent) = (Vec::new(), 0);
                } else if self.sent > UNREAD {
                    self.outbox.drain(..std::mem::take(&mut self.sent));
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.phase = Phase::Over,
        }
    }
}
