//! The full screen. One thread, one channel of messages, one function that changes the state, one that draws it.
//!
//! ```text
//!  keys ──┐                                          ┌─► questions to the session worker
//!  signals├─► Msg ─► update(&mut State, Msg) ─► Effect┼─► clipboard, theme, stop, leave
//!  replies┘                │                          
//!                          ▼
//!              draw(frame, &State, &Theme) -> Hits    what is where, for the mouse
//! ```
//!
//! All pending messages are taken in before a picture is drawn, and a picture is drawn at most every 33 ms. Nothing here is shared with another
//! thread.

pub mod action;
pub mod chart;
pub mod clipboard;
pub mod draw;
pub mod format;
pub mod glyphs;
pub mod input;
pub mod keymap;
pub mod msg;
pub mod pages;
pub mod state;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod update;
pub mod widgets;

pub use msg::Outcome;

use crate::session::Worker;
use anyhow::{Result, bail};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use draw::hits::Hits;
use jiff::tz::TimeZone;
use msg::{Effect, Msg};
use ratatui::crossterm::event::Event;
use state::{Start, State};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use terminal::{Mouse, Screen};
use theme::background;
use theme::color::{Depth, Environment};
use theme::{ColorMode, Theme};

/// Messages that may wait. More than a person types and a worker answers between two pictures.
const WAITING: usize = 4_096;
/// At most so often a picture is drawn.
const FRAME: Duration = Duration::from_millis(33);

/// How the screen is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// What it shows first.
    pub start: Start,
    /// Name or path of the theme; `auto` asks the environment.
    pub theme: String,
    /// Whether colour is used.
    pub color: ColorMode,
    /// Whether the mouse is listened to.
    pub mouse: Mouse,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start: Start { zone: TimeZone::system(), ..Start::default() },
            theme: "auto".into(),
            color: ColorMode::Auto,
            mouse: Mouse::On,
        }
    }
}

/// The receiving end of the screen's channel.
#[derive(Debug)]
pub struct Inbox {
    news: Sender<Msg>,
    messages: Receiver<Msg>,
}

/// The screen's channel: the sender goes to whoever answers questions, the other end to [`run`].
pub fn channel() -> (Sender<Msg>, Inbox) {
    let (news, messages) = bounded(WAITING);
    (news.clone(), Inbox { news, messages })
}

/// Opens the screen and returns when it is left. The terminal is given back on every way out.
pub fn run(options: Options, worker: Worker, inbox: Inbox) -> Result<Outcome> {
    let mut environment = Environment::read();
    if !std::io::stdout().is_terminal() || environment.term == "dumb" {
        bail!("the full screen needs a terminal that can move its cursor (TERM is '{}'); use --format text", environment.term);
    }
    let depth = options.color.depth(&environment);
    // A theme that cannot be loaded is said before the screen is taken.
    Theme::load(&options.theme, depth, options.start.ascii, &environment)?;
    let outcome = {
        let mut screen = Screen::enter(options.mouse, inbox.news.clone())?;
        if options.theme == "auto" && depth != Depth::Mono && std::io::stdin().is_terminal() {
            environment.light = background::is_light();
        }
        let load = |name: &str| Theme::load(name, depth, options.start.ascii, &environment);
        let mut theme = load(&options.theme)?;
        let mut start = options.start.clone();
        Theme::meant(&options.theme, &environment).clone_into(&mut start.theme);
        let _listeners = input::Listeners::start(&inbox.news)?;
        let mut state = State::new(start, screen.size()?);
        let link = Link { worker: &worker, load: &load };
        loop_until_left(&mut state, &mut screen, &mut theme, &link, &inbox.messages)
    };
    // The worker may be sending: it is told that nobody listens before it is waited for.
    drop(inbox);
    drop(worker);
    outcome
}

/// What effects need.
struct Link<'a> {
    worker: &'a Worker,
    load: &'a dyn Fn(&str) -> Result<Theme>,
}

fn loop_until_left(
    state: &mut State,
    screen: &mut Screen,
    theme: &mut Theme,
    link: &Link<'_>,
    messages: &Receiver<Msg>,
) -> Result<Outcome> {
    let began = Instant::now();
    let mut hits = Hits::default();
    let mut drawn: Option<(Instant, u64)> = None;
    loop {
        let stale = drawn.is_none_or(|(_, revision)| revision != state.revision);
        let due = drawn.map_or(Duration::ZERO, |(at, _)| FRAME.saturating_sub(at.elapsed()));
        let patience = if stale { due.max(Duration::from_millis(1)).min(state.patience()) } else { state.patience() };
        let first = match messages.recv_timeout(patience) {
            Ok(msg) => Some(msg),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => bail!("the screen's channel was closed"),
        };
        let mut pending: VecDeque<Msg> = [Msg::Tick(began.elapsed())].into();
        pending.extend(first.into_iter().chain(messages.try_iter().take(WAITING)));
        while let Some(msg) = pending.pop_front() {
            let msg = match msg {
                Msg::Input(Event::Mouse(event)) => match hits.pointer(event) {
                    Some(pointer) => Msg::Pointer(pointer),
                    None => continue,
                },
                msg => msg,
            };
            for effect in update::update(state, msg) {
                match carry_out(effect, screen, theme, link)? {
                    Done::Nothing => {}
                    Done::Size(width, height) => pending.push_back(Msg::Input(Event::Resize(width, height))),
                    Done::Unheard => pending.push_back(Msg::Unheard),
                    Done::Left(outcome) => return Ok(outcome),
                }
            }
        }
        let stale = drawn.is_none_or(|(_, revision)| revision != state.revision);
        let due = drawn.is_none_or(|(at, _)| at.elapsed() >= FRAME);
        if stale && due && !state.is_settling() {
            screen.draw(|frame| hits = draw::draw(frame, state, theme))?;
            drawn = Some((Instant::now(), state.revision));
        }
    }
}

/// What came of an effect.
enum Done {
    Nothing,
    /// Somebody else had the terminal; it has this size now.
    Size(u16, u16),
    /// Nobody took the command.
    Unheard,
    Left(Outcome),
}

fn carry_out(effect: Effect, screen: &mut Screen, theme: &mut Theme, link: &Link<'_>) -> Result<Done> {
    match effect {
        Effect::Ask(request) => link.worker.ask(request),
        Effect::Command(command) => {
            if !link.worker.command(command) {
                return Ok(Done::Unheard);
            }
        }
        Effect::Copy(text) => screen.copy(&text)?,
        Effect::Theme(name) => {
            // A file that was there at the start may be gone: the theme in use stays.
            if let Ok(loaded) = (link.load)(&name) {
                *theme = loaded;
            }
        }
        Effect::Suspend | Effect::Redraw => {
            if matches!(effect, Effect::Suspend) { screen.suspend() } else { screen.resume() }?;
            let (width, height) = screen.size()?;
            return Ok(Done::Size(width, height));
        }
        Effect::Leave(outcome) => return Ok(Done::Left(outcome)),
    }
    Ok(Done::Nothing)
}
