//! Windows that open by themselves: one state machine of budget, rules and cooldown. Pure: the sampler tells it what each tick saw and what became of windows.
//!
//! Invariants. A window is open or asked for, never two. What was granted is an end that may move out and never in; in no hour is more open than the
//! budget allows, as long as windows close at the end they were given. Everything that happens is told once, as a marker.

mod episode;

use super::anomaly::{self, Capacity, Detector, Joiner, Near, Observation, Rule, Source, Verdict};
use super::budget::{Allowance, Denied, Ledger};
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::health;
use crate::trace::learned::Learned;
use crate::trace::marker::{Kind, LASTS_LONGER, Marker, Reason};
use crate::trace::record::Fidelity;
use episode::{Episodes, What};

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// What exact windows may be open in any hour.
    pub budget: Allowance,
    /// How long a window that a rule asks for is open, nanoseconds.
    pub window: u64,
    /// The rules.
    pub rules: anomaly::Settings,
    /// Cores the server can have, where that is said and not to be found out.
    pub cores: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { budget: Allowance::Ns(300 * SECOND), window: 60 * SECOND, rules: anomaly::Settings::default(), cores: None }
    }
}

/// Between why a window was opened and why it lasts longer.
const EXTENDED: &str = "; extended: ";

/// Active sessions at a tick: all, those that wait for a lock, those without a wait.
pub type Counts = (u32, u32, u32);

/// When an open window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The instant; `None`: without an end.
    pub at: Option<Ts>,
    /// It would be later if there were more budget.
    pub by_budget: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// An exact window is to be opened: then [`Escalation::opened`] or [`Escalation::failed`] must be told.
    Open,
    /// The open one is to end then.
    Extend(End),
}

/// A window that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    /// When it was asked for.
    at: Ts,
    reason: Reason,
    detail: String,
    /// Nanoseconds; `None`: without an end.
    ns: Option<u64>,
    by_budget: bool,
}

#[derive(Debug)]
enum State {
    Closed,
    Asked(Grant),
    Open { since: Ts, end: End, grant: Grant },
}

/// The state machine.
#[derive(Debug)]
pub struct Escalation {
    settings: Settings,
    ledger: Ledger,
    joiner: Joiner,
    detector: Detector,
    state: State,
    episodes: Episodes,
    near_now: String,
    windows: u64,
    denied: u64,
    budget_closed: u64,
    /// What came near and may fire yet: then it was not only near.
    nearly: Vec<Marker>,
    markers: Vec<Marker>,
}

impl Escalation {
    /// Nothing learned or spent. For ticks at `hz` per second.
    pub fn new(settings: Settings, hz: u32) -> Self {
        Self {
            ledger: Ledger::new(settings.budget),
            joiner: Joiner::new(hz),
            detector: Detector::new(settings.rules),
            settings,
            state: State::Closed,
            episodes: Episodes::default(),
            near_now: String::new(),
            windows: 0,
            denied: 0,
            budget_closed: 0,
            nearly: Vec::new(),
            markers: Vec::new(),
        }
    }

    /// Ticks come at another rate from now on: another server, another way to its memory.
    pub fn at_rate(&mut self, hz: u32) {
        self.joiner = Joiner::new(hz);
    }

    /// Takes over what an earlier run had learned and spent.
    pub fn remember(&mut self, now: Ts, learned: &Learned) {
        if let Some(baseline) = learned.baseline_aas {
            self.detector.remember(baseline);
        }
        self.detector.rest(now, learned.quiet_until);
        self.ledger.remember(learned.spent.iter().map(|s| s.clip(Span::new(Ts(0), now))));
    }

    /// What is to be kept over a restart.
    pub fn learned(&self, now: Ts, server: &str) -> Learned {
        Learned {
            server: server.to_owned(),
            baseline_aas: self.detector.baseline(),
            quiet_until: self.detector.quiet_until(),
            spent: self.ledger.spent(now).collect(),
        }
    }

    /// A tick was taken at `at` that stands for `weight` nanoseconds. `complete`: every backend could be read.
    pub fn tick(&mut self, at: Ts, weight: u64, counts: Counts, complete: bool, capacity: Option<Capacity>) -> Step {
        let Some(seen) = self.joiner.tick(at, weight, counts, complete) else { return Step::Nothing };
        let capacity = self.settings.cores.map_or(capacity, |cores| Some(Capacity { cores, source: Source::Override }));
        let verdict = self.detector.observe(&seen, capacity, !matches!(self.state, State::Closed));
        self.near_now = match verdict {
            Verdict::Near(near) => words(near),
            Verdict::Quiet | Verdict::Fire { .. } => String::new(),
        };
        match verdict {
            Verdict::Fire { .. } => self.nearly.clear(),
            Verdict::Quiet => self.markers.append(&mut self.nearly),
            Verdict::Near(_) if self.nearly.first().is_some_and(|m| at.since(m.at) > SECOND) => self.markers.append(&mut self.nearly),
            Verdict::Near(_) => {}
        }
        match verdict {
            Verdict::Quiet => Step::Nothing,
            Verdict::Near(near) => {
                self.nearly(near, &seen);
                Step::Nothing
            }
            // It is on its way.
            Verdict::Fire { .. } if matches!(self.state, State::Asked(_)) => Step::Nothing,
            Verdict::Fire { rule, also } => self.fire(rule, also, &seen),
        }
    }

    fn fire(&mut self, rule: Rule, also: bool, seen: &Observation) -> Step {
        let mut detail = self.figures(rule, seen);
        if also {
            detail.push_str("; another rule as well");
        }
        match self.request(seen.at, Some(self.settings.window), reason(rule), detail.clone()) {
            Ok(step) => {
                self.detector.granted(seen.at, rule);
                if let Step::Extend(end) = step {
                    let seconds = end.at.map(|at| at.since(seen.at).div_ceil(SECOND));
                    self.mark(seen.at, Kind::Fire, reason(rule), format!("{detail}: {LASTS_LONGER}"), true, seconds);
                }
                step
            }
            Err(denied) => {
                self.detector.denied(seen.at);
                if self.episodes.begins(What::Denied, seen.at) {
                    self.mark(seen.at, Kind::Fire, reason(rule), format!("{detail}: {denied}"), false, None);
                }
                Step::Nothing
            }
        }
    }

    fn nearly(&mut self, near: Near, seen: &Observation) {
        let bits = [(near.aas, Rule::Aas), (near.lock, Rule::Lock), (near.cpu, Rule::Cpu)];
        for (_, rule) in bits.into_iter().filter(|(held, _)| *held) {
            let detail = self.figures(rule, seen);
            // Inside a window it is what the window is looking at.
            if !matches!(self.state, State::Closed) {
                continue;
            }
            if !near.cooldown {
                if self.episodes.begins(What::Near(rule), seen.at) {
                    self.nearly.push(marker(seen.at, Kind::Near, reason(rule), detail, false, None));
                }
            } else if self.episodes.begins(What::Cooldown, seen.at) {
                let detail = format!("{detail}: too soon after the window before");
                self.mark(seen.at, Kind::Fire, reason(rule), detail, false, None);
            }
        }
    }

    /// Somebody wants a window by hand, so many nanoseconds from now on; `None`: as long as there is budget.
    pub fn ask(&mut self, now: Ts, want: Option<u64>) -> Result<Step, Denied> {
        self.request(now, want, Reason::Manual, String::new())
    }

    fn request(&mut self, now: Ts, want: Option<u64>, reason: Reason, detail: String) -> Result<Step, Denied> {
        let granted = self.ledger.decide(now, want.unwrap_or(u64::MAX)).inspect_err(|_| self.denied += 1)?;
        let by_budget = self.settings.budget != Allowance::Unlimited && want.is_none_or(|w| granted < w);
        let ns = (want.is_some() || by_budget).then_some(granted);
        match &mut self.state {
            State::Closed => {
                self.state = State::Asked(Grant { at: now, reason, detail, ns, by_budget });
                Ok(Step::Open)
            }
            State::Asked(grant) => {
                if later(grant.ns, ns) {
                    (grant.ns, grant.by_budget) = (ns, by_budget);
                }
                Ok(Step::Nothing)
            }
            State::Open { end, grant, .. } => {
                let at = ns.map(|ns| now + ns);
                if later(end.at.map(|e| e.0), at.map(|e| e.0)) {
                    *end = End { at, by_budget };
                } else if end.at == at {
                    end.by_budget |= by_budget;
                }
                if reason != Reason::Manual {
                    // The newest of them: a window may be extended for hours.
                    let opened = grant.detail.split(EXTENDED).next().unwrap_or_default();
                    grant.detail = if opened.is_empty() { format!("extended: {detail}") } else { format!("{opened}{EXTENDED}{detail}") };
                }
                Ok(Step::Extend(*end))
            }
        }
    }

    /// The window asked for is open since `at`. Its end.
    pub fn opened(&mut self, at: Ts) -> End {
        let State::Asked(grant) = std::mem::replace(&mut self.state, State::Closed) else { return End { at: None, by_budget: false } };
        self.ledger.open(at);
        self.windows += 1;
        let end = End { at: grant.ns.map(|ns| at + ns), by_budget: grant.by_budget };
        let seconds = grant.ns.map(|ns| ns.div_ceil(SECOND));
        if grant.reason != Reason::Manual {
            self.mark(grant.at, Kind::Fire, grant.reason, grant.detail.clone(), true, seconds);
        }
        self.mark(at, Kind::Opened, grant.reason, grant.detail.clone(), true, seconds);
        self.state = State::Open { since: at, end, grant };
        end
    }

    /// The window asked for could not be opened. The cooldown keeps it from being tried at every tick.
    pub fn failed(&mut self, why: &str) {
        if let State::Asked(grant) = std::mem::replace(&mut self.state, State::Closed)
            && grant.reason != Reason::Manual
        {
            self.mark(grant.at, Kind::Fire, grant.reason, format!("{}: no window: {why}", grant.detail), false, None);
        }
    }

    /// The open window was closed at `at`.
    pub fn closed(&mut self, at: Ts, reason: Reason, detail: &str) {
        let State::Open { since, .. } = std::mem::replace(&mut self.state, State::Closed) else { return };
        self.ledger.close(at);
        self.budget_closed += u64::from(reason == Reason::Budget);
        self.mark(at, Kind::Closed, reason, detail.to_owned(), true, Some(lasted(at.since(since))));
    }

    /// Whether a window is asked for and not open yet.
    pub fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked(_))
    }

    /// Why the open window is open, as the account of it says it: who wanted it, and the rule in words.
    pub fn cause(&self) -> Option<(Reason, &str)> {
        match &self.state {
            State::Open { grant, .. } => Some((grant.reason, &grant.detail)),
            State::Closed | State::Asked(_) => None,
        }
    }

    /// Whole seconds granted to what was asked for last, while it is not open yet.
    pub fn granted_s(&self) -> Option<u64> {
        match &self.state {
            State::Asked(grant) => grant.ns.map(|ns| ns.div_ceil(SECOND)),
            State::Closed | State::Open { .. } => None,
        }
    }

    /// What happened since the last call.
    pub fn take_markers(&mut self) -> Vec<Marker> {
        std::mem::take(&mut self.markers)
    }

    /// Budget, rules and counters, as of now.
    pub fn account(&self, now: Ts) -> health::Escalation {
        let seconds = |ns: u64| ns as f64 / SECOND as f64;
        let counters = self.detector.counters();
        let cusum = self.detector.cusum();
        let (baseline_aas, warming_s) = self.detector.learning();
        health::Escalation {
            budget_s: if let Allowance::Ns(ns) = self.settings.budget { Some(seconds(ns)) } else { None },
            remaining_s: self.ledger.remaining(now).map(seconds),
            windows: self.windows,
            denied: self.denied,
            budget_closed: self.budget_closed,
            fires: counters.fires,
            cpu_fires: counters.cpu_fires,
            near: counters.near,
            dropped_budget: counters.dropped_budget,
            dropped_cooldown: counters.dropped_cooldown,
            baseline_aas,
            warming_s,
            cooldown_s: seconds(self.detector.quiet_until().since(now)),
            capacity_cores: cusum.capacity().map(|c| c.cores),
            capacity_source: source(cusum.capacity()).to_owned(),
            cpu_evidence: self.settings.rules.cpu.on.then_some(cusum.evidence()),
            cpu_threshold: self.settings.rules.cpu.h,
            near_now: self.near_now.clone(),
        }
    }

    /// The figures a rule looks at, in words.
    fn figures(&self, rule: Rule, seen: &Observation) -> String {
        match rule {
            Rule::Aas => format!("load {:.1}, usually {:.1}", seen.aas, self.detector.learning().0),
            Rule::Lock => format!("lock: {:.1} of {:.1} active sessions wait for one", seen.lock_aas, seen.aas),
            Rule::Cpu => {
                let cores = self.detector.cusum().capacity().map_or(0.0, |c| c.cores);
                format!("CPU: {:.1} sessions want {cores} cores", seen.cpu_aas)
            }
        }
    }

    fn mark(&mut self, at: Ts, kind: Kind, reason: Reason, detail: String, granted: bool, seconds: Option<u64>) {
        self.markers.push(marker(at, kind, reason, detail, granted, seconds));
    }
}

fn marker(at: Ts, kind: Kind, reason: Reason, detail: String, granted: bool, seconds: Option<u64>) -> Marker {
    Marker { at, kind, reason, tier: Fidelity::Exact, detail, granted, seconds }
}

/// Whole seconds that a window lasted, to the nearest.
pub fn lasted(ns: u64) -> u64 {
    (ns + SECOND / 2) / SECOND
}

/// Whether an end is behind another; `None` is behind all.
fn later(now: Option<u64>, next: Option<u64>) -> bool {
    now.is_some_and(|now| next.is_none_or(|next| next > now))
}

fn reason(rule: Rule) -> Reason {
    if rule == Rule::Cpu { Reason::CpuSaturation } else { Reason::Anomaly }
}

fn source(capacity: Option<Capacity>) -> &'static str {
    match capacity.map(|c| c.source) {
        Some(Source::Affinity) => "affinity",
        Some(Source::Quota) => "quota",
        Some(Source::Override) => "override",
        None => "unknown",
    }
}

/// What came near, in words.
fn words(near: Near) -> String {
    let all = [
        (near.aas, "load"),
        (near.lock, "lock waits"),
        (near.cpu, "CPU"),
        (near.cooldown, "pause after a window"),
        (near.warming, "learning"),
    ];
    all.iter().filter(|(held, _)| *held).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "escalation/tests.rs"]
mod tests;
