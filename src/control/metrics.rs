//! Every metric that is served: its name, its help and where its value comes from, each once. docs/METRICS.md has the same table. Pure.

use super::board::{Account, Board, unhealthy};
use super::exposition::{Exposition, Format, Sample, Value};
use super::meter::Totals;
use super::own;
use crate::trace::health::{Escalation, WindowHealth};
use crate::trace::record::Fidelity;
use crate::trace::wait::WaitClass;
use Value::{Count, Float, Ns};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

/// All metrics as text.
pub fn write(board: &Board, format: Format) -> String {
    let (account, totals) = (board.account(), board.totals());
    let mut e = Exposition::new(format);
    this_program(&mut e, board, &account);
    load(&mut e, &totals);
    sampling(&mut e, &account);
    windows(&mut e, &account, board);
    if let Some(escalation) = &account.health.escalation {
        escalations(&mut e, escalation);
    }
    recording(&mut e, &account);
    e.finish()
}

fn flag(is: bool) -> Value {
    Count(u64::from(is))
}

fn this_program(e: &mut Exposition, board: &Board, account: &Account) {
    let facts = &board.facts;
    e.info("build", "This program and how it captures.", vec![("version", facts.version), ("mode", facts.mode)]);
    let started = facts.started.duration_since(UNIX_EPOCH).ok().map(|d| Float(d.as_secs_f64()));
    e.gauge("start_time_seconds", "When the recorder started, Unix time. Counters began at 0 then.", started);
    e.count("cpu_seconds", "CPU time of the whole recorder process.", Ns(own::cpu_ns()));
    e.count("capture_cpu_seconds", "CPU time of the thread that captures.", Ns(account.health.cpu_ns));
    e.gauge("resident_memory_bytes", "Resident memory of the recorder process.", own::rss_bytes().map(Count));
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let served = &board.served;
    let requests = [("socket", &served.requests), ("http", &served.http_requests)];
    let requests = requests.map(|(interface, n)| (vec![("interface", interface)], Count(of(n))));
    e.counter("control_requests", "Requests answered on the control socket and by HTTP.", requests);
    e.gauge("control_clients", "Clients of the control socket.", Some(Count(of(&served.clients))));
    e.count("control_clients_refused", "Clients sent away because there were too many.", Count(of(&served.refused)));
    e.count(
        "control_clients_dropped",
        "Clients dropped because they did not read, or did not say what they want.",
        Count(of(&served.dropped)),
    );
    e.count("viewer_dropped_blocks", "Blocks the text or screen was too slow for. The recording and these metrics have them.", {
        Count(account.health.dropped_blocks)
    });
    e.count("viewer_dropped_records", "Rows in those blocks.", Count(account.health.dropped_records));
    e.count("metering_dropped_blocks", "Blocks the adding up of DB Time was too slow for: they are missing below.", {
        Count(account.unmetered_blocks)
    });
    e.count("metering_dropped_records", "Rows in those blocks.", Count(account.unmetered_records));
}

/// Classes that can be load, each with something.
fn classes<T: Copy>(of: &[T; WaitClass::ALL.len()], value: fn(T) -> Value) -> impl Iterator<Item = Sample<'static>> {
    let rows = WaitClass::ALL.into_iter().zip(of).filter(|(class, _)| *class != WaitClass::Activity);
    rows.map(move |(class, x)| (vec![("class", class.name())], value(*x)))
}

fn load(e: &mut Exposition, t: &Totals) {
    e.counter("db_time_seconds", "DB Time by wait class: the time of all sessions that was load. Its rate is average active sessions.", {
        classes(&t.classes, Ns)
    });
    e.counter("event_seconds", "DB Time by wait event: the first 50 seen, the others of a class as 'other'.", {
        t.events.iter().map(|((class, event), total)| (vec![("class", *class), ("event", event.as_str())], Ns(total.ns)))
    });
    e.counter("event_waits", "Waits that ended, by wait event. Known in exact and blocking windows only: elsewhere none are counted.", {
        t.events.iter().map(|((class, event), total)| (vec![("class", *class), ("event", event.as_str())], Count(total.waits)))
    });
    e.gauges("active_sessions", "Average active sessions by wait class over the newest second that has settled.", {
        classes(&t.aas, Float).take(if t.last_ns > 0 { WaitClass::ALL.len() } else { 0 })
    });
    e.count("idle_seconds", "Time of all sessions in waits that are idle by rule. No part of DB Time.", Ns(t.idle_ns));
    let observed = [(Fidelity::Exact, t.exact_ns), (Fidelity::Blocking, t.blocking_ns), (Fidelity::Sampled, t.sampled_ns)];
    let observed = observed.map(|(fidelity, ns)| (vec![("fidelity", fidelity.name())], Ns(ns)));
    e.counter("observed_seconds", "Time that was observed and counted above, by how it was seen.", observed);
    e.count("unobserved_seconds", "Time that was not: the server was away, the machine was suspended, or blocks were lost.", Ns(t.gap_ns));
    e.count("measured_cpu_seconds", "On the CPU outside of waits, as measured in exact and blocking windows.", Ns(t.cpu_ns));
    e.count("measured_off_cpu_seconds", "Off the CPU outside of waits, as measured there. Class Off-CPU*.", Ns(t.off_cpu_ns));
    e.count("measured_wait_cpu_seconds", "On the CPU inside waits, as measured there.", Ns(t.wait_cpu_ns));
    e.gauge("io_worker_busy_ratio", "Share of the I/O workers' time that was busy, newest second (PostgreSQL 18 and later).", {
        t.io_worker_busy.map(Float)
    });
}

fn sampling(e: &mut Exposition, account: &Account) {
    let h = &account.health;
    e.gauge("server_up", "1 while a server is being read, 0 while it is away.", Some(flag(unhealthy(h).is_none())));
    let (version, port) = (account.server.version.as_str(), account.server.port.to_string());
    if account.server.major > 0 {
        e.info("server", "The server.", vec![("version", version), ("port", &port)]);
    }
    e.gauge("server_cpus", "CPUs the server may run on.", Some(account.server.cpus).filter(|n| *n > 0).map(|n| Count(n.into())));
    e.gauge("backends", "Processes of the server at the newest tick.", Some(Count(h.backends.into())));
    e.gauge("sample_rate_hertz", "Ticks per second asked for.", Some(Float(h.rate_hz.into())));
    e.count("ticks", "Looks at all processes.", Count(h.ticks));
    e.count("ticks_late", "Ticks that came more than half a period late. They weigh the time they stand for.", Count(h.late_ticks));
    e.count("samples", "Observations of processes, of all ticks.", Count(account.samples));
    e.count("gaps", "Stretches without observation.", Count(h.gaps));
    e.count("reads_refused", "Readings of a process that could not be trusted: its time is missing at that tick.", Count(h.unread));
    e.count("reads_invalid", "Values that no wait event has; never recorded.", Count(h.invalid));
    e.count("attachments", "Attachments to a server. More than one: it restarted.", Count(h.attachments));
    e.count("lifecycle_events", "Processes of the server that came or went.", Count(account.lifecycle));
}

fn windows(e: &mut Exposition, account: &Account, board: &Board) {
    let window = account.health.window.as_ref();
    let open = window.filter(|w| w.open);
    let tiers = [Fidelity::Exact, Fidelity::Blocking];
    let opened = tiers.map(|tier| (vec![("tier", tier.name())], Count(u64::from(open.is_some_and(|w| w.tier == tier)))));
    e.gauges("window_open", "1 while an exact or blocking window is open.", opened);
    let left = open.and_then(|w| w.remaining_s).or(if board.facts.standing { None } else { Some(0) });
    e.gauge("window_remaining_seconds", "Time until the window closes; 0: none is open. Left out for one without an end.", {
        left.map(|s| Float(s as f64)).filter(|_| open.is_none_or(|w| w.remaining_s.is_some()))
    });
    let now = |of: fn(&WindowHealth) -> Value| Some(open.map_or(Count(0), of));
    e.gauge("window_overhead_ratio", "What the open window costs the server, of one core.", now(|w| Float(w.overhead_pct / 100.0)));
    e.gauge("window_price_seconds", "What one transition costs the server in the open window.", now(|w| Ns(w.price_ns)));
    e.gauge("window_followed_backends", "Processes followed in the open window.", now(|w| Count(w.armed.into())));
    e.gauge("window_unfollowed_backends", "Processes that cannot be followed in it; samples stand in.", now(|w| Count(w.unarmed.into())));
    e.gauge("window_ring_fill_ratio", "Fullest a ring was found in the open window.", now(|w| Float(w.ring_fill_pct / 100.0)));
    let w = &account.windows;
    e.count("windows_opened", "Exact and blocking windows opened.", Count(w.opened));
    e.count("events", "Transitions and switches taken in by windows.", Count(w.records));
    e.count(
        "ringbuf_drops",
        "Records of windows lost because a ring was full. Counted in the recording at their time, too.",
        Count(w.lost),
    );
    e.count("attach_failures", "Processes found that could not be followed.", Count(w.refused));
    e.count("missed_backends", "Processes that ended before they could be followed.", Count(w.missed));
    e.count("repaired_backends", "Processes whose state was read again because it changed while they were armed.", Count(w.repaired));
    e.count("window_read_faults", "Reads of a process's memory that failed in windows.", Count(w.faults));
    e.count("window_odd_switches", "Switches of a process that do not follow on the one before.", Count(w.odd));
}

fn escalations(e: &mut Exposition, x: &Escalation) {
    e.gauge("escalation_budget_seconds", "Exact windows allowed in any hour. Left out without a limit.", x.budget_s.map(Float));
    e.gauge("escalation_budget_remaining_seconds", "What of it is left. Left out without a limit.", x.remaining_s.map(Float));
    e.count("escalation_windows", "Windows opened on demand or by a rule.", Count(x.windows));
    e.count("escalation_denied", "Requests for a window that the budget denied.", Count(x.denied));
    e.count("escalation_budget_closed", "Windows closed since the budget was used up.", Count(x.budget_closed));
    e.count("anomaly_fires", "Windows that a rule asked for and got, and open ones that it made last longer.", Count(x.fires));
    e.count("anomaly_cpu_fires", "Of those, by the rule about the CPU.", Count(x.cpu_fires));
    e.count("anomaly_near", "Observations that came near a fire.", Count(x.near));
    e.count("anomaly_dropped_budget", "Fires that the budget denied.", Count(x.dropped_budget));
    e.count("anomaly_dropped_cooldown", "Fires in the pause after a window.", Count(x.dropped_cooldown));
    e.gauge("anomaly_baseline_sessions", "Usual average active sessions, as far as learned.", Some(Float(x.baseline_aas)));
    e.gauge("anomaly_warming_seconds", "Time until the usual load is known well enough; 0: it is.", Some(Float(x.warming_s)));
    e.gauge("anomaly_cooldown_seconds", "Time until rules may fire again; 0: they may.", Some(Float(x.cooldown_s)));
    e.gauge("cpu_capacity_cores", "Cores the server can have. Left out when not known.", x.capacity_cores.map(Float));
    e.gauge("anomaly_cpu_evidence_seconds", "Evidence of too little CPU. Left out when the rule is off.", x.cpu_evidence.map(Float));
    e.gauge("anomaly_cpu_threshold_seconds", "Evidence at which that rule fires.", Some(Float(x.cpu_threshold)));
}

fn recording(e: &mut Exposition, account: &Account) {
    let (Some(recording), Some(written)) = (&account.health.recording, account.written) else { return };
    e.gauge("recording_up", "1 while records reach the disk, 0 while writing fails.", Some(flag(recording.error.is_none())));
    e.count("recording_errors", "Writes that failed.", Count(written.errors));
    e.count("recording_lost_records", "Records that were not written.", Count(recording.lost_records));
    e.count("trace_events_written", "Records written: samples and transitions.", Count(written.records));
    e.count("trace_written_bytes", "Bytes written.", Count(written.bytes));
    e.count("trace_blocks_written", "Blocks written.", Count(written.blocks));
    e.count("trace_files_finished", "Files finished.", Count(written.files));
    let newest = Some(written.newest).filter(|ns| *ns > 0).map(|ns| Ns(ns as u64));
    e.gauge("recording_newest_timestamp_seconds", "Newest instant on disk, Unix time.", newest);
}
