//! What exact and blocking windows cost: PostgreSQL's throughput with them against without, beside the floor of each mechanism (a program that
//! returns at once) and the noise of "without" against "without". Alternating runs, each compared with the runs without before and after it.
//! Run by `make bench-exact`; `quick` as an argument shortens it.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../tests/support/mod.rs"]
mod support;

use pg_wait_tracer::capture::window::{Kind, Rules};
use pg_wait_tracer::trace::health::WindowHealth;
use std::time::Duration;
use support::watch::Watch;
use support::{Options, Server};

/// What runs beside pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Off,
    Window(Kind, bool),
}

const VARIANTS: [(&str, Beside); 4] = [
    ("empty watchpoint handler (floor)", Beside::Window(Kind::Exact, true)),
    ("exact", Beside::Window(Kind::Exact, false)),
    ("empty sched_switch (floor)", Beside::Window(Kind::Blocking, true)),
    ("blocking", Beside::Window(Kind::Blocking, false)),
];

/// One run of pgbench.
#[derive(Debug, Clone, Copy)]
struct Run {
    tps: f64,
    latency_ms: f64,
}

fn figure(said: &str, begins: &str, word: usize) -> f64 {
    let line = said.lines().find(|l| l.starts_with(begins)).unwrap_or_else(|| panic!("{said}"));
    line.split_whitespace().nth(word).unwrap().parse().unwrap()
}

fn run(server: &Server, load: &[&str], seconds: u32, beside: Beside, worst: &mut WindowHealth) -> Run {
    let time = seconds.to_string();
    let mut arguments = vec!["-n", "-c", "8", "-j", "2", "-T", &time];
    arguments.extend_from_slice(load);
    let said = match beside {
        Beside::Off => server.pgbench(&arguments).finish(),
        Beside::Window(kind, empty) => {
            let mut watch = Watch::windows(server, Rules { max_overhead_pct: 1e9, empty, ..Rules::default() });
            watch.run(Duration::from_millis(200));
            watch.open(kind, None);
            let pgbench = server.pgbench(&arguments);
            watch.run(Duration::from_secs(u64::from(seconds)));
            let said = pgbench.finish();
            let health = watch.close();
            if !empty {
                worst.lost_records += health.lost_records;
                worst.records += health.records;
                worst.ring_fill_pct = worst.ring_fill_pct.max(health.ring_fill_pct);
                worst.price_ns = worst.price_ns.max(health.price_ns);
                worst.odd_switches += health.odd_switches;
            }
            said
        }
    };
    Run { tps: figure(&said, "tps", 2), latency_ms: figure(&said, "latency average", 3) }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(name: &str, mut ratios: Vec<f64>, mut latency: Vec<f64>) -> f64 {
    let middle = median(&mut ratios);
    let slower = median(&mut latency);
    println!("  {name:<34} TPS {middle:.3} ({:.3} to {:.3})   latency {slower:.2}", ratios[0], ratios[ratios.len() - 1]);
    middle
}

fn compare(server: &Server, name: &str, load: &[&str], rounds: usize, seconds: u32) {
    let mut worst = WindowHealth::default();
    let mut ratios = vec![(Vec::new(), Vec::new()); VARIANTS.len()];
    let (mut noise, mut noise_latency) = (Vec::new(), Vec::new());
    let mut before = run(server, load, seconds, Beside::Off, &mut worst);
    for round in 0..rounds {
        let mut offs = vec![before];
        for step in 0..VARIANTS.len() {
            // Another order each round.
            let which = (step + round) % VARIANTS.len();
            let with = run(server, load, seconds, VARIANTS[which].1, &mut worst);
            let after = run(server, load, seconds, Beside::Off, &mut worst);
            ratios[which].0.push(with.tps / f64::midpoint(before.tps, after.tps));
            ratios[which].1.push(with.latency_ms / f64::midpoint(before.latency_ms, after.latency_ms));
            before = after;
            offs.push(after);
        }
        for three in offs.windows(3) {
            noise.push(three[1].tps / f64::midpoint(three[0].tps, three[2].tps));
            noise_latency.push(three[1].latency_ms / f64::midpoint(three[0].latency_ms, three[2].latency_ms));
        }
    }
    println!("\n{name}: {:.0} TPS without; with / without in {rounds} rounds of {seconds} s:", before.tps);
    let mut found = Vec::new();
    for ((variant, _), (tps, latency)) in VARIANTS.iter().zip(ratios) {
        found.push(spread(variant, tps, latency));
    }
    spread("off / off (noise)", noise, noise_latency);
    println!(
        "  above the floor: exact {:+.1} points, blocking {:+.1} points (wanted: at most 5)",
        100.0 * (found[0] - found[1]),
        100.0 * (found[2] - found[3])
    );
    println!(
        "  {} records, {} lost, fullest ring {:.1} %, price of a trap up to {} ns, {} odd switches",
        worst.records, worst.lost_records, worst.ring_fill_pct, worst.price_ns, worst.odd_switches
    );
}

fn main() {
    let quick = std::env::args().any(|a| a == "quick");
    let (rounds, seconds) = if quick { (2, 2) } else { (6, 4) };
    let server = Server::start("18", &Options::new().preload("pg_stat_statements")).expect("a server");
    server.pgbench(&["-i", "-q", "-s", "10"]).finish();
    for (name, load) in [("pgbench -S -c 8", vec!["-S"]), ("TPC-B -c 8", vec![])] {
        let warm = run(&server, &load, 3, Beside::Off, &mut WindowHealth::default());
        compare(&server, &format!("{name}, saturated"), &load, rounds, seconds);
        let third = format!("{:.0}", warm.tps / 3.0);
        let mut paced = load.clone();
        paced.extend_from_slice(&["-R", &third]);
        compare(&server, &format!("{name}, at {third} TPS"), &paced, rounds, seconds);
    }
    let long = if quick { 5 } else { 60 };
    let mut worst = WindowHealth::default();
    let run = run(&server, &["-S"], long, Beside::Window(Kind::Exact, false), &mut worst);
    println!(
        "\npgbench -S -c 8 for {long} s in one exact window: {:.0} TPS, {} records, {} lost, fullest ring {:.1} %",
        run.tps, worst.records, worst.lost_records, worst.ring_fill_pct
    );
}
