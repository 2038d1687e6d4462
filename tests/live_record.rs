//! A running server recorded into a directory: the same answers from disk as from memory, and how large it is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![cfg(all(feature = "capture", target_os = "linux"))]

use crossbeam_channel::unbounded;
use jiff::tz::TimeZone;
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::{Answer, Body};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::engine::Engine;
use pg_wait_tracer::capture::sampler::{Command, Options as Sampling, Sampler};
use pg_wait_tracer::capture::window::{Kind, Rules};
use pg_wait_tracer::pg::discover;
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::Settings;
use pg_wait_tracer::store::retain::Limits;
use pg_wait_tracer::store::writer::Writer;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::codec::frame::Frames;
use pg_wait_tracer::trace::codec::kind;
use pg_wait_tracer::trace::recent::Recent;
use pg_wait_tracer::trace::record::Fidelity;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use support::{Options as Cluster, Server};

mod support;

fn events(a: &Answer) -> Vec<(String, u64, Option<u64>, u64)> {
    let Body::Events { events } = &a.body else { panic!() };
    events.iter().map(|e| (e.name.clone(), e.time_ns, e.waits, e.samples)).collect()
}

#[test]
fn a_server_under_load_is_on_disk_as_in_memory() {
    let Some(server) = Server::start("18", &Cluster::new()) else { return };
    server.pgbench(&["-i", "-q", "-s", "5"]).finish();
    for load in [&["-S", "-n", "-c", "8", "-j", "2", "-T", "60"][..], &["-n", "-c", "16", "-j", "2", "-T", "60"]] {
        let pgbench = server.pgbench(load);
        for tier in [None, Some(Kind::Blocking), Some(Kind::Exact)] {
            let mut options = Sampling::new(discover::choose(Some(server.pid() as i32), None).unwrap(), Some(100), Reach::Auto);
            options.rules = Rules { max_overhead_pct: 1e9, ..Rules::default() };
            let (commands, inbox) = unbounded();
            options.commands = Some(inbox);
            let dir = tempfile::tempdir().unwrap();
            let settings = Settings { dir: dir.path().to_owned(), access: Access::default(), zone: TimeZone::UTC, run: SECOND };
            let writer = Writer::start(settings, Limits::default()).unwrap();
            let mut memory = Recent::new(1 << 30);
            {
                let (_engine, batches) = Engine::start(move || Sampler::start(options)).unwrap();
                if let Some(kind) = tier {
                    commands.send(Command::Open { kind, seconds: Some(5) }.into()).unwrap();
                }
                let end = Instant::now() + Duration::from_secs(7);
                while let Ok(batch) = batches.recv_deadline(end) {
                    writer.absorb(&batch);
                    memory.absorb(batch);
                }
            }
            let status = writer.stop();
            assert_eq!((status.error, status.lost_records), (None, 0));
            let bytes = fs::read(dir.path().join("current.trace")).unwrap();
            let mut sizes: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
            let mut samples = 0;
            for f in Frames(&bytes[28..]) {
                let size = sizes.entry(f.header.kind).or_default();
                *size = (size.0 + f.bytes.len() as u64, size.1 + u64::from(f.header.count));
                samples += if f.header.kind == kind::SAMPLES { u64::from(f.header.count) } else { 0 };
            }
            let mut rows = 0;
            memory.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| rows += if b.fidelity() == Fidelity::Sampled { 0 } else { b.len() });
            let began = Instant::now();
            let mut disk = Dir::open(dir.path(), Options::default()).unwrap();
            let (extent, whole) = (disk.extent().unwrap(), memory.extent().unwrap());
            // Memory begins with its first block; a group on disk may reach back a little further.
            assert!(extent.len().abs_diff(whole.len()) < 1_000_000, "{extent:?} {whole:?}");
            let extent = Span::new(extent.end - whole.len(), extent.end);
            disk.narrow(extent);
            let opened = began.elapsed();
            let ask = |t: &Dir, a| answer(t, &Question::new(a, Window::Fixed(extent))).unwrap();
            let got = ask(&disk, Ask::Events);
            println!(
                "{load:?} {tier:?}: {} bytes, {sizes:?}, {rows} intervals, {samples} samples, opened {opened:?}, asked {:?}",
                bytes.len(),
                began.elapsed().saturating_sub(opened)
            );
            let want = answer(&memory, &Question::new(Ask::Events, Window::Fixed(Span::new(whole.start, whole.end)))).unwrap();
            assert_eq!(events(&got), events(&want));
            assert_eq!(
                (got.db_time_ns, got.sessions, got.coverage.observed_ns()),
                (want.db_time_ns, want.sessions, want.coverage.observed_ns())
            );
        }
        drop(pgbench);
    }
}
