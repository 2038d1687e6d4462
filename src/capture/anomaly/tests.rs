//! The rules against scripted ticks: the original's worked numbers.

use super::*;

/// Ticks at 10 Hz, as the original's tests have them.
struct Run {
    detector: Detector,
    now: Ts,
    capacity: Option<Capacity>,
    open: bool,
}

impl Run {
    fn new(settings: Settings) -> Self {
        Self { detector: Detector::new(settings), now: Ts(10_000 * SECOND), capacity: None, open: false }
    }

    /// With a baseline already learned.
    fn warm(settings: Settings, baseline: f64) -> Self {
        let mut run = Self::new(settings);
        run.ticks(60, baseline, 0.0, 0.0);
        assert!((run.detector.baseline().unwrap() - baseline).abs() < 1e-6);
        run
    }

    fn tick(&mut self, aas: f64, lock: f64, cpu: f64) -> Verdict {
        self.now = self.now + SECOND / 10;
        let o = Observation { at: self.now, seconds: 0.1, nominal: 0.1, aas, lock_aas: lock, cpu_aas: cpu, complete: true };
        let verdict = self.detector.observe(&o, self.capacity, self.open);
        if let Verdict::Fire { rule, .. } = verdict {
            self.detector.granted(self.now, rule);
        }
        verdict
    }

    fn ticks(&mut self, n: usize, aas: f64, lock: f64, cpu: f64) -> Vec<Verdict> {
        (0..n).map(|_| self.tick(aas, lock, cpu)).collect()
    }
}

fn fires(verdicts: &[Verdict]) -> Vec<Rule> {
    verdicts.iter().filter_map(|v| if let Verdict::Fire { rule, .. } = v { Some(*rule) } else { None }).collect()
}

fn off() -> Settings {
    let cpu = Cpu { on: false, ..Cpu::default() };
    Settings { aas_factor: 0.0, lock_fraction: 0.0, cpu, ..Settings::default() }
}

#[test]
fn turned_off_never() {
    let mut run = Run::new(off());
    run.capacity = Some(Capacity { cores: 1.0, source: Source::Affinity });
    assert!(fires(&run.ticks(1_000, 50.0, 40.0, 40.0)).is_empty());
}

#[test]
fn load_far_above_the_usual_at_the_third_tick() {
    let mut run = Run::warm(Settings::default(), 2.0);
    let seen = run.ticks(3, 10.0, 0.0, 0.0);
    let near = |v: Verdict| matches!(v, Verdict::Near(n) if n.aas);
    assert!(near(seen[0]) && near(seen[1]), "{seen:?}");
    assert_eq!(seen[2], Verdict::Fire { rule: Rule::Aas, also: false });
    // Twice the usual is not three times.
    let mut run = Run::warm(Settings::default(), 4.0);
    assert!(fires(&run.ticks(50, 8.0, 0.0, 0.0)).is_empty());
}

#[test]
fn before_the_baseline_is_known_there_is_no_load_rule_but_it_is_near() {
    let mut run = Run::new(Settings::default());
    let seen = run.ticks(49, 30.0, 0.0, 0.0);
    assert!(seen.iter().all(|v| matches!(v, Verdict::Near(n) if n.warming)), "{seen:?}");
}

#[test]
fn locks() {
    let mut run = Run::warm(Settings { aas_factor: 0.0, ..Settings::default() }, 4.0);
    let seen = run.ticks(3, 8.0, 4.0, 0.0);
    assert_eq!(fires(&seen), [Rule::Lock]);
    // A lone waiter is all of the load, and nothing to look into.
    let mut run = Run::warm(Settings::default(), 1.0);
    assert!(fires(&run.ticks(100, 1.0, 1.0, 0.0)).is_empty());
    // A convoy, and one exactly at the floor.
    let mut run = Run::warm(Settings::default(), 6.0);
    assert_eq!(fires(&run.ticks(3, 6.0, 4.2, 0.0)), [Rule::Lock]);
    let mut run = Run::warm(Settings::default(), 4.0);
    assert_eq!(fires(&run.ticks(3, 4.0, 2.0, 0.0)), [Rule::Lock]);
    let mut run = Run::warm(Settings::default(), 4.0);
    assert!(fires(&run.ticks(100, 4.0, 1.9, 0.0)).is_empty());
}

#[test]
fn both_rules_are_said() {
    let mut run = Run::warm(Settings::default(), 2.0);
    let seen = run.ticks(3, 20.0, 15.0, 0.0);
    assert_eq!(seen[2], Verdict::Fire { rule: Rule::Aas, also: true });
}

#[test]
fn within_the_cooldown_nothing_fires_and_afterwards_it_does() {
    let mut run = Run::warm(Settings::default(), 2.0);
    assert_eq!(fires(&run.ticks(3, 10.0, 0.0, 0.0)), [Rule::Aas]);
    assert!(fires(&run.ticks(1_190, 10.0, 0.0, 0.0)).is_empty());
    assert!(run.detector.counters().dropped_cooldown > 1_000);
    assert_eq!(fires(&run.ticks(20, 10.0, 0.0, 0.0)), [Rule::Aas]);
    assert_eq!(run.detector.counters().fires, 2);
}

#[test]
fn what_the_budget_denies_is_counted_and_costs_no_cooldown() {
    let mut detector = Detector::new(Settings::default());
    detector.remember(2.0);
    let mut denied = 0;
    for i in 1..=100 {
        let at = Ts(10_000 * SECOND + i * SECOND / 10);
        let o = Observation { at, seconds: 0.1, nominal: 0.1, aas: 10.0, lock_aas: 0.0, cpu_aas: 0.0, complete: true };
        if let Verdict::Fire { rule, .. } = detector.observe(&o, None, false) {
            // The budget is back after five seconds.
            if i < 50 {
                detector.denied(at);
                denied += 1;
            } else {
                detector.granted(at, rule);
            }
        }
    }
    assert!((4..=6).contains(&denied), "asked once a second: {denied}");
    let c = detector.counters();
    assert_eq!((c.fires, c.dropped_budget), (1, denied));
}

#[test]
fn a_high_load_freezes_the_baseline_and_is_learned_only_after_long() {
    let mut run = Run::warm(Settings { cooldown: u64::MAX / 4, ..Settings::default() }, 2.0);
    run.ticks(300, 20.0, 0.0, 0.0);
    assert!((run.detector.baseline().unwrap() - 2.0).abs() < 1.0);
    let mut run = Run::warm(Settings { cooldown: u64::MAX / 4, ..Settings::default() }, 2.0);
    // A quarter of an hour without a change, then slowly.
    run.ticks(8_990, 20.0, 0.0, 0.0);
    assert!((run.detector.baseline().unwrap() - 2.0).abs() < 1e-9);
    run.ticks(6_000, 20.0, 0.0, 0.0);
    let learned = run.detector.baseline().unwrap();
    assert!(learned > 4.0 && learned < 20.0, "{learned}");
}

#[test]
fn an_ordinary_load_is_followed_within_minutes() {
    let mut run = Run::warm(Settings::default(), 10.0);
    run.ticks(600, 20.0, 0.0, 0.0);
    let learned = run.detector.baseline().unwrap();
    // One time constant.
    assert!((learned - (20.0 - 10.0 * (-1.0f64).exp())).abs() < 0.1, "{learned}");
}

/// Seconds until the rule about the CPU fires.
fn saturation(cores: f64, source: Source, cpu_aas: f64) -> Option<f64> {
    let mut run = Run::new(Settings { aas_factor: 0.0, lock_fraction: 0.0, ..Settings::default() });
    run.capacity = Some(Capacity { cores, source });
    run.ticks(10, 0.0, 0.0, 0.0);
    (1..=1_000).find(|_| matches!(run.tick(cpu_aas, 0.0, cpu_aas), Verdict::Fire { rule: Rule::Cpu, .. })).map(|n| f64::from(n) / 10.0)
}

#[test]
fn the_worked_numbers_of_cpu_saturation() {
    let near = |found: Option<f64>, wanted: f64| assert!((found.unwrap() - wanted).abs() <= 0.1, "{found:?} {wanted}");
    near(saturation(4.0, Source::Affinity, 4.0), 8.33);
    near(saturation(4.0, Source::Affinity, 5.0), 3.49);
    near(saturation(4.0, Source::Affinity, 50.0), 3.49);
    near(saturation(4.0, Source::Quota, 4.0), 7.5);
    assert_eq!(saturation(4.0, Source::Affinity, 3.2), None);
    // One session cannot be a storm, not even on one core.
    assert_eq!(saturation(1.0, Source::Affinity, 1.5), None);
}

#[test]
fn one_fire_per_episode_of_saturation() {
    let mut run = Run::new(Settings { aas_factor: 0.0, lock_fraction: 0.0, cooldown: SECOND, ..Settings::default() });
    run.capacity = Some(Capacity { cores: 4.0, source: Source::Affinity });
    assert_eq!(fires(&run.ticks(3_000, 6.0, 0.0, 6.0)), [Rule::Cpu]);
    run.ticks(5, 1.0, 0.0, 1.0);
    assert_eq!(fires(&run.ticks(100, 6.0, 0.0, 6.0)), [Rule::Cpu]);
    assert_eq!(run.detector.counters().cpu_fires, 2);
}

#[test]
fn what_voids_the_evidence() {
    let new = || {
        let mut run = Run::new(Settings { aas_factor: 0.0, lock_fraction: 0.0, ..Settings::default() });
        run.capacity = Some(Capacity { cores: 4.0, source: Source::Affinity });
        run.ticks(30, 5.0, 0.0, 5.0);
        assert!(run.detector.cusum().evidence() > 1.0);
        run
    };
    let mut run = new();
    run.capacity = Some(Capacity { cores: 8.0, source: Source::Affinity });
    run.tick(5.0, 0.0, 5.0);
    assert!(run.detector.cusum().evidence() < 0.05, "capacity changed");
    let mut run = new();
    run.open = true;
    run.tick(5.0, 0.0, 5.0);
    assert!(run.detector.cusum().evidence() < 0.05, "a window is open");
    // Unreadable backends: what is seen above the limit counts, what is below neither drains nor adds, and for too long voids.
    let mut run = new();
    let before = run.detector.cusum().evidence();
    let blind = |run: &mut Run, cpu: f64| {
        run.now = run.now + SECOND / 10;
        let o = Observation { at: run.now, seconds: 0.1, nominal: 0.1, aas: cpu, lock_aas: 0.0, cpu_aas: cpu, complete: false };
        run.detector.observe(&o, run.capacity, false);
        run.detector.cusum().evidence()
    };
    for _ in 0..19 {
        assert!((blind(&mut run, 1.0) - before).abs() < 1e-9);
    }
    assert!(blind(&mut run, 5.0) > before);
    for _ in 0..20 {
        blind(&mut run, 1.0);
    }
    assert!(run.detector.cusum().evidence() < 1e-9);
}

#[test]
fn ticks_are_joined_by_the_time_they_stand_for() {
    let mut joiner = Joiner::new(100);
    let mut at = Ts(SECOND);
    let mut found = Vec::new();
    for i in 0..100 {
        at = at + SECOND / 100;
        found.extend(joiner.tick(at, SECOND / 100, (if i % 2 == 0 { 4 } else { 2 }, 1, 0), true));
    }
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|o| (o.aas - 3.0).abs() < 1e-9 && (o.seconds - 0.1).abs() < 1e-9 && o.complete));
    // A late tick weighs what it stands for, and is one observation.
    let late = joiner.tick(at + SECOND, SECOND, (10, 0, 10), false).unwrap();
    assert!((late.seconds - 1.0).abs() < 1e-9 && (late.nominal - 0.1).abs() < 1e-9 && !late.complete);
    // A gap begins anew.
    assert!(joiner.tick(at, SECOND / 20, (1, 0, 0), true).is_none());
    assert!(joiner.tick(at, 0, (1, 0, 0), true).is_none());
    assert!(joiner.tick(at, SECOND / 20, (1, 0, 0), true).is_none());
    let slow = Joiner::new(1).tick(at, SECOND, (5, 0, 0), true).unwrap();
    assert!((slow.nominal - 1.0).abs() < 1e-9);
}
