//! When an exact window should open by itself: three rules over what the sampler sees. Pure state machines, driven by observations.
//!
//! The sampler's ticks are joined into observations of a tenth of a second at least, weighted by the time each tick stands for, so that rules mean the
//! same at any rate: "three in a row" is a third of a second at 10 Hz and at 100 Hz.

mod cusum;

use crate::trace::clock::{SECOND, Ts};
pub use cusum::{Capacity, Cpu, Cusum, Source};

/// Length of an observation, nanoseconds: ticks are joined up to it.
pub const OBSERVATION: u64 = SECOND / 10;
/// Active sessions below which load is nothing to look into.
const LEAST_AAS: f64 = 2.0;
/// Lock waits must last for so many observations.
const LOCK_TICKS: u32 = 3;
/// Seconds of observations before the baseline means anything.
const WARM_S: f64 = 5.0;
/// Time constant of the baseline, seconds.
const LEARN_S: f64 = 60.0;
/// A load that stays high for so many seconds is slowly learned.
const LEARN_THROUGH_S: f64 = 900.0;
/// How much slower.
const SLOW: f64 = 10.0;
/// A factor from here on turns the rule off, as the original has it.
const OFF: f64 = 1e6;

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Load above the baseline times this fires; 0 or a million turns the rule off.
    pub aas_factor: f64,
    /// Observations in a row.
    pub aas_ticks: u32,
    /// Share of the load that waits for locks; 0 turns the rule off.
    pub lock_fraction: f64,
    /// Least sessions that wait for locks.
    pub lock_min_aas: f64,
    /// After a window was granted, no rule fires for so long, nanoseconds.
    pub cooldown: u64,
    /// The rule about the CPU.
    pub cpu: Cpu,
}

impl Default for Settings {
    fn default() -> Self {
        Self { aas_factor: 3.0, aas_ticks: 3, lock_fraction: 0.30, lock_min_aas: 2.0, cooldown: 120 * SECOND, cpu: Cpu::default() }
    }
}

/// What was seen in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Observation {
    /// Its end.
    pub at: Ts,
    /// Its length, seconds.
    pub seconds: f64,
    /// The length it should have had: a late tick is one observation, never more evidence.
    pub nominal: f64,
    /// Average active sessions.
    pub aas: f64,
    /// Those that waited for a lock.
    pub lock_aas: f64,
    /// Those without a wait.
    pub cpu_aas: f64,
    /// Whether every backend could be read.
    pub complete: bool,
}

/// Joins ticks into observations.
#[derive(Debug, Clone, Copy)]
pub struct Joiner {
    nominal: u64,
    ns: u64,
    aas: f64,
    lock: f64,
    cpu: f64,
    incomplete: bool,
}

impl Joiner {
    /// Of ticks at `hz` per second.
    pub fn new(hz: u32) -> Self {
        let nominal = (SECOND / u64::from(hz.max(1))).max(OBSERVATION);
        Self { nominal, ns: 0, aas: 0.0, lock: 0.0, cpu: 0.0, incomplete: false }
    }

    fn empty(self) -> Self {
        Self { ns: 0, aas: 0.0, lock: 0.0, cpu: 0.0, incomplete: false, ..self }
    }

    /// A tick taken at `at` that stands for `weight` nanoseconds. A tick after a gap stands for nothing and begins anew.
    pub fn tick(&mut self, at: Ts, weight: u64, (aas, lock, cpu): (u32, u32, u32), complete: bool) -> Option<Observation> {
        if weight == 0 {
            *self = self.empty();
            return None;
        }
        let w = weight as f64;
        self.ns += weight;
        self.aas += f64::from(aas) * w;
        self.lock += f64::from(lock) * w;
        self.cpu += f64::from(cpu) * w;
        self.incomplete |= !complete;
        // Ticks come a little early and late: a hair less is enough.
        if self.ns < OBSERVATION - OBSERVATION / 20 {
            return None;
        }
        let Self { nominal, ns, aas, lock, cpu, incomplete } = std::mem::replace(self, self.empty());
        let ns = ns as f64;
        let mean = |sum: f64| sum / ns;
        let seconds = ns / SECOND as f64;
        let nominal = nominal as f64 / SECOND as f64;
        Some(Observation { at, seconds, nominal, aas: mean(aas), lock_aas: mean(lock), cpu_aas: mean(cpu), complete: !incomplete })
    }
}

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Load far above what is usual.
    Aas,
    /// A large part of the load waits for locks.
    Lock,
    /// More demand for CPU than there is, for a while.
    Cpu,
}

/// Rules that were about to fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Near {
    /// Load above the factor, not long enough.
    pub aas: bool,
    /// Lock waits above the share, not long enough.
    pub lock: bool,
    /// Half of the evidence for CPU saturation is there.
    pub cpu: bool,
    /// The rules named held and would have fired, but the last window was granted too short a time ago.
    pub cooldown: bool,
    /// There is load, and no baseline yet.
    pub warming: bool,
}

impl Near {
    /// Whether any was.
    pub fn any(self) -> bool {
        self.aas || self.lock || self.cpu || self.cooldown || self.warming
    }
}

/// What an observation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Quiet,
    /// Something was close to firing.
    Near(Near),
    /// A window should open, by this rule; `also`: another held at the same time.
    Fire {
        /// The first of [`Rule`] that holds.
        rule: Rule,
        /// Whether others held as well.
        also: bool,
    },
}

/// Counters; they only ever grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Windows that were granted because a rule fired.
    pub fires: u64,
    /// Of those, by the rule about the CPU.
    pub cpu_fires: u64,
    /// Observations close to firing.
    pub near: u64,
    /// Fires within the cooldown.
    pub dropped_cooldown: u64,
    /// Fires that the budget denied.
    pub dropped_budget: u64,
}

/// The rules and what they have learned.
#[derive(Debug, Clone)]
pub struct Detector {
    settings: Settings,
    baseline: f64,
    warm_s: f64,
    aas_streak: u32,
    over_s: f64,
    lock_streak: u32,
    cusum: Cusum,
    /// No fire before.
    quiet_until: Ts,
    /// Whether that is a cooldown, or only a pause after a denial.
    cooling: bool,
    counters: Counters,
}

/// After a denial by the budget, it is asked again then.
const ASK_AGAIN: u64 = SECOND;

impl Detector {
    /// Nothing learned.
    pub fn new(settings: Settings) -> Self {
        Self {
            cusum: Cusum::new(settings.cpu),
            settings,
            baseline: 0.0,
            warm_s: 0.0,
            aas_streak: 0,
            over_s: 0.0,
            lock_streak: 0,
            quiet_until: Ts(0),
            cooling: false,
            counters: Counters::default(),
        }
    }

    /// The usual load; `None` while it is not known.
    pub fn baseline(&self) -> Option<f64> {
        self.is_warm().then_some(self.baseline)
    }

    fn is_warm(&self) -> bool {
        // Tenths of a second do not add up to the last bit.
        self.warm_s >= WARM_S - 1e-9
    }

    /// Takes over what an earlier run of this program had learned.
    pub fn remember(&mut self, baseline: f64) {
        if baseline.is_finite() && baseline >= 0.0 {
            (self.baseline, self.warm_s) = (baseline, WARM_S);
        }
    }

    /// Takes over a cooldown that had begun in an earlier run: no fire before `until`, at most one cooldown after `now`.
    pub fn rest(&mut self, now: Ts, until: Ts) {
        self.quiet_until = until.min(now + self.settings.cooldown);
        self.cooling = self.quiet_until > now;
    }

    /// The usual load as far as it was learned, and the seconds until it is known; 0: it is.
    pub fn learning(&self) -> (f64, f64) {
        (self.baseline, if self.is_warm() { 0.0 } else { WARM_S - self.warm_s })
    }

    /// End of the cooldown; the past when there is none.
    pub fn quiet_until(&self) -> Ts {
        if self.cooling { self.quiet_until } else { Ts(0) }
    }

    /// Counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The rule about the CPU.
    pub fn cusum(&self) -> &Cusum {
        &self.cusum
    }

    /// Takes in an observation. `open`: a window is open already; then a fire asks for it to last longer.
    pub fn observe(&mut self, o: &Observation, capacity: Option<Capacity>, open: bool) -> Verdict {
        let warm = self.is_warm();
        let s = self.settings;
        let aas_on = s.aas_factor > 0.0 && s.aas_factor < OFF;
        let aas_over = warm && aas_on && o.aas >= LEAST_AAS && o.aas > s.aas_factor * self.baseline;
        self.aas_streak = if aas_over { self.aas_streak.saturating_add(1) } else { 0 };
        self.over_s = if aas_over { self.over_s + o.seconds } else { 0.0 };
        let aas_fire = aas_over && self.aas_streak >= s.aas_ticks;
        let share = if o.aas > 0.0 { o.lock_aas / o.aas } else { 0.0 };
        let lock_over = s.lock_fraction > 0.0 && share > s.lock_fraction && o.lock_aas >= s.lock_min_aas;
        self.lock_streak = if lock_over { self.lock_streak.saturating_add(1) } else { 0 };
        let lock_fire = lock_over && self.lock_streak >= LOCK_TICKS;
        self.learn(o, warm, aas_over);
        let cooling = self.cooling && o.at < self.quiet_until;
        let blocked = open || cooling || s.aas_factor >= OFF;
        let cpu = self.cusum.observe(o, capacity, blocked);
        let fired = [(Rule::Aas, aas_fire), (Rule::Lock, lock_fire), (Rule::Cpu, cpu.fire)];
        let mut held = fired.iter().filter(|(_, held)| *held).map(|(rule, _)| *rule);
        let Some(rule) = held.next() else {
            let warming = !warm && o.aas >= LEAST_AAS;
            let near = Near { aas: aas_over, lock: lock_over, cpu: cpu.near, warming, cooldown: false };
            self.counters.near += u64::from(near.any());
            return if near.any() { Verdict::Near(near) } else { Verdict::Quiet };
        };
        let also = held.next().is_some();
        if rule != Rule::Cpu {
            self.cusum.clear();
        }
        if o.at < self.quiet_until {
            if cooling {
                self.counters.near += 1;
                self.counters.dropped_cooldown += 1;
            }
            return Verdict::Near(Near { aas: aas_fire, lock: lock_fire, cpu: cpu.fire, cooldown: cooling, warming: false });
        }
        Verdict::Fire { rule, also }
    }

    /// The usual load follows the load, but not what is out of the ordinary: that only after a long time, and slowly.
    fn learn(&mut self, o: &Observation, warm: bool, over: bool) {
        let difference = o.aas - self.baseline;
        if !warm {
            self.warm_s += o.seconds;
            self.baseline += difference * (o.seconds / self.warm_s).min(1.0);
        } else if !over {
            self.baseline += difference * (o.seconds / LEARN_S).min(1.0);
        } else if self.over_s >= LEARN_THROUGH_S {
            self.baseline += difference * (o.seconds / LEARN_S / SLOW).min(1.0);
        }
    }

    /// The window that a fire asked for was granted: the cooldown begins.
    pub fn granted(&mut self, at: Ts, rule: Rule) {
        self.counters.fires += 1;
        self.counters.cpu_fires += u64::from(rule == Rule::Cpu);
        self.quiet_until = at + self.settings.cooldown;
        self.cooling = true;
    }

    /// The budget denied it. No cooldown: as soon as there is budget again, the incident is looked into.
    pub fn denied(&mut self, at: Ts) {
        self.counters.dropped_budget += 1;
        self.quiet_until = at + ASK_AGAIN;
        self.cooling = false;
        self.cusum.rearm();
    }
}

#[cfg(test)]
#[path = "anomaly/tests.rs"]
mod tests;
