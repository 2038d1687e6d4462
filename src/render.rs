//! Answers as text, JSON lines and CSV. Writes to whatever it is given and returns the error of that, so that a closed pipe can end quietly.
//!
//! A [`Renderer`] says what to ask ([`Renderer::questions`]) and prints what came back ([`Renderer::write`]); asking is the caller's.

pub mod control;
pub mod csv;
pub mod json;
mod scale;
pub mod text;

use crate::analysis::answer::{ActiveRow, Answer, Body, Coverage, Flow};
use crate::analysis::filter::{Filter, Term};
use crate::analysis::question::{Ask, Question};
use crate::trace::catalog::EventNames;
use crate::trace::clock::{Span, Window};
use crate::trace::record::QueryId;
use crate::trace::wait::WaitEvent;
use jiff::tz::TimeZone;
use std::cmp::Reverse;
use std::io::{self, Write};

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One object per line.
    Json,
    /// A header line, then rows.
    Csv,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// DB Time by class and event.
    TimeModel,
    /// Wait events.
    SystemEvent,
    /// Sessions; with one pid selected, its events below.
    SessionEvent,
    /// Queries and events; where executions were seen, those too.
    QueryEvent,
    /// How long waits were.
    Histogram,
    /// What followed what.
    Flow,
    /// What sessions do now.
    Active,
}

/// Points of time in a histogram as JSON: the original's default.
const HEATMAP_COLUMNS: u16 = 200;

impl View {
    /// As given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeModel => "time_model",
            Self::SystemEvent => "system_event",
            Self::SessionEvent => "session_event",
            Self::QueryEvent => "query_event",
            Self::Histogram => "histogram",
            Self::Flow => "flow",
            Self::Active => "active",
        }
    }

    fn ask(self, format: Format) -> Ask {
        match self {
            Self::TimeModel => Ask::TimeModel,
            Self::SystemEvent => Ask::Events,
            Self::SessionEvent => Ask::Sessions,
            Self::QueryEvent => Ask::QueryEvents,
            Self::Histogram => Ask::Latency { buckets: if format == Format::Json { HEATMAP_COLUMNS } else { 1 } },
            Self::Flow => Ask::Flow,
            Self::Active => Ask::Active,
        }
    }
}

/// Order of the active view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Waiting first, then on CPU, then idle; the longest first.
    #[default]
    WaitTime,
    /// Most load first.
    DbTime,
    /// By process id.
    Pid,
    /// By event name.
    Event,
}

/// What stretch of time the figures are of, as the heading says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The interval since the last printing.
    #[default]
    Interval,
    /// Everything since the start.
    Cumulative,
    /// A stretch the user chose.
    Range,
}

/// Everything that decides what is asked and how it looks.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is printed.
    pub view: View,
    /// How.
    pub format: Format,
    /// About which rows.
    pub filter: Filter,
    /// The session whose events are wanted too (session_event).
    pub pid: Option<i32>,
    /// Only this event (query_event: which queries are in it).
    pub event: Option<String>,
    /// Only this query (query_event: what it waits for).
    pub query: Option<QueryId>,
    /// Order of the active view.
    pub sort: Sort,
    /// Windows beside or below each other, nanoseconds, ascending; empty for one window.
    pub windows: Vec<u64>,
    /// What the one window is.
    pub scope: Scope,
    /// Whether exact and blocking capture was told to record no states, so that the CPU time of clients is not known.
    pub lightweight: bool,
    /// Zone of the times in text.
    pub zone: TimeZone,
    /// Rows at most; 0 = as many as the view lists.
    pub limit: usize,
}

impl Options {
    /// The view as text over an interval, without filters.
    pub fn new(view: View) -> Self {
        Self {
            view,
            format: Format::Text,
            filter: Filter::default(),
            pid: None,
            event: None,
            query: None,
            sort: Sort::default(),
            windows: Vec::new(),
            scope: Scope::default(),
            lightweight: false,
            zone: TimeZone::UTC,
            limit: 0,
        }
    }
}

/// Prints one view, again and again.
#[derive(Debug, Clone)]
pub struct Renderer {
    options: Options,
    headed: bool,
}

impl Renderer {
    /// Nothing is printed yet.
    pub fn new(options: Options) -> Self {
        Self { options, headed: false }
    }

    /// What to ask for one printing: about `window`, or about each of the windows given in the options up to now. Then, of the same windows, what
    /// stands beside those answers.
    pub fn questions(&self, window: Window) -> Vec<Question> {
        let o = &self.options;
        let mut filter = o.filter.clone();
        if matches!(o.view, View::QueryEvent | View::SystemEvent | View::Histogram) {
            filter.clauses.extend(o.event.clone().map(|name| Filter::default().and(Term::EventNamed(name)).clauses).unwrap_or_default());
        }
        if let (View::QueryEvent, Some(id)) = (o.view, o.query) {
            filter = filter.and(Term::Query(id));
        }
        // Windows end where the interval ends, so that what they have in common is the same.
        let up_to_now = |ns: u64| match window {
            Window::Fixed(span) => Window::Fixed(Span::new(span.end - ns, span.end)),
            Window::Follow(_) => Window::Follow(ns),
        };
        let windows = if o.windows.is_empty() { vec![window] } else { o.windows.iter().map(|ns| up_to_now(*ns)).collect() };
        let about = |ask: Ask, filter: &Filter| -> Vec<Question> {
            windows.iter().map(|w| Question { filter: filter.clone(), limit: o.limit, ..Question::new(ask, *w) }).collect()
        };
        let mut questions = about(o.view.ask(o.format), &filter);
        questions.extend(match (o.view, o.pid) {
            (View::SessionEvent, Some(pid)) => about(Ask::Events, &filter.clone().and(Term::Pid(pid))),
            // Executions are of a query, not of a query and an event.
            (View::QueryEvent, _) => about(Ask::Queries, &filter),
            _ => Vec::new(),
        });
        questions
    }

    /// Prints the answers to [`Self::questions`], in their order. A CSV header is printed before the first only.
    pub fn write(&mut self, out: &mut impl Write, answers: &[Answer]) -> io::Result<()> {
        let mut answers = answers.to_vec();
        for answer in &mut answers {
            if let Body::Active { active, .. } = &mut answer.body {
                sort(active, self.options.sort);
            }
        }
        let first = !std::mem::replace(&mut self.headed, true);
        let (main, beside) = answers.split_at(self.options.windows.len().max(1).min(answers.len()));
        let parts: Vec<Part> = main.iter().enumerate().map(|(i, answer)| Part { answer, beside: beside.get(i) }).collect();
        match self.options.format {
            Format::Text => text::write(out, &self.options, &parts)?,
            Format::Json => json::write(out, &self.options, &parts)?,
            Format::Csv => csv::write(out, &self.options, &parts, first)?,
        }
        out.flush()
    }
}

/// What is printed of one window: the view's answer, and the one that stands beside it.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The view's answer.
    pub answer: &'a Answer,
    /// The events of the session selected, the queries with their executions, or the events of the time model.
    pub beside: Option<&'a Answer>,
}

/// Nanoseconds of the window of which waits are known one by one.
fn precise_ns(coverage: &Coverage) -> u64 {
    coverage.exact_ns + coverage.blocking_ns
}

/// Name of an event in a flow.
fn flow_name(flow: &Flow, event: WaitEvent) -> String {
    flow.nodes.iter().find(|n| n.event == event).map_or_else(|| EventNames::default().name(event), |n| n.name.clone())
}

/// Why a histogram or a flow cannot be made, and how to get one. `None` when it can.
fn unavailable(options: &Options, answer: &Answer) -> Option<String> {
    let what = match options.view {
        View::Histogram => "How long waits were",
        View::Flow => "What followed what",
        _ => return None,
    };
    (precise_ns(&answer.coverage) == 0).then(|| {
        let why = if answer.coverage.sampled_ns > 0 { "samples cannot tell" } else { "nothing was observed in this time" };
        format!("{what} is unavailable: {why}. It takes --mode full (every wait), --mode blocking (waits that leave the CPU), or a window opened in the full screen (--mode tiered).")
    })
}

fn sort(rows: &mut [ActiveRow], sort: Sort) {
    match sort {
        // As answered.
        Sort::WaitTime => {}
        Sort::DbTime => rows.sort_by_key(|r| Reverse(r.time_ns)),
        Sort::Pid => rows.sort_by_key(|r| r.who.pid),
        Sort::Event => rows.sort_by(|a, b| a.name.cmp(&b.name)),
    }
}
