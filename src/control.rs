//! The control socket and the metrics of a live capture: what it says of itself, and the way to open and close windows from outside.
//!
//! Two threads, both apart from capture: `pgwt-control` serves everybody who asks, `pgwt-meter` adds up DB Time. Capture leaves its newest account and
//! its blocks on its way ([`eye::Eye`]) and never waits, neither for a lock nor for a channel; what it could not leave is counted.

pub mod board;
pub mod call;
mod client;
pub mod desk;
pub mod exposition;
pub mod eye;
mod http;
pub mod meter;
pub mod metrics;
mod own;
mod serve;
pub mod socket;

use crate::capture::command::Order;
use anyhow::{Context, Result};
use board::{Board, Facts};
use crossbeam_channel::{Sender, bounded};
use desk::Desk;
use eye::Eye;
use socket::Socket;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Where one can ask.
#[derive(Debug, Default)]
pub struct Doors {
    /// JSON lines.
    pub socket: Option<Socket>,
    /// HTTP.
    pub metrics: Option<TcpListener>,
}

/// Batches that may wait for the meter: half a minute.
const QUEUE: usize = 128;

/// A control socket and metrics being served. Dropping it ends its threads and removes the socket.
#[derive(Debug)]
pub struct Control {
    /// Closing it ends the serving thread.
    end: Option<UnixStream>,
    stop: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    _socket: Option<Socket>,
}

impl Control {
    /// Starts to serve; the eye goes into the tap of the capture. `orders` leads to the capture; it is not listened to before the first account.
    pub fn start(facts: Facts, doors: Doors, orders: Sender<Order>) -> Result<(Self, Eye)> {
        let board = Arc::new(Board::new(facts));
        let (end, ended) = UnixStream::pair().context("the control thread cannot be told to end")?;
        let (batches, inbox) = bounded(QUEUE);
        let (stop, stopped) = bounded(0);
        let listeners = serve::Listeners::new(&doors).context("the control socket cannot be served")?;
        let mut this = Self { end: Some(end), stop: Some(stop), threads: Vec::new(), _socket: doors.socket };
        let desk = Desk::new(Arc::clone(&board), orders);
        let control = Builder::new().name("pgwt-control".into()).spawn(move || serve::run(listeners, &desk, &ended));
        this.threads.push(control.context("the control thread cannot be started")?);
        let meter = Arc::clone(&board);
        let meter = Builder::new().name("pgwt-meter".into()).spawn(move || meter::run(&inbox, &stopped, &meter));
        this.threads.push(meter.context("the meter's thread cannot be started")?);
        Ok((this, Eye::new(board, batches)))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        (self.end, self.stop) = (None, None);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}
