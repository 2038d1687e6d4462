//! What sampling costs: PostgreSQL's throughput with it against without, and its own CPU. Prints ratios of alternating runs, with the noise of
//! "without" against "without" beside them. Run by `make bench-sampler`; `quick` as an argument shortens it.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Options, Server, wait_until};

/// The program, sampling a server until dropped.
struct Tracer(Child);

impl Tracer {
    fn start(server: &Server, hz: u32, access: &str) -> Self {
        let pid = server.pid().to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_pg_wait_tracer"))
            .args(["--pid", &pid, "--format", "json", "--interval", "1", "--access", access, "--sample-rate", &hz.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// CPU time of all its threads so far, nanoseconds, by the kernel's own account.
    fn cpu(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let nanos = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
        tasks.filter_map(|t| nanos(t.unwrap().path())).sum()
    }

    fn rss_mb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tps(server: &Server, seconds: u32) -> f64 {
    let said = server.pgbench(&["-S", "-n", "-c", "8", "-j", "2", "-T", &seconds.to_string()]).finish();
    let line = said.lines().find(|l| l.starts_with("tps")).unwrap_or_else(|| panic!("{said}"));
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(name: &str, mut ratios: Vec<f64>) {
    let middle = median(&mut ratios);
    println!("  {name:<34} {middle:.3}   ({:.3} to {:.3} in {} rounds)", ratios[0], ratios[ratios.len() - 1], ratios.len());
}

fn throughput(quick: bool) {
    let server = Server::start("18", &Options::new()).expect("a server");
    server.pgbench(&["-i", "-q", "-s", "10"]).finish();
    let (rounds, seconds) = if quick { (3, 2) } else { (9, 4) };
    tps(&server, seconds);
    let mut mapped = Vec::new();
    let mut readv = Vec::new();
    let mut noise = Vec::new();
    for round in 0..rounds {
        let off = |s: &Server| tps(s, seconds);
        let on = |s: &Server, access| {
            let _tracer = Tracer::start(s, 100, access);
            tps(s, seconds)
        };
        // Each is compared with the mean of the runs without it before and after; the order changes from round to round.
        let first = off(&server);
        let (a, b) = if round % 2 == 0 { ("map", "readv") } else { ("readv", "map") };
        let one = on(&server, a);
        let second = off(&server);
        let two = on(&server, b);
        let third = off(&server);
        let (map, read) = if round % 2 == 0 {
            (one / f64::midpoint(first, second), two / f64::midpoint(second, third))
        } else {
            (two / f64::midpoint(second, third), one / f64::midpoint(first, second))
        };
        mapped.push(map);
        readv.push(read);
        noise.push(second / f64::midpoint(first, third));
    }
    println!("TPS of pgbench -S -c 8 -j 2, sampled at 100 Hz / off:");
    spread("mapped / off", mapped);
    spread("process_vm_readv / off", readv);
    spread("off / off (noise)", noise);
}

fn own_cpu(quick: bool) {
    println!("\nOwn CPU, per cent of one core, whole program with one JSON line a second:");
    println!("  {:>8} {:>9} {:>10} {:>18} {:>8}", "backends", "rate Hz", "mapped", "process_vm_readv", "RSS MB");
    for backends in [100_usize, 1_000] {
        let server = Server::start("18", &Options::new().conf(&format!("max_connections = {}", backends + 50))).expect("a server");
        server.pgbench(&["-i", "-q"]).finish();
        // All connected, a few at work at any time.
        let clients = backends.to_string();
        let _load = server.pgbench(&["-S", "-n", "-c", &clients, "-j", "2", "-R", "200", "-T", "600"]);
        let mut client = server.connect();
        let ready = wait_until(Duration::from_secs(120), || {
            client.query_one("SELECT count(*) FROM pg_stat_activity", &[]).unwrap().get::<_, i64>(0) >= backends as i64
        });
        assert!(ready, "{backends} connections");
        for hz in [10, 100, 1_000] {
            let mut rss = 0;
            let mut measure = |access| {
                let tracer = Tracer::start(&server, hz, access);
                // Attaching is not part of it.
                std::thread::sleep(Duration::from_millis(1_500));
                let (cpu, began) = (tracer.cpu(), Instant::now());
                std::thread::sleep(Duration::from_secs(if quick { 3 } else { 10 }));
                rss = rss.max(tracer.rss_mb());
                100.0 * (tracer.cpu() - cpu) as f64 / began.elapsed().as_nanos() as f64
            };
            let (map, readv) = (measure("map"), measure("readv"));
            println!("  {backends:>8} {hz:>9} {map:>9.2} % {readv:>16.2} % {rss:>8}");
        }
    }
}

fn main() {
    let quick = std::env::args().any(|a| a == "quick");
    throughput(quick);
    own_cpu(quick);
}
