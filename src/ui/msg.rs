//! What goes into `update` and what comes out of it. Owns no state. Messages are made on any thread, effects are carried out on the screen's.

use super::draw::hits::Pointer;
use crate::session::{Command, Reply, Request};
use ratatui::crossterm::event::Event;
use std::time::Duration;

/// Something happened.
#[derive(Debug, Clone)]
pub enum Msg {
    /// Time since the start; the only clock the screen knows.
    Tick(Duration),
    /// A key, a paste, a new size. Mouse events arrive as [`Msg::Pointer`].
    Input(Event),
    /// The mouse did something over a known place of the last picture.
    Pointer(Pointer),
    /// An answer.
    Reply(Reply),
    /// A command found nobody who listens.
    Unheard,
    /// A command was refused: one line says why.
    Refused(String),
    /// A signal arrived.
    Signal(Signal),
    /// Nothing can be shown any more: the terminal is gone, or another thread panicked. One line.
    Broken(String),
}

/// Signals that concern the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTSTP: restore the terminal and stop.
    Stop,
    /// SIGCONT: take the terminal back and draw everything again.
    Continue,
    /// SIGTERM, SIGHUP, SIGINT: leave.
    Terminate(i32),
}

/// What is to be done outside of the state.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Ask this.
    Ask(Request),
    /// Tell the capture this.
    Command(Command),
    /// Put this text into the clipboard of the user's terminal.
    Copy(String),
    /// Draw with this theme from now on.
    Theme(String),
    /// Restore the terminal, stop the process, and come back.
    Suspend,
    /// Draw every cell again, whatever the terminal is believed to show.
    Redraw,
    /// Leave.
    Leave(Outcome),
}

/// How the screen was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The user quit.
    Quit,
    /// A signal asked for it; its number.
    Signal(i32),
    /// The recording ended and the policy was to leave then; one line, empty after an orderly end.
    Ended(String),
    /// The terminal is gone or a thread panicked; one line.
    Broken(String),
}
