//! The machine against scripted ticks, and the budget against anything.

use super::*;
use crate::capture::anomaly::Cpu;
use proptest::prelude::*;

const HZ: u32 = 100;
const TICK: u64 = SECOND / HZ as u64;

fn s(seconds: u64) -> u64 {
    seconds * SECOND
}

/// A server, ticks of it, and a sampler that does what it is told at once.
struct Play {
    machine: Escalation,
    now: Ts,
    end: Option<End>,
    opened: Option<Ts>,
    spans: Vec<Span>,
    markers: Vec<Marker>,
    /// Windows cannot be opened.
    broken: bool,
}

impl Play {
    fn new(settings: Settings) -> Self {
        let now = Ts(s(10_000));
        Self { machine: Escalation::new(settings, HZ), now, end: None, opened: None, spans: vec![], markers: vec![], broken: false }
    }

    /// With the usual load known.
    fn warm(settings: Settings, baseline: f64) -> Self {
        let mut play = Self::new(settings);
        play.machine.remember(play.now, &Learned { baseline_aas: Some(baseline), ..Learned::default() });
        play
    }

    fn does(&mut self, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Extend(end) => self.end = Some(end),
            Step::Open if self.broken => self.machine.failed("no BPF here"),
            Step::Open => {
                self.end = Some(self.machine.opened(self.now));
                self.opened = Some(self.now);
            }
        }
        self.markers.append(&mut self.machine.take_markers());
    }

    fn close(&mut self, at: Ts, reason: Reason) {
        let Some(opened) = self.opened.take() else { return };
        self.end = None;
        self.machine.closed(at, reason, "");
        self.spans.push(Span::new(opened, at));
        self.markers.append(&mut self.machine.take_markers());
    }

    /// Closes what is due, to the nanosecond, as the capture loop does.
    fn due(&mut self) {
        if let Some(End { at: Some(at), by_budget }) = self.end
            && at <= self.now
        {
            self.close(at, if by_budget { Reason::Budget } else { Reason::Expired });
        }
    }

    fn ticks(&mut self, n: u64, counts: Counts) {
        for _ in 0..n {
            self.now = self.now + TICK;
            self.due();
            let step = self.machine.tick(self.now, TICK, counts, true, None);
            self.does(step);
        }
    }

    fn ask(&mut self, want: Option<u64>) -> Result<(), Denied> {
        self.due();
        let step = self.machine.ask(self.now, want)?;
        self.does(step);
        Ok(())
    }

    fn account(&self) -> health::Escalation {
        self.machine.account(self.now)
    }

    fn told(&self, kind: Kind) -> Vec<&Marker> {
        self.markers.iter().filter(|m| m.kind == kind).collect()
    }
}

#[test]
fn a_load_jump_opens_a_window_that_is_told_and_ends_by_itself() {
    let mut play = Play::warm(Settings::default(), 2.0);
    play.ticks(300, (2, 0, 2));
    assert!(play.opened.is_none());
    play.ticks(40, (10, 0, 10));
    let opened = play.opened.expect("a window");
    assert!(opened.since(Ts(s(10_003))) <= s(1) / 2, "{opened:?}");
    assert_eq!(play.machine.cause().unwrap().0, Reason::Anomaly);
    assert!(play.machine.cause().unwrap().1.starts_with("load 10.0, usually 2.0"), "{:?}", play.machine.cause());
    play.ticks(70 * 100, (2, 0, 2));
    assert_eq!(play.spans, [Span::new(opened, opened + s(60))]);
    let kinds: Vec<(Kind, Reason)> = play.markers.iter().map(|m| (m.kind, m.reason)).collect();
    let anomaly = Reason::Anomaly;
    assert_eq!(kinds, [(Kind::Fire, anomaly), (Kind::Opened, anomaly), (Kind::Closed, Reason::Expired)]);
    assert_eq!(play.told(Kind::Opened)[0].word(), 60 << 8 | 1);
    assert_eq!(play.told(Kind::Closed)[0].word(), 60 << 8 | 2);
    let a = play.account();
    assert_eq!((a.windows, a.fires, a.denied, a.budget_closed), (1, 1, 0, 0));
    assert!((a.remaining_s.unwrap() - 240.0).abs() < 1e-6 && a.cooldown_s > 40.0, "{a:?}");
}

#[test]
fn what_was_only_near_is_told_once_an_episode() {
    let mut play = Play::warm(Settings::default(), 2.0);
    // A fifth of a second each second, for half a minute; then, much later, once more.
    for _ in 0..30 {
        play.ticks(20, (9, 0, 9));
        play.ticks(80, (2, 0, 2));
    }
    play.ticks(2_000, (2, 0, 2));
    play.ticks(20, (9, 0, 9));
    play.ticks(100, (2, 0, 2));
    assert!(play.opened.is_none());
    let kinds: Vec<Kind> = play.markers.iter().map(|m| m.kind).collect();
    assert_eq!(kinds, [Kind::Near, Kind::Near], "{:?}", play.markers);
    assert!(play.account().near >= 60);
}

#[test]
fn an_incident_without_end_has_half_of_the_time_until_the_budget_ends() {
    let mut play = Play::warm(Settings::default(), 2.0);
    play.ticks(1_400 * 100, (10, 6, 2));
    // Every two minutes one of a minute, five in all.
    assert_eq!(play.spans.len(), 5, "{:?}", play.spans);
    assert_eq!(play.spans.iter().map(|x| x.len()).sum::<u64>(), s(300));
    let a = play.account();
    assert_eq!((a.windows, a.fires), (5, 5));
    assert!(a.dropped_budget > 100 && a.dropped_cooldown > 1_000, "{a:?}");
    // A stretch of denials is told once, a pause once each.
    let denied = play.told(Kind::Fire).iter().filter(|m| m.detail.contains("exhausted")).count();
    let rests = play.told(Kind::Fire).iter().filter(|m| m.detail.contains("too soon")).count();
    assert_eq!((denied, rests), (1, 5), "{:#?}", play.markers);
}

#[test]
fn the_budget_cuts_a_window_and_says_so() {
    let mut play = Play::warm(Settings { budget: Allowance::Ns(s(3)), ..Settings::default() }, 2.0);
    play.ticks(500, (10, 0, 10));
    assert_eq!(play.spans.iter().map(|x| x.len()).collect::<Vec<_>>(), [s(3)]);
    assert_eq!(play.told(Kind::Closed)[0].reason, Reason::Budget);
    assert_eq!(play.account().budget_closed, 1);
    assert!(matches!(play.ask(Some(s(1))), Err(Denied::Exhausted { .. })));
    let mut play = Play::warm(Settings { budget: Allowance::Ns(0), ..Settings::default() }, 2.0);
    play.ticks(1_000, (10, 0, 10));
    assert!(play.opened.is_none() && play.spans.is_empty());
    let fires = play.told(Kind::Fire);
    assert!(fires.len() == 1 && !fires[0].granted && fires[0].detail.contains("--escalation-budget 0"), "{fires:?}");
    // Tried again each second, without a cooldown.
    let a = play.account();
    assert!((8..=10).contains(&a.dropped_budget) && a.dropped_cooldown == 0 && a.fires == 0, "{a:?}");
    assert_eq!(play.ask(None), Err(Denied::Disabled));
}

#[test]
fn without_a_limit_a_window_by_hand_has_no_end_and_with_one_ends_at_the_budget() {
    let mut play = Play::new(Settings { budget: Allowance::Unlimited, ..Settings::default() });
    play.ask(None).unwrap();
    assert_eq!(play.end, Some(End { at: None, by_budget: false }));
    play.ticks(500_000, (1, 0, 1));
    assert!(play.opened.is_some());
    let mut play = Play::new(Settings { budget: Allowance::Ns(s(20)), ..Settings::default() });
    play.ask(None).unwrap();
    play.ticks(3_000, (1, 0, 1));
    assert_eq!((play.spans[0].len(), play.told(Kind::Closed)[0].reason), (s(20), Reason::Budget));
}

#[test]
fn an_extension_moves_the_end_out_never_in_and_is_charged_once() {
    let mut play = Play::new(Settings::default());
    play.ask(Some(s(20))).unwrap();
    let opened = play.now;
    play.ticks(500, (0, 0, 0));
    play.ask(Some(s(2))).unwrap();
    assert_eq!(play.end.unwrap().at, Some(opened + s(20)), "never in");
    play.ask(Some(s(20))).unwrap();
    play.ticks(3_000, (0, 0, 0));
    assert_eq!(play.spans, [Span::new(opened, opened + s(25))]);
    assert!((play.account().remaining_s.unwrap() - 275.0).abs() < 1e-6);
    assert_eq!((play.account().windows, play.told(Kind::Opened).len()), (1, 1));
}

#[test]
fn extending_every_second_ends_exactly_at_the_budget() {
    let mut play = Play::new(Settings { budget: Allowance::Ns(s(10)), ..Settings::default() });
    let mut denied = 0;
    for _ in 0..20 {
        denied += u64::from(play.ask(Some(s(5))).is_err());
        play.ticks(100, (0, 0, 0));
    }
    assert_eq!(play.spans.iter().map(|x| x.len()).sum::<u64>(), s(10));
    assert_eq!(denied, play.account().denied);
    assert!((10..=11).contains(&denied), "{denied}");
}

#[test]
fn a_fire_inside_a_window_by_hand_makes_it_longer_and_is_told_in_its_cause() {
    let mut play = Play::warm(Settings::default(), 2.0);
    play.ask(Some(s(10))).unwrap();
    let opened = play.now;
    play.ticks(300, (2, 0, 2));
    play.ticks(100, (6, 6, 0));
    let (reason, detail) = play.machine.cause().unwrap();
    assert_eq!(reason, Reason::Manual);
    assert!(detail.starts_with("extended: lock: 6.0 of 6.0"), "{detail}");
    play.ticks(100 * 100, (2, 0, 2));
    let length = play.spans[0].len();
    assert_eq!((play.spans.len(), play.spans[0].start), (1, opened));
    assert!(length > s(63) && length < s(64), "{length}");
}

#[test]
fn where_no_window_can_be_opened_the_fire_counts_and_is_not_tried_at_each_tick() {
    let mut play = Play::warm(Settings::default(), 2.0);
    play.broken = true;
    play.ticks(100 * 100, (10, 0, 10));
    let a = play.account();
    assert_eq!((a.fires, a.windows), (1, 0));
    let fires = play.told(Kind::Fire);
    assert!(fires[0].detail.contains("no BPF here") && !fires[0].granted, "{fires:?}");
    assert!((a.remaining_s.unwrap() - 300.0).abs() < 1e-9);
}

#[test]
fn a_lone_lock_waiter_is_nothing_and_a_storm_on_the_cpu_has_its_own_reason() {
    let mut play = Play::warm(Settings::default(), 1.0);
    play.ticks(1_000, (1, 1, 0));
    assert!(play.markers.is_empty());
    let cpu = Cpu::default();
    let rules = anomaly::Settings { aas_factor: 0.0, cpu, ..anomaly::Settings::default() };
    let mut play = Play::warm(Settings { cores: Some(2.0), rules, ..Settings::default() }, 1.0);
    play.ticks(1_000, (4, 0, 4));
    let opened = play.told(Kind::Opened);
    assert_eq!((opened.len(), opened[0].reason), (1, Reason::CpuSaturation), "{:?}", play.markers);
    assert_eq!(opened[0].word() & 0xff, 6);
    let a = play.account();
    assert_eq!((a.cpu_fires, a.capacity_source.as_str(), a.capacity_cores), (1, "override", Some(2.0)));
}

#[test]
fn what_was_learned_and_spent_survives() {
    let mut play = Play::warm(Settings { budget: Allowance::Ns(s(90)), ..Settings::default() }, 2.0);
    play.ticks(40, (10, 0, 10));
    play.ticks(3_000, (2, 0, 2));
    let kept = play.machine.learned(play.now, "here");
    let mut next = Play::new(Settings { budget: Allowance::Ns(s(90)), ..Settings::default() });
    next.now = play.now + s(5);
    next.machine.remember(next.now, &kept);
    let (before, after) = (play.account(), next.account());
    assert!((before.remaining_s.unwrap() - after.remaining_s.unwrap()).abs() < 1e-6, "{before:?} {after:?}");
    assert!((before.baseline_aas - after.baseline_aas).abs() < 1e-9 && after.warming_s == 0.0);
    assert!((before.cooldown_s - after.cooldown_s - 5.0).abs() < 1e-6);
    // Within the cooldown nothing opens, behind it something does.
    next.ticks(50, (10, 0, 10));
    assert!(next.opened.is_none() && next.account().dropped_cooldown > 0);
    next.ticks(9_000, (10, 0, 10));
    assert!(next.account().windows > 0);
}

/// What happens next.
#[derive(Debug, Clone)]
enum Event {
    /// So many seconds of a load.
    Load(u64, u32, u32),
    Ask(Option<u64>),
    Close,
    /// The server goes: a gap of so many seconds.
    Gone(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1u64..300, 0u32..30, 0u32..30).prop_map(|(n, aas, lock)| Event::Load(n, aas, lock)),
        2 => prop::option::of(1u64..200).prop_map(Event::Ask),
        1 => Just(Event::Close),
        1 => (1u64..900).prop_map(Event::Gone),
    ];
    prop::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_hour_costs_more_than_the_budget(budget in 0u64..400, window in 1u64..120, cooldown in 0u64..60, events in events()) {
        let rules = anomaly::Settings { cooldown: s(cooldown), ..anomaly::Settings::default() };
        let settings = Settings { budget: Allowance::Ns(s(budget)), window: s(window), rules, cores: Some(4.0) };
        let mut play = Play::new(settings);
        for event in events {
            match event {
                Event::Load(seconds, aas, lock) => {
                    for _ in 0..seconds * 10 {
                        play.now = play.now + s(1) / 10;
                        play.due();
                        let step = play.machine.tick(play.now, s(1) / 10, (aas, lock.min(aas), aas.saturating_sub(lock)), true, None);
                        play.does(step);
                    }
                }
                Event::Ask(want) => {
                    let _ = play.ask(want.map(s));
                }
                Event::Close => play.close(play.now, Reason::Request),
                Event::Gone(seconds) => {
                    play.close(play.now, Reason::ServerGone);
                    play.now = play.now + s(seconds);
                    let step = play.machine.tick(play.now, 0, (0, 0, 0), true, None);
                    play.does(step);
                }
            }
            prop_assert!(play.account().remaining_s.unwrap() >= 0.0);
        }
        play.now = play.now + s(1_000);
        play.due();
        prop_assert!(play.opened.is_none(), "every window has an end");
        let hour = 3_600 * SECOND;
        for end in play.spans.iter().map(|x| x.end) {
            let used: u64 = play.spans.iter().map(|x| x.clip(Span::new(end - hour, end)).len()).sum();
            prop_assert!(used <= s(budget), "{used} of {budget} s: {:?}", play.spans);
        }
        let (opened, closed) = (play.told(Kind::Opened).len(), play.told(Kind::Closed).len());
        prop_assert_eq!((opened, closed), (play.spans.len(), play.spans.len()));
    }
}
