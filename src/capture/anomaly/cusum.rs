//! CPU saturation as evidence that adds up: demand for CPU above what there is, for a while. One fire per episode.

use super::Observation;

/// Settings of the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpu {
    /// Whether it is on.
    pub on: bool,
    /// Demand over capacity that counts as full.
    pub k: f64,
    /// Added to `k` where capacity is a number of CPUs that others may use too.
    pub margin: f64,
    /// Evidence at which it fires, in seconds of overload.
    pub h: f64,
    /// Demand over capacity that counts at most.
    pub cap: f64,
    /// Sessions without a wait at least.
    pub min_aas: f64,
    /// Seconds without trusted observations after which the evidence is void.
    pub gap_s: f64,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { on: true, k: 0.80, margin: 0.02, h: 1.50, cap: 1.25, min_aas: 2.0, gap_s: 2.0 }
    }
}

/// Where a capacity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// CPUs that the server may run on.
    Affinity,
    /// A quota of its control group.
    Quota,
    /// Said on the command line.
    Override,
}

/// How much CPU the server can have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Cores.
    pub cores: f64,
    /// Where that comes from.
    pub source: Source,
}

impl Capacity {
    fn differs(a: Option<Self>, b: Option<Self>) -> bool {
        match (a, b) {
            (None, None) => false,
            (Some(a), Some(b)) => (a.cores - b.cores).abs() > 1e-9 * a.cores.abs().max(b.cores.abs()).max(1.0),
            _ => true,
        }
    }
}

/// What an observation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// It fires.
    pub fire: bool,
    /// Half of the evidence is there, and it grows.
    pub near: bool,
}

/// The evidence.
#[derive(Debug, Clone)]
pub struct Cusum {
    settings: Cpu,
    evidence: f64,
    armed: bool,
    gap_s: f64,
    capacity: Option<Capacity>,
}

impl Cusum {
    /// None yet.
    pub fn new(settings: Cpu) -> Self {
        Self { settings, evidence: 0.0, armed: true, gap_s: 0.0, capacity: None }
    }

    /// The evidence, seconds of overload.
    pub fn evidence(&self) -> f64 {
        self.evidence
    }

    /// Whether it could fire: after a fire not before demand was below the limit again.
    pub fn is_armed(&self) -> bool {
        self.armed
    }

    /// How much CPU there was at the last observation.
    pub fn capacity(&self) -> Option<Capacity> {
        self.capacity
    }

    pub(super) fn clear(&mut self) {
        self.evidence = 0.0;
    }

    /// Its fire came to nothing: the same episode may fire again.
    pub(super) fn rearm(&mut self) {
        self.armed = true;
    }

    /// Takes in an observation. `blocked`: a window is open, or the cooldown runs.
    pub(super) fn observe(&mut self, o: &Observation, capacity: Option<Capacity>, blocked: bool) -> Outcome {
        let changed = Capacity::differs(self.capacity, capacity);
        self.capacity = capacity;
        let s = self.settings;
        if changed || blocked || !s.on {
            self.evidence = 0.0;
        }
        let Some(capacity) = capacity.filter(|c| s.on && c.cores > 0.0) else {
            self.gap(o.seconds);
            return Outcome::default();
        };
        let margin = if capacity.source == Source::Affinity { s.margin } else { 0.0 };
        let reference = s.k + margin;
        let demand = (o.cpu_aas / capacity.cores).clamp(0.0, s.cap);
        // Backends that could not be read can only make demand look smaller.
        if !o.complete && demand < reference {
            self.gap(o.seconds);
            return Outcome::default();
        }
        self.gap_s = 0.0;
        if !self.armed {
            self.armed = demand < s.k;
            self.evidence = 0.0;
            return Outcome::default();
        }
        if blocked {
            return Outcome::default();
        }
        let before = self.evidence;
        let seconds = o.seconds.min(o.nominal);
        self.evidence = (before + seconds * (demand - reference)).max(0.0);
        let enough = o.cpu_aas >= s.min_aas;
        if enough && self.evidence >= s.h - 1e-9 && demand >= reference {
            (self.evidence, self.armed) = (0.0, false);
            return Outcome { fire: true, near: false };
        }
        Outcome { fire: false, near: enough && self.evidence > before && self.evidence >= s.h / 2.0 }
    }

    fn gap(&mut self, seconds: f64) {
        self.gap_s += seconds;
        if self.gap_s >= self.settings.gap_s - 1e-9 {
            self.evidence = 0.0;
        }
    }
}
