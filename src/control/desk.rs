//! The words of the control socket: a line of JSON is asked, a line of JSON is answered. Waits for nobody: what capture is to answer comes later.

use super::board::{Account, Board, Served, unhealthy};
use super::exposition::Format;
use super::{metrics, own};
use crate::capture::command::{Command, Kind, Order, Outcome};
use crate::trace::health::{Link, WindowHealth};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long capture may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Length of a window unless it is said.
const WINDOW_S: u64 = 60;
/// Longest window.
const LONGEST_S: f64 = 31_536_000.0;

/// What came of a line.
#[derive(Debug)]
pub enum Reply {
    /// The answer, without line break.
    Now(String),
    /// It depends on capture.
    Later(Waiting),
}

/// An order that capture has not answered yet.
#[derive(Debug)]
pub struct Waiting {
    outcome: Receiver<Outcome>,
    until: Instant,
    command: Command,
}

/// Answers.
#[derive(Debug)]
pub struct Desk {
    board: Arc<Board>,
    orders: Sender<Order>,
}

/// The answer to what cannot be done.
pub fn refusal(why: &str) -> String {
    json!({ "ok": false, "error": why }).to_string()
}

impl Desk {
    /// A desk in front of a board, with a way to the capture.
    pub fn new(board: Arc<Board>, orders: Sender<Order>) -> Self {
        Self { board, orders }
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The metrics, for HTTP.
    pub fn metrics(&self, format: Format) -> String {
        metrics::write(&self.board, format)
    }

    /// Takes a line.
    pub fn take(&self, line: &[u8]) -> Reply {
        Served::count(&self.board.served.requests);
        let Ok(request) = serde_json::from_slice::<Value>(line) else { return Reply::Now(refusal("invalid json")) };
        let Some(cmd) = request.get("cmd").and_then(Value::as_str) else { return Reply::Now(refusal("missing cmd")) };
        let account = self.board.account();
        Reply::Now(match cmd {
            "status" => self.status(&account),
            "metrics" => self.self_metrics(&account),
            "health" => json!({ "ok": true, "health": account.health }).to_string(),
            "prometheus" => {
                let format = Format::Prometheus;
                json!({ "ok": true, "content_type": format.content_type(), "prometheus": self.metrics(format) }).to_string()
            }
            "escalate" => match seconds(request.get("duration_s")) {
                None => self.denied(&account, "duration_s must be positive"),
                Some(seconds) => {
                    let kind = match request.get("tier").map(Value::as_str) {
                        None => self.board.facts.kind,
                        Some(Some("exact")) => Kind::Exact,
                        Some(Some("blocking")) => Kind::Blocking,
                        Some(_) => return Reply::Now(self.denied(&account, "tier must be exact or blocking")),
                    };
                    return self.order(&account, Command::Open { kind, seconds: Some(seconds) });
                }
            },
            "deescalate" => return self.order(&account, Command::Close),
            _ => refusal("unknown command"),
        })
    }

    /// Gives an order to capture, or says why not.
    fn order(&self, account: &Account, command: Command) -> Reply {
        let facts = &self.board.facts;
        let denied = |why: &str| Reply::Now(self.denied(account, why));
        if !facts.tiered {
            return denied("escalation requires --mode tiered");
        }
        if facts.playing {
            return denied("a scenario is being played, and no server watched that a window could be opened on");
        }
        if matches!(account.health.link, Link::Starting | Link::Ended { .. }) {
            // An order that nobody reads now would be carried out when nobody expects it any more.
            return denied(unhealthy(&account.health).unwrap_or("the capture does not listen"));
        }
        let (reply, outcome) = bounded(1);
        if self.orders.send(Order { command, reply: Some(reply) }).is_err() {
            return denied("the capture has ended");
        }
        Reply::Later(Waiting { outcome, until: Instant::now() + PATIENCE, command })
    }

    /// The answer of an order, when there is one or nothing more is waited for.
    pub fn outcome(&self, waiting: &Waiting, now: Instant) -> Option<String> {
        let account = self.board.account();
        let outcome = match waiting.outcome.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) if now < waiting.until => return None,
            Err(TryRecvError::Empty) => {
                Err(format!("the capture did not answer within {} s; what came of it is in 'status'", PATIENCE.as_secs()))
            }
            Err(TryRecvError::Disconnected) => Err("the capture has ended".into()),
        };
        let budget = budget_remaining(&account);
        Some(match (outcome, waiting.command) {
            (Err(why), _) => self.denied(&account, &why),
            (Ok(done), Command::Open { kind, seconds }) => json!({
                "ok": true,
                "escalated": true,
                "granted_s": done.granted_s.or(seconds),
                "seconds_remaining": done.remaining_s,
                "budget_remaining_s": budget,
                "tier": kind.fidelity().name(),
            })
            .to_string(),
            (Ok(_), Command::Close) => json!({ "ok": true, "escalated": false, "budget_remaining_s": budget }).to_string(),
        })
    }

    fn denied(&self, account: &Account, why: &str) -> String {
        let budget = if self.board.facts.tiered { budget_remaining(account) } else { 0.0 };
        json!({ "ok": false, "error": why, "budget_remaining_s": budget }).to_string()
    }

    /// What `status` and `metrics` both say about windows.
    fn tier(&self, account: &Account) -> Map<String, Value> {
        let facts = &self.board.facts;
        let open = account.health.window.as_ref().filter(|w| w.open);
        let escalation = account.health.escalation.as_ref();
        let unlimited = facts.tiered && escalation.is_none_or(|e| e.budget_s.is_none());
        let capacity = escalation.and_then(|e| e.capacity_cores);
        members(json!({
            "tier": if open.is_some() || facts.standing { "escalated" } else { "sampled" },
            "escalation_active": open.is_some() && !facts.standing,
            "escalation_seconds_remaining": open.and_then(|w| w.remaining_s).unwrap_or(0),
            "escalation_budget_remaining_s": if facts.tiered { budget_remaining(account) } else { 0.0 },
            "escalation_budget_unlimited": unlimited,
            "effective_cpu_capacity_cores": capacity.unwrap_or(-1.0),
            "effective_cpu_capacity_source": escalation.map_or("unknown", |e| e.capacity_source.as_str()),
            "sampler_healthy": unhealthy(&account.health).is_none(),
            "cpu_accounting": "measured",
        }))
    }

    fn status(&self, account: &Account) -> String {
        let (facts, health) = (&self.board.facts, &account.health);
        let open = health.window.as_ref().filter(|w| w.open);
        let recording = health.recording.as_ref();
        let mut all = self.tier(account);
        all.extend(members(json!({
            "ok": true,
            "mode": facts.mode,
            "uptime_s": self.board.uptime(),
            "backends": health.backends,
            "pg_pid": account.server.postmaster,
            "version": facts.version,
            "escalation_supported": facts.tiered && !facts.playing,
            "escalation_reason": open.filter(|_| !facts.standing).map_or("none", cause),
            "escalation_reason_detail": open.map_or("", |w| w.cause_detail.as_str()),
            "sampler_unhealthy_reason": unhealthy(health).unwrap_or(""),
            "pg_version": account.server.version,
            "pg_port": account.server.port,
            "pg_data": account.server.pgdata,
            "sample_rate_hz": health.rate_hz,
            "memory_access": health.access,
            "window": health.window,
            "window_error": health.window_error,
            "trace_dir": recording.map(|r| r.dir.as_str()),
            "recording_error": recording.and_then(|r| r.error.as_deref()),
        })));
        Value::Object(all).to_string()
    }

    fn self_metrics(&self, account: &Account) -> String {
        let (health, windows) = (&account.health, &account.windows);
        let totals = self.board.totals();
        let open = health.window.as_ref().filter(|w| w.open);
        let written = account.written.unwrap_or_default();
        let mut all = self.tier(account);
        all.extend(members(json!({
            "ok": true,
            "uptime_s": self.board.uptime(),
            "events_total": windows.records,
            "events_per_sec": open.map_or(0, |w| w.events_per_s),
            "lifecycle_events_total": account.lifecycle,
            "wp_attach_failures_total": windows.refused,
            "backends_tracked": health.backends,
            "samples_total": account.samples,
            "samples_per_sec": totals.last_samples as f64 * 1e9 / totals.last_ns.max(1) as f64,
            "sample_read_faults_total": health.unread,
            "sampler_ticks_total": health.ticks,
            "sampler_ticks_missed_total": health.late_ticks,
            "invalid_wait_reads_total": health.invalid,
            "ringbuf_drops_total": windows.lost,
            "io_worker_busy_pct": totals.io_worker_busy.map_or(0.0, |share| share * 100.0),
            "cpu_ns_total": totals.cpu_ns,
            "offcpu_ns_total": totals.off_cpu_ns,
            "wait_gap_cpu_ns_total": totals.wait_cpu_ns,
            "trace_events_written_total": written.records,
            "trace_bytes_written_total": written.bytes,
            "trace_write_errors_total": written.errors,
            "trace_lost_records_total": health.recording.as_ref().map_or(0, |r| r.lost_records),
            "db_time_ns_total": totals.classes.iter().sum::<u64>(),
            "idle_ns_total": totals.idle_ns,
            "own_cpu_ns_total": own::cpu_ns(),
            "own_rss_bytes": own::rss_bytes(),
        })));
        let x = health.escalation.clone().unwrap_or_default();
        let windows_total = if health.escalation.is_some() { x.windows } else { windows.opened };
        all.extend(members(json!({
            "escalation_windows_total": windows_total,
            "escalation_denied_total": x.denied,
            "escalation_budget_closed_total": x.budget_closed,
            "anomaly_fires_total": x.fires,
            "anomaly_near_total": x.near,
            "anomaly_dropped_budget_total": x.dropped_budget,
            "anomaly_dropped_cooldown_total": x.dropped_cooldown,
            "anomaly_baseline_aas": x.baseline_aas,
            "anomaly_cpu_saturation_fires_total": x.cpu_fires,
            "anomaly_cpu_cusum_enabled": x.cpu_evidence.is_some(),
            "anomaly_cpu_cusum": x.cpu_evidence.unwrap_or(0.0),
        })));
        Value::Object(all).to_string()
    }
}

fn members(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

/// Who wanted a window, in the original's words.
fn cause(window: &WindowHealth) -> &str {
    if window.cause.is_empty() { "manual" } else { &window.cause }
}

/// Seconds left; -1: no limit.
fn budget_remaining(account: &Account) -> f64 {
    account.health.escalation.as_ref().and_then(|e| e.remaining_s).unwrap_or(-1.0)
}

/// Whole seconds asked for; the usual length unless it is a number. `None`: not above 0.
fn seconds(member: Option<&Value>) -> Option<u64> {
    let Some(asked) = member.and_then(Value::as_f64) else { return Some(WINDOW_S) };
    (asked > 0.0).then(|| asked.min(LONGEST_S).ceil() as u64)
}

#[cfg(test)]
mod tests;
