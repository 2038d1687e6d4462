//! Text, JSON and CSV per interval. The window of each interval begins where the one before ended, and is printed when its end has been observed, so
//! that a session blocked all the time has exactly the interval's length.

use super::live::{self, Opened};
use super::wish::Wish;
use crate::analysis::answer::Answer;
use crate::analysis::question::{Ask, Question};
use crate::analysis::{Local, Source};
use crate::cli::View;
use crate::render::Printer;
use crate::trace::Trace;
use crate::trace::clock::{SECOND, Span, Ts, Window};
use crate::trace::health::Link;
use crate::trace::recent::Recent;
use anyhow::Result;
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
    let mut printer = Printer::new(std::io::stdout().lock(), wish);
    let mut told = Link::Attached;
    let last = last_interval(wish);
    for n in 1..=last {
        let end = start + n * wish.interval_ns;
        let deadline = began + Duration::from_nanos(n * wish.interval_ns) + GRACE;
        let reached = wait(&mut opened, end, deadline, &stop, &mut told);
        let observed = opened.trace.0.extent().map(|e| e.end).unwrap_or_default();
        let interval = Span::new(start + (n - 1) * wish.interval_ns, if reached == Reached::Ended { observed.min(end) } else { end });
        if reached == Reached::Stopped || interval.is_empty() {
            break;
        }
        printer.print(&answers(&mut opened.trace, wish, start, interval)?)?;
        if reached == Reached::Ended {
            break;
        }
    }
    match &opened.trace.0.health().link {
        Link::Ended { why } if !why.is_empty() => anyhow::bail!("{why}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// How many intervals to print.
fn last_interval(wish: &Wish) -> u64 {
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
fn wait(opened: &mut Opened, end: Ts, deadline: Instant, stop: &AtomicBool, told: &mut Link) -> Reached {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Reached::Stopped;
        }
        if opened.trace.0.extent().is_some_and(|e| e.end >= end) || Instant::now() >= deadline {
            return Reached::End;
        }
        match opened.batches.recv_deadline(deadline.min(Instant::now() + POLL)) {
            Ok(batch) => opened.trace.0.absorb(batch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Reached::Ended,
        }
        tell(&opened.trace.0.health().link, told);
    }
}

/// Says once on stderr when the server goes away, and when it is back.
fn tell(link: &Link, told: &mut Link) {
    if std::mem::discriminant(link) != std::mem::discriminant(told) {
        match link {
            Link::Waiting { why } => eprintln!("pg_wait_tracer: {why}"),
            Link::Attached => eprintln!("pg_wait_tracer: the server is back"),
            Link::Starting | Link::Ended { .. } => {}
        }
        told.clone_from(link);
    }
}

/// What a view prints of one interval: an answer per window, and for one backend its events beside its row.
fn answers(trace: &mut Local<Recent>, wish: &Wish, start: Ts, interval: Span) -> Result<Vec<Answer>> {
    let windows: Vec<Span> = if wish.flags.cumulative {
        vec![Span::new(start, interval.end)]
    } else if wish.windows.is_empty() {
        vec![interval]
    } else {
        wish.windows.iter().map(|length| Span::new(interval.end - *length, interval.end)).collect()
    };
    let asks: &[Ask] = match wish.flags.view {
        View::TimeModel => &[Ask::TimeModel],
        View::SystemEvent => &[Ask::Events],
        View::SessionEvent if wish.flags.pid_filter.is_some() => &[Ask::Sessions, Ask::Events],
        View::SessionEvent => &[Ask::Sessions],
        View::QueryEvent => &[Ask::QueryEvents],
        View::Active => &[Ask::Active],
    };
    let mut out = Vec::new();
    for window in windows {
        for ask in asks {
            let mut question = Question::new(*ask, Window::Fixed(window));
            question.filter = wish.filter.clone();
            out.push(trace.ask(&question)?);
        }
    }
    Ok(out)
}
