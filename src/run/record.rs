//! Recording: the writer beside a live capture, and the daemon, which only records.

use super::live::{self, Capturing};
use super::wish::Wish;
use crate::capture::engine::Tap;
use crate::store::access::{self, Access};
use crate::store::pen::Settings;
use crate::store::retain::Limits;
use crate::store::writer::Writer;
use crate::trace::clock::{SECOND, Ts};
use crate::trace::health::{Health, Link, Recording};
use crate::trace::marker::{Kind, LASTS_LONGER, Marker};
use anyhow::{Result, bail};
use crossbeam_channel::RecvTimeoutError;
use jiff::tz::TimeZone;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Readable by this group where it exists.
const GROUP: &str = "dba";
/// How often signals are looked at.
const POLL: Duration = Duration::from_millis(100);
const GIB: f64 = 1_073_741_824.0;

/// Starts the writer that `-T` asks for. `None`: nothing is to be recorded.
pub fn writer(wish: &Wish) -> Result<Option<Arc<Writer>>> {
    let flags = &wish.flags.recording;
    let Some(dir) = &flags.trace_dir else { return Ok(None) };
    let group = match &flags.trace_group {
        Some(name) => match access::group(name) {
            Some(gid) => Some(gid),
            None => bail!("--trace-group {name}: there is no such group on this machine: make it, or name another"),
        },
        None => access::group(GROUP),
    };
    let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    // Files are called after the hours of this machine, whatever zone is shown.
    let settings = Settings { dir: dir.clone(), access: Access { group }, zone: TimeZone::system(), run };
    let limits = Limits { hours: flags.trace_retention, bytes: (flags.retention_gb * GIB) as u64 };
    let writer = Writer::start(settings, limits)?;
    if let Some(what) = writer.status().recovered {
        eprintln!("pg_wait_tracer: {what}");
    }
    Ok(Some(Arc::new(writer)))
}

/// Hands every batch to the writer, and what the writer says of itself to the viewer.
pub fn tap(writer: &Arc<Writer>, dir: &std::path::Path) -> Tap {
    let (writer, dir) = (Arc::clone(writer), dir.display().to_string());
    Box::new(move |batch| {
        writer.absorb(batch);
        let status = writer.status();
        batch.health.recording =
            Some(Recording { dir: dir.clone(), error: status.error, lost_records: status.lost_records, notes: Vec::new() });
    })
}

/// Says on stderr, once each, what changes: the server goes and comes back, windows open and close, recording fails and goes on.
#[derive(Debug, Default)]
pub struct Herald {
    last: Health,
    /// Why the server is away, as said since it went.
    said: Vec<String>,
    /// For how many accounts it has been away for the same reason.
    same: u32,
    /// By its first word, what was about to open a window: when that was said, and how often it was not.
    near: BTreeMap<String, (Option<Ts>, u64)>,
}

/// What nearly opens a window is said so often at most.
const NEAR_EVERY: u64 = 60 * SECOND;

/// Another reason why the server is away is said when it stands in so many accounts, which is for a second: on its way down and up a server passes through several.
const STANDS: u32 = 3;

impl Herald {
    /// One that has seen an account already: what it says was said.
    pub fn after(health: &Health) -> Self {
        Self { last: health.clone(), ..Self::default() }
    }

    /// Looks at the newest account, and at what happened to windows since the one before.
    pub fn hear(&mut self, health: &Health, markers: &[Marker]) {
        let mut lines = self.lines(health);
        lines.extend(markers.iter().filter_map(|m| self.moment(m)));
        for line in lines {
            eprintln!("pg_wait_tracer: {line}");
        }
        self.last.clone_from(health);
    }

    /// A line about a window, or about what asked for one. What comes near again within a minute is counted and not said.
    fn moment(&mut self, m: &Marker) -> Option<String> {
        let tier = m.tier.name();
        match m.kind {
            Kind::Opened => {
                let cause = if m.detail.is_empty() { String::new() } else { format!(" ({})", m.detail) };
                let length = m.seconds.map_or("until it is closed".to_owned(), |s| format!("for {s} s"));
                Some(format!("{tier} window open {length}: {}{cause}", m.reason.name()))
            }
            Kind::Closed => Some(format!("{tier} window closed after {} s: {}", m.seconds.unwrap_or_default(), m.detail)),
            Kind::Fire if m.granted && m.detail.ends_with(LASTS_LONGER) => {
                let detail = m.detail.trim_end_matches(LASTS_LONGER).trim_end_matches(": ");
                Some(format!(
                    "the open {tier} window lasts longer, up to {} s from now: {} ({detail})",
                    m.seconds.unwrap_or_default(),
                    m.reason.name()
                ))
            }
            // Its window says the rest.
            Kind::Fire if m.granted => None,
            Kind::Fire => Some(format!("{} and no window: {}", m.reason.name(), m.detail)),
            Kind::Near => {
                let what = m.detail.split([' ', ':']).next().unwrap_or_default();
                let (said, more) = self.near.entry(what.to_owned()).or_insert((None, 0));
                if said.is_some_and(|said| m.at.since(said) < NEAR_EVERY) {
                    *more += 1;
                    return None;
                }
                *said = Some(m.at);
                let more = std::mem::take(more);
                let before = if more > 0 { format!(" (+{more} not said)") } else { String::new() };
                Some(format!("nearly {}: {}{before}", m.reason.name(), m.detail))
            }
        }
    }

    fn lines(&mut self, health: &Health) -> Vec<String> {
        let mut lines = Vec::new();
        let last = &self.last;
        match (&last.link, &health.link) {
            (Link::Waiting { .. }, Link::Attached) => lines.push("the server is back".to_owned()),
            (Link::Waiting { why: before }, Link::Waiting { why }) => {
                self.same = if why == before { self.same + 1 } else { 1 };
                if self.same == STANDS && !self.said.contains(why) {
                    self.said.push(why.clone());
                    lines.push(why.clone());
                }
            }
            (_, Link::Waiting { why }) => {
                (self.same, self.said) = (1, vec![why.clone()]);
                lines.push(why.clone());
            }
            // Away between two accounts: a crash of a small server takes no longer.
            (Link::Attached, Link::Attached) if health.attachments > last.attachments => {
                lines.push("the server restarted and is back".to_owned());
            }
            _ => {}
        }
        if let Some(why) = health.window_error.as_ref().filter(|why| last.window_error.as_ref() != Some(*why)) {
            lines.push(format!("no window: {why}; sampling goes on"));
        }
        let error = |h: &Health| h.recording.as_ref().and_then(|r| r.error.clone());
        match (error(last), error(health)) {
            (None, Some(why)) => lines.push(format!("NOT RECORDING: {why}; it goes on by itself when that is mended")),
            (Some(_), None) => {
                let lost = health.recording.as_ref().map_or(0, |r| r.lost_records);
                lines.push(format!("recording again; {lost} records were lost so far"));
            }
            _ => {}
        }
        lines
    }
}

/// Records until a signal, or the end of the capture.
pub fn daemon(wish: &Wish) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let rotate = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    signal_hook::flag::register(SIGHUP, Arc::clone(&rotate))?;
    let Some(Capturing { batches, engine, recorder, control, .. }) = live::start(wish, &stop)? else { return Ok(ExitCode::SUCCESS) };
    if let Some(dir) = &wish.flags.recording.trace_dir {
        eprintln!("pg_wait_tracer: recording into {}", dir.display());
    }
    let mut herald = Herald::default();
    while !stop.load(Ordering::Relaxed) {
        match batches.recv_timeout(POLL) {
            Ok(batch) => herald.hear(&batch.health, &batch.markers),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if rotate.swap(false, Ordering::Relaxed)
            && let Some(writer) = &recorder
        {
            writer.rotate();
        }
    }
    drop(engine);
    drop(control);
    batches.try_iter().for_each(|batch| herald.hear(&batch.health, &batch.markers));
    finish(recorder)?;
    match &herald.last.link {
        Link::Ended { why } if !why.is_empty() => bail!("{why}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes what is still to be written. The capture must have ended.
pub fn finish(recorder: Option<Arc<Writer>>) -> Result<()> {
    let Some(writer) = recorder.and_then(Arc::into_inner) else { return Ok(()) };
    match writer.stop() {
        status if status.error.is_some() => bail!("{}", status.error.unwrap_or_default()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::marker::Reason;
    use crate::trace::record::Fidelity;

    #[test]
    fn windows_are_told_with_cause_and_what_comes_near_once_a_minute() {
        let mut herald = Herald::default();
        let mut said = |s: u64, kind, reason, detail: &str, seconds| {
            let at = Ts(s * SECOND);
            let granted = kind != Kind::Fire;
            herald.moment(&Marker { at, kind, reason, tier: Fidelity::Exact, detail: detail.into(), granted, seconds })
        };
        let anomaly = Reason::Anomaly;
        let opened = said(1, Kind::Opened, anomaly, "load 10.0, usually 2.0", Some(60)).unwrap();
        assert_eq!(opened, "exact window open for 60 s: anomaly (load 10.0, usually 2.0)");
        let closed = said(4, Kind::Closed, Reason::Budget, "the budget of this hour was used up", Some(3)).unwrap();
        assert_eq!(closed, "exact window closed after 3 s: the budget of this hour was used up");
        assert!(said(5, Kind::Fire, anomaly, "load 9.0: escalation disabled", None).unwrap().starts_with("anomaly and no window: load"));
        let near: Vec<String> = (10..200).step_by(11).filter_map(|s| said(s, Kind::Near, anomaly, "load 7.0, usually 2.0", None)).collect();
        assert_eq!(near.len(), 3, "{near:?}");
        assert!(near[1].ends_with("(+5 not said)"), "{near:?}");
        assert!(said(200, Kind::Near, anomaly, "lock: 2.0 of 3.0", None).is_some());
    }

    #[test]
    fn each_change_is_said_once() {
        let with = |link: Link, error: Option<&str>| Health {
            link,
            recording: Some(Recording { error: error.map(Into::into), lost_records: 7, ..Recording::default() }),
            ..Health::default()
        };
        let away = || Link::Waiting { why: "the server has stopped".into() };
        let mut herald = Herald::default();
        let mut said = |h: Health| {
            let lines = herald.lines(&h);
            herald.last = h;
            lines
        };
        assert!(said(with(Link::Attached, None)).is_empty());
        assert_eq!(said(with(away(), None)), ["the server has stopped"]);
        assert!(said(with(away(), None)).is_empty());
        assert_eq!(said(with(Link::Attached, None)), ["the server is back"]);
        // Through several reasons: the first at once, another when it stays, none twice.
        let gone = |why: &str| with(Link::Waiting { why: why.into() }, None);
        let mut heard: Vec<String> = Vec::new();
        for why in
            ["it is stopping", "it is starting", "it stopped", "it stopped", "it stopped", "it stopped", "it is starting", "it stopped"]
        {
            heard.extend(said(gone(why)));
        }
        (0..5).for_each(|_| heard.extend(said(gone("it stopped"))));
        assert_eq!(heard, ["it is stopping", "it stopped"]);
        assert_eq!(said(with(Link::Attached, None)), ["the server is back"]);
        let full = said(with(Link::Attached, Some("no space")));
        assert!(full.len() == 1 && full[0].starts_with("NOT RECORDING: no space"), "{full:?}");
        assert!(said(with(Link::Attached, Some("no space"))).is_empty());
        assert_eq!(said(with(Link::Attached, None)), ["recording again; 7 records were lost so far"]);
    }
}
