//! The full screen: a live trace, its session worker, and the screen on them.

use super::live::{self, Capturing, Opened};
use super::record;
use super::remote;
use super::wish::Wish;
use crate::cli::{Color, Live, Mode, View, WindowTier};
use crate::pg::names::event_names;
use crate::session::recorded::Recorded;
use crate::session::{Kind, Worker};
use crate::trace::clock::SECOND;
use crate::ui::state::Start;
use crate::ui::state::window::Windows;
use crate::ui::{self, Options, Outcome};
use anyhow::Result;
use std::io::IsTerminal;
use std::process::ExitCode;

/// The window a live picture opens with: what has been seen fills it soon.
const FIRST_WINDOW: u64 = 60 * SECOND;

/// Opens it and returns when it is left.
pub fn run(wish: &Wish) -> Result<ExitCode> {
    if !std::io::stdout().is_terminal() {
        return Err(super::Usage("the full screen needs a terminal: use --format text, json or csv in a pipe".into()).into());
    }
    ui::theme::Theme::check(wish.theme.as_deref().unwrap_or("auto")).map_err(|e| super::Usage(format!("{e:#}")))?;
    let (news, inbox) = ui::channel();
    let refusals = news.clone();
    let reply = move |reply| {
        // The screen is gone: the worker is about to be told.
        let _ = news.send(ui::msg::Msg::Reply(reply));
    };
    let mut start = start(wish);
    let mut forwarding = None;
    let (worker, capture, recorder) = if let Some(dir) = wish.recorded() {
        let recorded = Recorded::open(dir, event_names)?;
        look(&mut start, wish, &recorded)?;
        let mut worker = Worker::live(recorded, crossbeam_channel::never(), reply)?;
        if matches!(start.windows, Windows::Of { .. }) {
            let (orders, thread) = remote::forward(dir, move |why| {
                let _ = refusals.send(ui::msg::Msg::Refused(why));
            })?;
            worker = worker.with_commands(orders);
            forwarding = Some(thread);
        }
        (worker, None, None)
    } else {
        let Opened { trace, capturing: Capturing { batches, engine, commands, recorder, control } } = live::open(wish)?;
        (Worker::live(trace, batches, reply)?.with_commands(commands), Some((engine, control)), recorder)
    };
    let options = Options {
        start,
        theme: wish.theme.clone().unwrap_or_else(|| "auto".into()),
        color: match wish.color {
            Color::Auto => ui::theme::ColorMode::Auto,
            Color::Always => ui::theme::ColorMode::Always,
            Color::Never => ui::theme::ColorMode::Never,
        },
        mouse: if wish.mouse { ui::terminal::Mouse::On } else { ui::terminal::Mouse::Off },
    };
    let outcome = ui::run(options, worker, inbox)?;
    if let Some(thread) = forwarding {
        let _ = thread.join();
    }
    // In this order: the engine, then what serves its account.
    drop(capture);
    record::finish(recorder)?;
    match outcome {
        Outcome::Quit | Outcome::Signal(_) => Ok(ExitCode::SUCCESS),
        Outcome::Ended(why) if why.is_empty() => Ok(ExitCode::SUCCESS),
        Outcome::Ended(why) | Outcome::Broken(why) => anyhow::bail!("{why}"),
    }
}

/// What the screen starts with.
fn start(wish: &Wish) -> Start {
    Start {
        page: match wish.flags.view() {
            View::TimeModel => ui::pages::Page::Time,
            View::SystemEvent => ui::pages::Page::Events,
            View::Histogram => ui::pages::Page::Latency,
            View::Flow => ui::pages::Page::Flow,
            View::SessionEvent => ui::pages::Page::Sessions,
            View::QueryEvent => ui::pages::Page::Queries,
            View::Active => ui::pages::Page::Active,
        },
        filter: wish.filter.clone(),
        window: FIRST_WINDOW,
        zone: wish.zone.clone(),
        ascii: wish.ascii,
        windows: windows(&wish.flags),
        ..Start::default()
    }
}

/// A recording that grows is followed; else all of it, or the stretch asked for, is looked at.
fn look(start: &mut Start, wish: &Wish, recorded: &Recorded) -> Result<()> {
    start.windows = match wish.recorded() {
        Some(dir) if recorded.grows() => remote::windows(dir),
        _ => Windows::Never("this recording has ended".into()),
    };
    let range = super::replay::range(wish.range(), &wish.zone, recorded)?;
    if range.chosen || !recorded.grows() {
        start.span = Some(range.span);
    }
    Ok(())
}

/// Which exact and blocking windows can be opened by hand.
fn windows(flags: &Live) -> Windows {
    if flags.script.is_some() {
        return Windows::Never("a scenario is being played, not a server watched".into());
    }
    if flags.mode() == Mode::Sampled {
        return Windows::Never("--mode sampled attaches nothing to the server: start with --mode tiered".into());
    }
    let kind = match flags.window_tier {
        WindowTier::Exact => Kind::Exact,
        WindowTier::Blocking => Kind::Blocking,
    };
    let standing = match flags.mode() {
        Mode::Full => Some(Kind::Exact),
        Mode::Blocking => Some(Kind::Blocking),
        Mode::Sampled | Mode::Tiered | Mode::Coop => None,
    };
    Windows::Of { kind, standing }
}
