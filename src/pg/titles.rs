//! Process titles: names of users and databases, and what kind of background worker a process is, without a login.
//!
//! A title is what the server wrote over its command line: `postgres: [cluster: ]user database host(port) activity`. Names may hold spaces and
//! any other byte, so a name is learned only where the title can be read in one way; else the oid stays.

use super::status::{Peer, Who};
use crate::trace::catalog::{BackendKind, UnixMicros};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What every title of a PostgreSQL process starts with.
const PROGRAM: &[u8] = b"postgres: ";

/// From this version on a walsender's title names its database, if it has one.
const WALSENDER_DATABASE: u16 = 16;

/// What was learned from titles.
#[derive(Debug)]
pub struct Titles {
    major: u16,
    /// Start of every title of this server, `cluster_name` included. `None` until one could be told.
    prefix: Option<Vec<u8>>,
    users: FxHashMap<u32, Learned>,
    databases: FxHashMap<u32, Learned>,
}

/// A name, and when the newest session that showed it started: a renamed user or database is seen in new sessions only.
#[derive(Debug)]
struct Learned {
    name: Arc<str>,
    since: UnixMicros,
}

impl Titles {
    /// Nothing learned yet, of a server of this version.
    pub fn new(major: u16) -> Self {
        Self { major, prefix: None, users: FxHashMap::default(), databases: FxHashMap::default() }
    }

    /// Learns the prefix from a process whose kind is known to have a title of its own.
    pub fn learn_prefix(&mut self, kind: BackendKind, title: &[u8]) {
        if self.prefix.is_none()
            && matches!(kind, BackendKind::Checkpointer | BackendKind::BackgroundWriter | BackendKind::WalWriter)
            && let Some(prefix) = title.trim_ascii_end().strip_suffix(kind.name().as_bytes())
            && prefix.starts_with(PROGRAM)
        {
            self.prefix = Some(prefix.to_vec());
        }
    }

    /// Whether the prefix is known.
    pub fn knows_prefix(&self) -> bool {
        self.prefix.is_some()
    }

    /// `cluster_name`, if there is one.
    pub fn cluster(&self) -> Option<String> {
        cluster_in(self.prefix.as_deref()?)
    }

    /// A background worker told apart by its title; any other kind as it is.
    pub fn refine(&self, kind: BackendKind, title: &[u8]) -> BackendKind {
        if kind != BackendKind::BackgroundWorker {
            return kind;
        }
        let Some(body) = self.body(title) else { return kind };
        if body.starts_with(b"parallel worker for PID ") {
            BackendKind::ParallelWorker
        } else if body.starts_with(b"logical replication launcher") {
            BackendKind::LogicalLauncher
        } else if body.starts_with(b"logical replication ") {
            BackendKind::LogicalWorker
        } else {
            kind
        }
    }

    /// Learns the names of a session's user and database from its title.
    pub fn learn(&mut self, who: &Who, title: &[u8]) {
        let Some(body) = self.body(title) else { return };
        match who.kind {
            BackendKind::AutovacuumWorker => {
                if let Some(name) = body.strip_prefix(b"autovacuum worker ") {
                    let name = name.trim_ascii_end();
                    learn(&mut self.databases, who.database, name, who.started);
                }
            }
            BackendKind::Client | BackendKind::WalSender => {
                let body = if who.kind == BackendKind::WalSender { body.strip_prefix(b"walsender ") } else { Some(body) };
                if let Some((user, database)) = body.and_then(|b| names_before_host(b, who)).and_then(|n| self.split(n, who)) {
                    let (user, database) = (user.to_vec(), database.to_vec());
                    learn(&mut self.users, who.user, &user, who.started);
                    learn(&mut self.databases, who.database, &database, who.started);
                }
            }
            _ => {}
        }
    }

    /// Name of a user, if it was learned.
    pub fn user(&self, oid: u32) -> Option<Arc<str>> {
        self.users.get(&oid).map(|l| Arc::clone(&l.name))
    }

    /// Name of a database, if it was learned.
    pub fn database(&self, oid: u32) -> Option<Arc<str>> {
        self.databases.get(&oid).map(|l| Arc::clone(&l.name))
    }

    fn body<'a>(&self, title: &'a [u8]) -> Option<&'a [u8]> {
        title.strip_prefix(self.prefix.as_deref()?)
    }

    /// `user database` in the only way that agrees with what is known. One space has one reading; more need a known name at one end.
    fn split<'a>(&self, names: &'a [u8], who: &Who) -> Option<(&'a [u8], &'a [u8])> {
        if who.kind == BackendKind::WalSender && (who.database == 0 || self.major < WALSENDER_DATABASE) {
            return Some((names, &[]));
        }
        let readings: Vec<_> = names
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b' ')
            .filter_map(|(i, _)| Some((names.get(..i)?, names.get(i + 1..)?)))
            .filter(|(user, database)| !user.is_empty() && !database.is_empty())
            .collect();
        if let [only] = readings[..] {
            return Some(only);
        }
        let is = |known: Option<&Learned>, name: &[u8]| known.is_some_and(|k| *k.name == *String::from_utf8_lossy(name));
        let mut agreeing = readings
            .into_iter()
            .filter(|(user, database)| is(self.users.get(&who.user), user) || is(self.databases.get(&who.database), database));
        match (agreeing.next(), agreeing.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }
}

/// `cluster_name` in a title of the checkpointer or the background writer.
pub fn cluster(title: &[u8]) -> Option<String> {
    let title = title.trim_ascii_end();
    let kinds = [BackendKind::Checkpointer, BackendKind::BackgroundWriter];
    cluster_in(kinds.iter().find_map(|k| title.strip_suffix(k.name().as_bytes()))?)
}

fn cluster_in(prefix: &[u8]) -> Option<String> {
    let name = prefix.strip_prefix(PROGRAM)?.strip_suffix(b": ")?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// The part in front of the client's address, which the status row tells. Where the address stands twice, nobody can tell which one is meant.
fn names_before_host<'a>(body: &'a [u8], who: &Who) -> Option<&'a [u8]> {
    let host = match &who.peer {
        Peer::None => return None,
        Peer::Local => b" [local]".to_vec(),
        Peer::Remote(ip, port) => {
            let mut host = vec![b' '];
            host.extend_from_slice(if who.hostname.is_empty() { ip.to_string().into_bytes() } else { who.hostname.clone() }.as_slice());
            host.extend_from_slice(format!("({port})").as_bytes());
            host
        }
    };
    let ends = |at: usize| body.get(at + host.len()).is_none_or(|b| *b == b' ');
    let mut places = body.windows(host.len()).enumerate().filter(|(at, w)| *w == host && ends(*at)).map(|(at, _)| at);
    match (places.next(), places.next()) {
        (Some(at), None) => body.get(..at),
        _ => None,
    }
}

fn learn(names: &mut FxHashMap<u32, Learned>, oid: u32, name: &[u8], since: UnixMicros) {
    if oid == 0 || name.is_empty() {
        return;
    }
    let name = String::from_utf8_lossy(name);
    match names.get_mut(&oid) {
        Some(known) if known.since > since => {}
        Some(known) if *known.name == *name => known.since = since,
        _ => {
            names.insert(oid, Learned { name: name.into(), since });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn titles(checkpointer: &str) -> Titles {
        let mut t = Titles::new(18);
        t.learn_prefix(BackendKind::Checkpointer, checkpointer.as_bytes());
        t
    }

    fn who(kind: BackendKind, peer: Peer, user: u32, database: u32, started: i64) -> Who {
        Who { started, kind, database, user, peer, hostname: Vec::new(), application: Vec::new() }
    }

    fn learned(t: &mut Titles, w: &Who, title: &str) -> (Option<String>, Option<String>) {
        t.learn(w, title.as_bytes());
        (t.user(w.user).map(|n| n.to_string()), t.database(w.database).map(|n| n.to_string()))
    }

    fn names(user: &str, database: &str) -> (Option<String>, Option<String>) {
        (Some(user.into()), Some(database.into()))
    }

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn plain_titles() {
        let mut t = titles("postgres: checkpointer ");
        assert_eq!(t.cluster(), None);
        let w = who(BackendKind::Client, Peer::Local, 10, 5, 1);
        assert_eq!(learned(&mut t, &w, "postgres: app shop [local] idle in transaction"), names("app", "shop"));
        let w = who(BackendKind::Client, Peer::Remote(LOOPBACK, 5000), 11, 5, 2);
        assert_eq!(learned(&mut t, &w, "postgres: bob shop 127.0.0.1(5000) SELECT"), names("bob", "shop"));
        let w = who(BackendKind::Client, Peer::Remote(Ipv6Addr::LOCALHOST.into(), 5000), 12, 6, 2);
        assert_eq!(learned(&mut t, &w, "postgres: eve blog ::1(5000) SELECT"), names("eve", "blog"));
    }

    #[test]
    fn cluster_names_with_anything_in_them() {
        let mut t = titles("postgres: 18/main: checkpointer ");
        assert_eq!(t.cluster().as_deref(), Some("18/main"));
        let w = who(BackendKind::Client, Peer::Local, 10, 5, 1);
        assert_eq!(learned(&mut t, &w, "postgres: 18/main: app shop [local] idle"), names("app", "shop"));
        let t = titles("postgres: my: odd (1) name: checkpointer");
        assert_eq!(t.cluster().as_deref(), Some("my: odd (1) name"));
        assert_eq!(cluster(b"postgres: x y: background writer ").as_deref(), Some("x y"));
        assert_eq!(cluster(b"postgres: background writer "), None);
        assert_eq!(cluster(b"postgres: app shop [local] idle"), None);
    }

    #[test]
    fn names_with_spaces_need_a_known_end() {
        let mut t = titles("postgres: checkpointer ");
        let w = who(BackendKind::Client, Peer::Local, 10, 5, 1);
        assert_eq!(learned(&mut t, &w, "postgres: my app the shop [local] idle"), (None, None));
        let other = who(BackendKind::Client, Peer::Local, 11, 5, 2);
        assert_eq!(learned(&mut t, &other, "postgres: bob the shop [local] idle"), (None, None));
        let third = who(BackendKind::Client, Peer::Local, 11, 6, 2);
        assert_eq!(learned(&mut t, &third, "postgres: bob blog [local] idle"), names("bob", "blog"));
        assert_eq!(learned(&mut t, &other, "postgres: bob the shop [local] idle"), names("bob", "the shop"));
        assert_eq!(learned(&mut t, &w, "postgres: my app the shop [local] idle"), names("my app", "the shop"));
    }

    #[test]
    fn a_name_that_looks_like_an_address() {
        let mut t = titles("postgres: checkpointer ");
        let w = who(BackendKind::Client, Peer::Local, 10, 5, 1);
        assert_eq!(learned(&mut t, &w, "postgres: [local]x y [local] idle"), names("[local]x", "y"));
        let w = who(BackendKind::WalSender, Peer::Local, 30, 35, 1);
        assert_eq!(learned(&mut t, &w, "postgres: walsender rep x [local] sending backup \"q [local] y\""), (None, None));
        let w = who(BackendKind::Client, Peer::Local, 20, 25, 1);
        assert_eq!(learned(&mut t, &w, "postgres: a b 127.0.0.1(5000) idle"), (None, None));
    }

    #[test]
    fn renamed_users_show_in_new_sessions() {
        let mut t = titles("postgres: checkpointer ");
        let old = who(BackendKind::Client, Peer::Local, 10, 5, 1);
        let new = who(BackendKind::Client, Peer::Local, 10, 5, 9);
        assert_eq!(learned(&mut t, &old, "postgres: before shop [local] idle"), names("before", "shop"));
        assert_eq!(learned(&mut t, &new, "postgres: after shop [local] idle"), names("after", "shop"));
        assert_eq!(learned(&mut t, &old, "postgres: before shop [local] idle"), names("after", "shop"));
    }

    #[test]
    fn processes_that_are_no_clients() {
        let mut t = titles("postgres: checkpointer ");
        let w = who(BackendKind::AutovacuumWorker, Peer::None, 0, 5, 1);
        assert_eq!(learned(&mut t, &w, "postgres: autovacuum worker the shop"), (None, Some("the shop".into())));
        let w = who(BackendKind::WalSender, Peer::Local, 10, 0, 1);
        assert_eq!(learned(&mut t, &w, "postgres: walsender rep user [local] streaming 0/3000148"), (Some("rep user".into()), None));
        let w = who(BackendKind::WalSender, Peer::Local, 11, 6, 1);
        assert_eq!(learned(&mut t, &w, "postgres: walsender rep blog [local] START_REPLICATION"), names("rep", "blog"));
        let mut older = Titles::new(15);
        older.learn_prefix(BackendKind::Checkpointer, b"postgres: checkpointer ");
        assert_eq!(learned(&mut older, &w, "postgres: walsender rep user [local] START_REPLICATION"), (Some("rep user".into()), None));
        let kind = |title: &str| t.refine(BackendKind::BackgroundWorker, title.as_bytes());
        assert_eq!(kind("postgres: parallel worker for PID 17 "), BackendKind::ParallelWorker);
        assert_eq!(kind("postgres: logical replication launcher "), BackendKind::LogicalLauncher);
        assert_eq!(kind("postgres: logical replication apply worker for subscription 16394 "), BackendKind::LogicalWorker);
        assert_eq!(kind("postgres: logical replication worker for subscription 16394 "), BackendKind::LogicalWorker);
        assert_eq!(kind("postgres: autoprewarm leader "), BackendKind::BackgroundWorker);
        assert_eq!(t.refine(BackendKind::Client, b"postgres: parallel worker for PID 17 "), BackendKind::Client);
    }

    #[test]
    fn bytes_that_are_no_text() {
        let mut t = titles("postgres: checkpointer ");
        let w = who(BackendKind::Client, Peer::Local, 10, 5, 1);
        t.learn(&w, b"postgres: \xff\xfe shop [local] idle");
        assert_eq!(t.user(10).as_deref(), Some("\u{fffd}\u{fffd}"));
        t.learn(&w, b"");
        t.learn(&w, b"postgres: [local]");
        t.learn(&w, b"postgres:  [local]");
        assert_eq!(t.user(10).as_deref(), Some("\u{fffd}\u{fffd}"));
    }
}
