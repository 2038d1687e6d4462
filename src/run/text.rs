//! Text, JSON and CSV per interval. The window of each interval begins where the one before ended, and is printed when its end has been observed, so
//! that a session blocked all the time has exactly the interval's length.

use super::live::{self, Capturing, Opened};
use super::record::{self, Herald};
use super::wish::Wish;
use crate::analysis::Source;
use crate::analysis::answer::Answer;
use crate::cli;
use crate::render::{Format, Options, Renderer, Scope, Sort, View};
use crate::trace::Trace;
use crate::trace::clock::{SECOND, Span, Ts, Window};
use crate::trace::health::Link;
use crate::trace::record::QueryId;
use anyhow::{Context, Result};
use crossbeam_channel::RecvTimeoutError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long after an interval's end it is printed even if nothing more was observed (the server is away, the machine is stuck).
const GRACE: Duration = Duration::from_millis(1_500);
/// How often signals are looked at.
const POLL: Duration = Duration::from_millis(100);

/// Prints intervals until the count, the duration, a signal, or the end of the capture.
pub fn run(wish: &Wish) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut opened = live::open(wish)?;
    let began = Instant::now();
    let start = opened.trace.0.extent().map(|e| e.end).unwrap_or_default();
    let mut renderer = Renderer::new(options(wish));
    let mut herald = Herald::after(opened.trace.0.health());
    let last = last_interval(wish);
    for n in 1..=last {
        let length = wish.flags.duration.map_or(u64::MAX, |d| u64::from(d) * SECOND).min(n * wish.interval_ns);
        let end = start + length;
        let deadline = began + Duration::from_nanos(length) + GRACE;
        let reached = wait(&mut opened, end, deadline, &stop, &mut herald);
        let observed = opened.trace.0.extent().map(|e| e.end).unwrap_or_default();
        let interval = Span::new(start + (n - 1) * wish.interval_ns, if reached == Reached::Ended { observed.min(end) } else { end });
        if reached == Reached::Stopped || interval.is_empty() {
            break;
        }
        let window = if wish.flags.cumulative { Span::new(start, interval.end) } else { interval };
        let answers = answers(&mut opened.trace, &renderer, window)?;
        renderer.write(&mut std::io::stdout().lock(), &answers).context("cannot write to standard output")?;
        if reached == Reached::Ended {
            break;
        }
    }
    let Opened { trace, capturing: Capturing { engine, recorder, control, .. } } = opened;
    drop(engine);
    drop(control);
    record::finish(recorder)?;
    match &trace.0.health().link {
        Link::Ended { why } if !why.is_empty() => anyhow::bail!("{why}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// How many intervals to print.
pub(super) fn last_interval(wish: &Wish) -> u64 {
    let by_count = wish.flags.count.map_or(u64::MAX, u64::from);
    let by_duration = wish.flags.duration.map_or(u64::MAX, |d| (u64::from(d) * SECOND).div_ceil(wish.interval_ns));
    by_count.min(by_duration)
}

#[derive(Debug, PartialEq, Eq)]
enum Reached {
    /// The interval's end, or the time to print it anyway.
    End,
    /// The end of the capture.
    Ended,
    /// A signal.
    Stopped,
}

/// Takes in batches until the interval's end has been observed.
fn wait(opened: &mut Opened, end: Ts, deadline: Instant, stop: &AtomicBool, herald: &mut Herald) -> Reached {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Reached::Stopped;
        }
        if opened.trace.0.extent().is_some_and(|e| e.end >= end) || Instant::now() >= deadline {
            return Reached::End;
        }
        match opened.capturing.batches.recv_deadline(deadline.min(Instant::now() + POLL)) {
            Ok(batch) => {
                let markers = batch.markers.clone();
                opened.trace.0.absorb(batch);
                herald.hear(opened.trace.0.health(), &markers);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Reached::Ended,
        }
    }
}

/// What is printed of one interval, asked and answered.
pub(super) fn answers(trace: &mut impl Source, renderer: &Renderer, window: Span) -> Result<Vec<Answer>> {
    renderer.questions(Window::Fixed(window)).iter().map(|q| trace.ask(q)).collect()
}

pub(super) fn options(wish: &Wish) -> Options {
    let flags = &wish.flags;
    let view = match flags.view() {
        cli::View::TimeModel => View::TimeModel,
        cli::View::SystemEvent => View::SystemEvent,
        cli::View::SessionEvent => View::SessionEvent,
        cli::View::QueryEvent => View::QueryEvent,
        cli::View::Histogram => View::Histogram,
        cli::View::Flow => View::Flow,
        cli::View::Active => View::Active,
    };
    Options {
        view,
        format: match wish.format {
            cli::Format::Json => Format::Json,
            cli::Format::Csv => Format::Csv,
            cli::Format::Text | cli::Format::Tui => Format::Text,
        },
        // One backend's events stand below the table of all sessions.
        filter: if view == View::SessionEvent { wish.without_pid.clone() } else { wish.filter.clone() },
        pid: flags.pid_filter,
        event: flags.event.clone(),
        query: flags.query_id.as_deref().and_then(QueryId::parse),
        sort: match flags.sort {
            cli::Sort::WaitTime => Sort::WaitTime,
            cli::Sort::DbTime => Sort::DbTime,
            cli::Sort::Pid => Sort::Pid,
            cli::Sort::Event => Sort::Event,
        },
        windows: wish.windows.clone(),
        scope: if flags.cumulative { Scope::Cumulative } else { Scope::Interval },
        lightweight: flags.lightweight,
        zone: wish.zone.clone(),
        limit: 0,
    }
}
