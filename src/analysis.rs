//! Questions about a trace and their answers. Pure: no files, threads, clocks or randomness; the same input gives the same answer on any host.
//!
//! There is one door: a [`Source`] asked a [`Question`] gives an [`Answer`]. Text, JSON, CSV, the screen and the tests all go through it.

mod active;
pub mod answer;
mod events;
mod executions;
pub mod filter;
mod flow;
mod grid;
mod latency;
mod load;
pub mod matcher;
pub use crate::trace::meaning;
mod observed;
mod queries;
pub mod question;
mod sessions;
mod tally;
mod time_model;
mod walk;

use crate::trace::Trace;
use answer::{Answer, Body, Coverage};
use grid::Grid;
use matcher::Matcher;
use observed::Observed;
use question::{Ask, Question};
use std::sync::Arc;
use tally::{Detail, Tally};
use walk::Walk;

/// Something that answers questions: a trace at hand, or (later) another host.
pub trait Source {
    /// The answer, or one line saying why there is none.
    fn ask(&mut self, question: &Question) -> anyhow::Result<Answer>;
}

/// A trace at hand as a source.
#[derive(Debug, Clone)]
pub struct Local<T>(pub T);

impl<T: Trace> Source for Local<T> {
    fn ask(&mut self, question: &Question) -> anyhow::Result<Answer> {
        answer(&self.0, question)
    }
}

/// The longest digest that will do for a question, nanoseconds: any, but for a picture one that is an eighth of a point of it. `None`: what is asked is
/// in the rows alone.
fn longest(question: &Question, window: u64) -> Option<u64> {
    let points = match question.ask {
        Ask::Flow => return None,
        Ask::Load { buckets } | Ask::Latency { buckets } => u64::from(buckets.max(1)),
        _ if question.spark == 0 => return Some(u64::MAX),
        _ => u64::from(question.spark),
    };
    Some(window / points / 8)
}

/// Answers a question about a trace. The one error is a filter that names an event the server's version does not have.
pub fn answer(trace: &impl Trace, question: &Question) -> anyhow::Result<Answer> {
    let catalog = trace.catalog();
    let matcher = Matcher::new(&question.filter, &catalog.events)?;
    let window = question.window.resolve(trace.extent());
    let walk = Walk::new(trace, window, &matcher, longest(question, window.len()));
    let mut answer = Answer {
        window,
        extent: trace.extent(),
        clock: trace.clock(),
        coverage: Coverage::default(),
        server: Arc::new(catalog.server.clone()),
        health: trace.health().clone(),
        db_time_ns: 0,
        idle_ns: 0,
        sessions: 0,
        total_rows: 0,
        body: Body::Load(answer::Load::default()),
    };
    if let Ask::Load { buckets } = question.ask {
        let mut chart = load::chart(&walk, buckets);
        chart.load.markers = trace.markers(window);
        let over = chart.load.markers.len().saturating_sub(answer::MAX_MARKERS);
        chart.load.markers.drain(..over);
        (answer.db_time_ns, answer.idle_ns, answer.sessions) = (chart.load_ns, chart.idle_ns, chart.sessions);
        answer.coverage = chart.coverage;
        answer.total_rows = chart.load.buckets.len();
        answer.body = Body::Load(chart.load);
        return Ok(answer);
    }
    if let Ask::Latency { buckets } = question.ask {
        let (view, load_ns, idle_ns, sessions) = latency::view(&walk, &matcher, buckets);
        (answer.db_time_ns, answer.idle_ns, answer.sessions) = (load_ns, idle_ns, sessions);
        answer.coverage = walk.coverage(|_| {});
        answer.total_rows = view.bars.len();
        answer.body = Body::Latency(view);
        return Ok(answer);
    }
    let detail = match question.ask {
        Ask::Load { .. } | Ask::TimeModel => Detail::Event,
        Ask::Events => Detail::SessionEvent,
        Ask::Sessions => Detail::SessionEventAndQueries,
        Ask::Queries => Detail::QueryEventAndSessions,
        Ask::QueryEvents => Detail::QueryEvent,
        Ask::Active | Ask::Latency { .. } | Ask::Flow => Detail::Session,
    };
    let grid = (question.spark > 0).then(|| Grid::new(window, question.spark));
    let tally = Tally::of(&walk, detail, grid.as_ref());
    let seen = Observed::of(&walk, grid.as_ref());
    (answer.db_time_ns, answer.idle_ns, answer.sessions) = (tally.load_ns, tally.idle_ns, tally.sessions);
    let limit = question.limit;
    (answer.body, answer.total_rows) = match question.ask {
        Ask::TimeModel | Ask::Load { .. } => {
            let model = time_model::time_model(&tally, &seen, &catalog.events, !matcher.looks_at_records());
            let total = model.rows.len();
            (Body::TimeModel(model), total)
        }
        Ask::Events => {
            let (events, total) = events::events(&tally, &seen, &catalog.events, limit);
            (Body::Events { events }, total)
        }
        Ask::Sessions => {
            let (sessions, total) = sessions::sessions(&tally, &seen, catalog, limit);
            (Body::Sessions { sessions }, total)
        }
        Ask::Queries => {
            let (queries, total) = queries::queries(&tally, &seen, catalog, executions::executions(&walk, &matcher), limit);
            (Body::Queries { queries }, total)
        }
        Ask::QueryEvents => {
            let (pairs, total) = queries::pairs(&tally, catalog, limit);
            (Body::QueryEvents { pairs }, total)
        }
        Ask::Active => {
            let (active, at, total) = active::active(&walk, &matcher, &tally, limit);
            (Body::Active { active, at }, total)
        }
        Ask::Flow | Ask::Latency { .. } => {
            let (flow, total) = flow::flow(&walk, &catalog.events, limit);
            (Body::Flow(flow), total)
        }
    };
    answer.coverage = seen.coverage;
    Ok(answer)
}
