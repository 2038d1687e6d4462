//! The control socket of a recording and the metrics of a capture: opened before anything is captured, so that what cannot be served is said at once.

use super::Usage;
use super::wish::Wish;
use crate::capture::command::{Kind, Order};
use crate::capture::engine::Tap;
use crate::cli::{self, Format, Mode, WindowTier};
use crate::control::board::{Facts, Written};
use crate::control::eye::Eye;
use crate::control::socket::Socket;
use crate::control::{Control, Doors};
use crate::store::writer::Writer;
use crate::trace::clock::Ts;
use anyhow::{Context, Result};
use crossbeam_channel::Sender;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::SystemTime;

/// Starts what there is to serve: a socket when something is recorded (the directory must be ours), metrics when they are asked for.
pub fn start(wish: &Wish, orders: Sender<Order>) -> Result<Option<(Control, Eye)>> {
    let flags = &wish.flags;
    let socket = match flags.recording.trace_dir.as_deref().map(Socket::make) {
        Some(Err(error)) if !Socket::is_taken(&error) => {
            // A recording without it is better than none.
            eprintln!("pg_wait_tracer: {error:#}; recording goes on without");
            None
        }
        made => made.transpose()?,
    };
    let metrics = flags.metrics_listen.as_deref().map(listen).transpose()?;
    if let Some(address) = metrics.as_ref().and_then(|m| m.local_addr().ok()).filter(|_| wish.format != Format::Tui) {
        eprintln!("pg_wait_tracer: metrics at http://{address}/metrics");
    }
    if socket.is_none() && metrics.is_none() {
        return Ok(None);
    }
    Control::start(facts(wish), Doors { socket, metrics }, orders).map(Some)
}

/// Lets the eye see every batch, with what the writer has done, behind the recording's own tap.
pub fn tap(mut recording: Option<Tap>, writer: Option<Arc<Writer>>, mut eye: Eye) -> Tap {
    Box::new(move |batch| {
        if let Some(recording) = &mut recording {
            recording(batch);
        }
        let clock = batch.clock;
        let written = writer.as_ref().map(|w| w.status()).map(|s| Written {
            records: s.records,
            blocks: s.blocks,
            bytes: s.bytes,
            files: s.files,
            errors: s.errors,
            newest: if s.newest == Ts(0) { 0 } else { clock.wall(s.newest) },
        });
        eye.see(batch, written);
    })
}

fn facts(wish: &Wish) -> Facts {
    let flags = &wish.flags;
    Facts {
        mode: match flags.mode() {
            Mode::Full if flags.lightweight => "lightweight",
            Mode::Full => "full",
            Mode::Blocking => "blocking",
            Mode::Tiered => "tiered",
            Mode::Sampled | Mode::Coop => "sampled",
        },
        version: cli::version(),
        kind: match flags.window_tier {
            WindowTier::Exact => Kind::Exact,
            WindowTier::Blocking => Kind::Blocking,
        },
        tiered: flags.mode() == Mode::Tiered,
        standing: matches!(flags.mode(), Mode::Full | Mode::Blocking),
        playing: flags.script.is_some(),
        started: SystemTime::now(),
    }
}

/// Listens on the first address that can be had of those a text names.
fn listen(text: &str) -> Result<TcpListener> {
    let addresses = addresses(text)?;
    TcpListener::bind(addresses.as_slice()).with_context(|| format!("metrics cannot be served on {text} (--metrics-listen)"))
}

/// `ADDR:PORT`, `NAME:PORT`, `[::1]:PORT`; of `:PORT` and `PORT` the address is this machine's own.
fn addresses(text: &str) -> Result<Vec<SocketAddr>> {
    let wrong = || Usage(format!("--metrics-listen {text}: not an address and a port, such as :9187, 127.0.0.1:9187 or [::1]:9187"));
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = match host {
        "" => "127.0.0.1",
        h if h.starts_with('[') => h.strip_prefix('[').and_then(|h| h.strip_suffix(']')).ok_or_else(wrong)?,
        h if h.contains(':') => return Err(wrong().into()),
        h => h,
    };
    let found = (host, port).to_socket_addrs().with_context(|| format!("--metrics-listen {text}: the name '{host}' is not known"))?;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, is) in [
            (":9187", "127.0.0.1:9187"),
            ("9187", "127.0.0.1:9187"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:9187", "[::1]:9187"),
            ("[::]:0", "[::]:0"),
        ] {
            assert_eq!(addresses(text).unwrap(), [is.parse().unwrap()], "{text}");
        }
        for wrong in ["", ":", "localhost", "::1:9187", "[::1:9187", "1.2.3.4:99999", "host:http"] {
            assert!(addresses(wrong).unwrap_err().is::<Usage>(), "{wrong}");
        }
    }
}
