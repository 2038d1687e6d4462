//! A scenario file: a server, its sessions and what each does when, as TOML that reads like a story. `docs/SEMANTICS.md` shows one.
//!
//! A sample taken at an instant finds what the session did up to that instant, so `2s..8s` is exactly six seconds whatever the rate.

use super::intervals::Watched;
use super::line::{self, Does, Stretch};
use crate::capture::command::Kind;
use crate::pg::names::event_names;
use crate::trace::catalog::{BackendKind, EventNames, Named, Query, Server, Session, TextSource};
use crate::trace::health::{Access, Health, Link};
use crate::trace::record::QueryId;
use crate::trace::wait::WaitEvent;
use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A scenario, checked and ready to play.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it shows, in one line.
    pub title: String,
    /// How long it plays, nanoseconds.
    pub length: i64,
    /// Whether it begins again at its end.
    pub again: bool,
    /// Wall-clock time of its start, nanoseconds since 1970 UTC, when the file gives one.
    pub start: Option<i64>,
    /// The server.
    pub server: Server,
    /// How long before the scenario the server started, nanoseconds.
    pub up: i64,
    /// Names of its events.
    pub names: EventNames,
    /// Stretches in which ticks are taken, in order, with the ticks per second.
    pub shifts: Vec<Shift>,
    /// Exact and blocking windows, in order.
    pub windows: Vec<Watched>,
    /// The sessions.
    pub actors: Vec<Actor>,
    /// The queries.
    pub queries: BTreeMap<QueryId, Query>,
    /// What the recorder says of itself, from when on.
    pub reports: Vec<(i64, Report)>,
}

/// A stretch of time in which ticks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// Its start. A gap lies before it unless another shift ends there.
    pub from: i64,
    /// Its end; a tick is taken there.
    pub to: i64,
    /// Ticks per second.
    pub hz: u32,
}

/// A session.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Who it is; `started` is set when it appears.
    pub session: Session,
    /// What it does, in order, without holes.
    pub does: Vec<Stretch>,
    /// Length after which what it does begins again, and by how much it is ahead.
    pub repeat: Option<(i64, i64)>,
}

impl Actor {
    /// What a sample at `t` finds; `None`: no such process then.
    pub fn at(&self, t: i64) -> Option<&Stretch> {
        let t = self.repeat.map_or(t, |(period, ahead)| (t + ahead - 1).rem_euclid(period) + 1);
        self.does.get(self.does.partition_point(|s| s.to < t)).filter(|s| s.from < t)
    }
}

/// Figures of [`Health`] to show instead of the true ones, under the same names.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// From when on; the start when not given.
    at: Option<String>,
    waiting: Option<String>,
    ended: Option<String>,
    attached: Option<bool>,
    access: Option<Access>,
    late_ticks: Option<u64>,
    unread: Option<u64>,
    invalid: Option<u64>,
    dropped_blocks: Option<u64>,
    dropped_records: Option<u64>,
    evicted_queries: Option<u64>,
    attachments: Option<u64>,
    cpu_ns: Option<u64>,
    rss_bytes: Option<u64>,
}

impl Report {
    /// Puts its figures in the place of the true ones.
    pub fn apply(&self, health: &mut Health) {
        if let Some(why) = &self.waiting {
            health.link = Link::Waiting { why: why.clone() };
        }
        if let Some(why) = &self.ended {
            health.link = Link::Ended { why: why.clone() };
        }
        if self.attached == Some(true) {
            health.link = Link::Attached;
        }
        let set = |place: &mut u64, value: Option<u64>| *place = value.unwrap_or(*place);
        set(&mut health.late_ticks, self.late_ticks);
        set(&mut health.unread, self.unread);
        set(&mut health.invalid, self.invalid);
        set(&mut health.dropped_blocks, self.dropped_blocks);
        set(&mut health.dropped_records, self.dropped_records);
        set(&mut health.evicted_queries, self.evicted_queries);
        set(&mut health.attachments, self.attachments);
        set(&mut health.cpu_ns, self.cpu_ns);
        set(&mut health.rss_bytes, self.rss_bytes);
        health.access = self.access.unwrap_or(health.access);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    length: Option<String>,
    #[serde(default, rename = "loop")]
    again: bool,
    start: Option<String>,
    rate: Option<Rate>,
    #[serde(default)]
    gaps: Vec<String>,
    #[serde(default)]
    windows: Vec<String>,
    #[serde(default)]
    server: ServerText,
    #[serde(default)]
    events: BTreeMap<String, u32>,
    #[serde(default)]
    session: Vec<SessionText>,
    #[serde(default)]
    query: Vec<QueryText>,
    #[serde(default)]
    health: Vec<Report>,
    /// What tests expect of it: not read here.
    #[serde(default, rename = "expect")]
    _expect: Vec<toml::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Rate {
    Always(u32),
    Changing(Vec<String>),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ServerText {
    version: Option<String>,
    cluster: String,
    host: Option<String>,
    pgdata: Option<String>,
    port: Option<u16>,
    postmaster: Option<i32>,
    up: Option<String>,
    cpus: Option<u32>,
    activity_size: Option<u32>,
    query_ids: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionText {
    pid: i32,
    server_pid: Option<i32>,
    count: Option<u32>,
    ahead: Option<String>,
    kind: Option<String>,
    leader: Option<i32>,
    user: Option<Name>,
    database: Option<Name>,
    #[serde(default)]
    application: String,
    client: Option<String>,
    repeat: Option<String>,
    does: Vec<String>,
}

/// A name, or the oid of one that could not be known.
#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum Name {
    Known(Arc<str>),
    Oid(u32),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryText {
    id: QueryIdText,
    sql: Option<String>,
    hex: Option<String>,
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    normalised: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum QueryIdText {
    Number(i64),
    Text(String),
}

impl Scenario {
    /// Reads a file. Errors name it, the place, and the nearest valid word.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read scenario {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(0, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
            anyhow!("line {line}: {}", e.message().replace('\n', " "))
        })?;
        file.check()
    }
}

impl File {
    fn check(self) -> Result<Scenario> {
        let (server, up) = self.server.check()?;
        let mut names = event_names(server.major).unwrap_or_else(|| EventNames::new(server.major, []));
        for (name, raw) in &self.events {
            let event = name.rsplit_once(':').map_or(name.as_str(), |(_, event)| event);
            names.insert(WaitEvent(*raw), event.into());
        }
        let length = match &self.length {
            Some(text) => line::time(text).context("length")?,
            None => longest(&self.session).context("length is missing, and no session's last stretch has an end that would give it")?,
        };
        if length <= 0 {
            bail!("length must be above 0");
        }
        let mut actors = Vec::new();
        for session in &self.session {
            session.check(length, &names, &mut actors).with_context(|| format!("session pid {}", session.pid))?;
        }
        let queries = self.query.into_iter().map(QueryText::check).collect::<Result<BTreeMap<_, _>>>()?;
        let mut reports = Vec::new();
        for report in self.health {
            reports.push((report.at.as_deref().map_or(Ok(i64::MIN), line::time).context("health")?, report));
        }
        reports.sort_by_key(|r| r.0);
        let start = self.start.as_deref().map(|text| {
            let stamp: jiff::Timestamp =
                text.parse().with_context(|| format!("start: '{text}' is no RFC 3339 time such as 2026-01-02T03:04:05Z"))?;
            anyhow::Ok(stamp.as_nanosecond() as i64)
        });
        Ok(Scenario {
            title: self.title,
            length,
            again: self.again,
            start: start.transpose()?,
            server,
            up,
            names,
            shifts: shifts(self.rate.unwrap_or(Rate::Always(10)), &self.gaps, length)?,
            windows: windows(&self.windows, length, &actors)?,
            actors,
            queries,
            reports,
        })
    }
}

/// The latest end that any session's stretch gives.
fn longest(sessions: &[SessionText]) -> Option<i64> {
    let ends = sessions.iter().flat_map(|s| &s.does).filter_map(|text| text.split_whitespace().next()?.split_once(".."));
    ends.filter_map(|(_, to)| line::time(to).ok()).max()
}

fn shifts(rate: Rate, gaps: &[String], length: i64) -> Result<Vec<Shift>> {
    let mut shifts = Vec::new();
    let lines = match rate {
        Rate::Always(hz) => vec![(0, length, hz)],
        Rate::Changing(lines) => {
            lines.iter().map(|text| rate_line(text, length).with_context(|| format!("rate \"{text}\""))).collect::<Result<_>>()?
        }
    };
    for (from, to, hz) in lines {
        if !(1..=1_000_000).contains(&hz) {
            bail!("rate {hz} is not between 1 and 1000000 ticks per second");
        }
        shifts.push(Shift { from: from.max(0), to: to.min(length), hz });
    }
    for gap in gaps {
        let (start, end) = line::range(gap, length).with_context(|| format!("gaps \"{gap}\""))?;
        shifts = shifts
            .into_iter()
            .flat_map(|s| [Shift { to: s.to.min(start), ..s }, Shift { from: s.from.max(end), ..s }])
            .filter(|s| s.from < s.to)
            .collect();
    }
    shifts.sort_by_key(|s| s.from);
    Ok(shifts)
}

fn windows(lines: &[String], length: i64, actors: &[Actor]) -> Result<Vec<Watched>> {
    let mut windows: Vec<Watched> = Vec::new();
    for text in lines {
        let place = || format!("windows \"{text}\"");
        let (range, kind) = text.split_once(' ').context("write for example \"2s..4s exact\"").with_context(place)?;
        let (from, to) = line::range(range, length).with_context(place)?;
        let kind = match kind.trim() {
            "exact" => Kind::Exact,
            "blocking" => Kind::Blocking,
            other => return Err(anyhow!("'{other}' is neither exact nor blocking")).with_context(place),
        };
        if windows.last().is_some_and(|w| w.to > from) {
            return Err(anyhow!("it begins before the one above ends")).with_context(place);
        }
        windows.push(Watched { from: from.max(0), to: to.min(length), kind });
    }
    let drawn = |does: &Does| matches!(does, Does::Seen { mix, .. } if mix.len() > 1);
    if !windows.is_empty() && actors.iter().flat_map(|a| &a.does).any(|s| drawn(&s.does)) {
        bail!("windows see every wait: a session that does one of several events by chance cannot be seen so");
    }
    Ok(windows)
}

fn rate_line(text: &str, length: i64) -> Result<(i64, i64, u32)> {
    let (range, hz) = text.split_once(char::is_whitespace).context("write for example \"0s..5m 10\"")?;
    let (from, to) = line::range(range, length)?;
    Ok((from, to, hz.trim().parse().with_context(|| format!("'{hz}' is no number of ticks per second"))?))
}

impl ServerText {
    fn check(self) -> Result<(Server, i64)> {
        let version = self.version.unwrap_or_else(|| "18.4".into());
        let major = version.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
        let major =
            major.filter(|m| (13..=19).contains(m)).with_context(|| format!("server: version '{version}' is not one from 13 to 19"))?;
        let server = Server {
            major,
            cluster: self.cluster,
            host: self.host.unwrap_or_else(|| "scenario".into()),
            pgdata: self.pgdata.unwrap_or_else(|| format!("/var/lib/postgresql/{major}/main")),
            version,
            port: self.port.unwrap_or(5432),
            postmaster: self.postmaster.unwrap_or(1_000),
            started: 0,
            cpus: self.cpus.unwrap_or(8),
            activity_size: self.activity_size.unwrap_or(1_024),
            query_ids: self.query_ids,
        };
        Ok((server, line::time(self.up.as_deref().unwrap_or("3d")).context("server: up")?))
    }
}

impl SessionText {
    fn check(&self, length: i64, names: &EventNames, actors: &mut Vec<Actor>) -> Result<()> {
        let kind = self.kind.as_deref().map_or(Ok(BackendKind::Client), kind)?;
        let client = kind == BackendKind::Client;
        let name = |name: &Option<Name>, default: &str, oid: u32| match name {
            Some(Name::Known(name)) => Named { oid, name: Some(name.clone()) },
            Some(Name::Oid(oid)) => Named { oid: *oid, name: None },
            None if client => Named { oid, name: Some(default.into()) },
            None => Named::default(),
        };
        let session = Session {
            pid: self.pid,
            server_pid: self.server_pid.unwrap_or(self.pid),
            kind,
            leader: self.leader,
            database: name(&self.database, "postgres", 5),
            user: name(&self.user, "postgres", 10),
            application: self.application.as_str().into(),
            client: self.client.as_deref().unwrap_or(if client { "[local]" } else { "" }).into(),
            ..Session::default()
        };
        let period = self.repeat.as_deref().map(line::time).transpose().context("repeat")?;
        if period.is_some_and(|p| p <= 0) {
            bail!("repeat must be above 0");
        }
        let ahead = self.ahead.as_deref().map_or(Ok(0), line::time).context("ahead")?;
        let does = self.stretches(kind, period.unwrap_or(length), names)?;
        for i in 0..self.count.unwrap_or(1) {
            let shift = ahead * i64::from(i);
            let mut actor = Actor { session: session.clone(), does: does.clone(), repeat: period.map(|p| (p, shift)) };
            actor.session.pid += i as i32;
            actor.session.server_pid += i as i32;
            if period.is_none() {
                // Ahead: it does everything that much earlier.
                actor.does.iter_mut().for_each(|s| (s.from, s.to) = (s.from - shift, s.to - shift));
            }
            actors.push(actor);
        }
        Ok(())
    }

    fn stretches(&self, kind: BackendKind, end: i64, names: &EventNames) -> Result<Vec<Stretch>> {
        let mut does: Vec<Stretch> = Vec::new();
        for text in &self.does {
            let place = || format!("\"{text}\"");
            let next = line::stretch(text, kind, does.last(), end, names).with_context(place)?;
            match does.last() {
                Some(last) if next.from < last.to => return Err(anyhow!("it begins before the one above ends")).with_context(place),
                Some(last) if next.from > last.to => {
                    let hint = "it leaves a hole; write unread for a session that could not be read, or another session for a reused pid";
                    return Err(anyhow!(hint)).with_context(place);
                }
                _ => does.push(next),
            }
        }
        if does.iter().all(|s| s.does == Does::Unread) {
            bail!("does must hold at least one stretch that can be read");
        }
        Ok(does)
    }
}

fn kind(text: &str) -> Result<BackendKind> {
    BackendKind::ALL.into_iter().find(|k| k.short() == text || k.name() == text).with_context(|| {
        let score = |k: &BackendKind| strsim::jaro_winkler(text, k.short());
        let near = BackendKind::ALL.into_iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        format!("kind '{text}' is not known; nearest: {}", near.map(BackendKind::short).unwrap_or_default())
    })
}

impl QueryText {
    fn check(self) -> Result<(QueryId, Query)> {
        let id = match self.id {
            QueryIdText::Number(id) => QueryId(id),
            QueryIdText::Text(text) => QueryId::parse(&text).with_context(|| format!("query id '{text}' is not one"))?,
        };
        let text = match (self.sql, self.hex) {
            (Some(sql), None) => sql,
            (None, Some(hex)) => String::from_utf8_lossy(&bytes(&hex).with_context(|| format!("query {id}: hex"))?).into_owned(),
            _ => bail!("query {id} needs either sql or hex"),
        };
        let source = if self.normalised { TextSource::Normalised } else { TextSource::Raw };
        Ok((id, Query { text: text.into(), truncated: self.truncated, source }))
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digits: Vec<u32> =
        hex.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>().context("only 0-9 and a-f")?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect())
}
