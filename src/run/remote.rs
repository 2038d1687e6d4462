//! The recorder of a directory that is looked at: what the screen wants of windows goes to its control socket.

use crate::capture::command::{Command, Order};
use crate::control::call::call;
use crate::session::Kind;
use crate::ui::state::window::Windows;
use anyhow::{Context, Result, bail};
use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::{Value, json};
use std::path::Path;
use std::thread::JoinHandle;

/// Which windows the recorder can be asked for.
pub fn windows(dir: &Path) -> Windows {
    let status = match ask(dir, &json!({ "cmd": "status" })) {
        Ok(status) => status,
        Err(why) => return Windows::Never(format!("its recorder does not listen to this program: {why:#}")),
    };
    if status.get("escalation_supported").and_then(Value::as_bool) == Some(true) {
        return Windows::Of { kind: Kind::Exact, standing: None };
    }
    let mode = status.get("mode").and_then(Value::as_str).unwrap_or("unknown");
    Windows::Never(format!("its recorder runs with --mode {mode}"))
}

/// Hands orders on, on a thread that ends with their sender. What comes of them is in the recording, but for why one was refused.
pub fn forward(dir: &Path, refused: impl Fn(String) + Send + 'static) -> Result<(Sender<Order>, JoinHandle<()>)> {
    let (sender, orders) = unbounded();
    let dir = dir.to_owned();
    let thread =
        std::thread::Builder::new().name("orders".into()).spawn(move || each(&dir, &orders, refused)).context("cannot start a thread")?;
    Ok((sender, thread))
}

fn each(dir: &Path, orders: &Receiver<Order>, refused: impl Fn(String)) {
    for order in orders {
        let request = match order.command {
            Command::Open { kind, seconds } => json!({ "cmd": "escalate", "duration_s": seconds, "tier": kind.fidelity().name() }),
            Command::Close => json!({ "cmd": "deescalate" }),
        };
        if let Err(why) = ask(dir, &request) {
            refused(format!("{why:#}"));
        }
    }
}

/// Asks the recorder. The error says why not, in its words where it said any.
fn ask(dir: &Path, request: &Value) -> Result<Value> {
    let line = call(dir, &request.to_string())?;
    let answer: Value = serde_json::from_str(&line).context("what answers on its socket is no recorder")?;
    if answer.get("ok").and_then(Value::as_bool) != Some(true) {
        bail!("{}", answer.get("error").and_then(Value::as_str).unwrap_or("it did not say why"));
    }
    Ok(answer)
}
