//! The terminal while the screen is open: taken on entering, given back on every way out, be it a return, an error, a panic or a stop.
//! Runs on the screen's thread, except for the panic hook.

use super::clipboard::{Between, osc52};
use super::msg::Msg;
use anyhow::{Context, Result};
use crossbeam_channel::Sender;
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use std::io::{BufWriter, Stdout, Write, stdout};
use std::panic::PanicHookInfo;
use std::sync::Arc;

/// Buttons, drags and the wheel, with coordinates of any size; not every movement.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1002l\x1b[?1000l";

/// Whether the mouse is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mouse {
    /// It is.
    On,
    /// The terminal keeps it: text can be selected as usual.
    Off,
}

type Hook = Arc<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The terminal, taken.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    mouse: Mouse,
    hook: Hook,
}

impl Screen {
    /// Takes the terminal. A panic on this thread gives it back before it is reported; one on another thread is reported through `news`, and
    /// the screen closes.
    pub fn enter(mouse: Mouse, news: Sender<Msg>) -> Result<Self> {
        let hook: Hook = Arc::from(std::panic::take_hook());
        let before = hook.clone();
        let own = std::thread::current().id();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == own {
                give_back();
                before(info);
            } else {
                let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
                // Never wait here: the screen's thread may be waiting for this one.
                let _ = news.try_send(Msg::Broken(format!("thread {name}: {info}").replace(":\n", ": ").replace('\n', " ")));
            }
        }));
        let taken = take(mouse).and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, stdout()))));
        match taken {
            Ok(terminal) => Ok(Self { terminal, mouse, hook }),
            Err(error) => {
                give_back();
                reset_hook(hook);
                Err(error).context("cannot use this terminal for a full screen; --format text needs none")
            }
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = self.terminal.size().context("cannot tell the size of the terminal")?;
        Ok((size.width, size.height))
    }

    /// Draws a picture; the terminal shows it at once, not line by line.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate).context("cannot write to the terminal")?;
        self.terminal.draw(picture).context("cannot draw on the terminal")?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate).context("cannot write to the terminal")
    }

    /// Forgets what the terminal is believed to show. Not [`Terminal::clear`]: that one asks the terminal where its cursor is, and the key thread
    /// would take the reply.
    pub fn clear(&mut self) -> Result<()> {
        queue!(self.terminal.backend_mut(), Clear(ClearType::All)).context("cannot write to the terminal")?;
        // Forgets the last picture, so that the next one is drawn whole.
        self.terminal.swap_buffers();
        Ok(())
    }

    /// Puts text into the clipboard of the user's terminal.
    pub fn copy(&mut self, text: &str) -> Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(osc52(text, Between::read()).as_bytes()).and_then(|()| out.flush()).context("cannot write to the terminal")
    }

    /// Gives the terminal back, stops the process as Ctrl-Z does, and takes the terminal again when the process goes on.
    pub fn suspend(&mut self) -> Result<()> {
        give_back();
        // Returns when SIGCONT arrives.
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
        self.resume()
    }

    /// Takes the terminal again, after somebody else has used it.
    pub fn resume(&mut self) -> Result<()> {
        take(self.mouse).context("cannot take the terminal back")?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
        if !std::thread::panicking() {
            reset_hook(self.hook.clone());
        }
    }
}

fn reset_hook(hook: Hook) {
    let _ = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| hook(info)));
}

fn take(mouse: Mouse) -> std::io::Result<()> {
    // Somebody else may have changed the mode behind our back: what is believed to be raw is set anew.
    disable_raw_mode()?;
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
    if mouse == Mouse::On {
        execute!(stdout(), Print(MOUSE_ON))?;
    }
    Ok(())
}

/// Leaves the terminal as a shell expects it. Errors do not matter: there is nothing else to try.
fn give_back() {
    let _ = execute!(stdout(), EndSynchronizedUpdate, Print(MOUSE_OFF), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("mouse", &self.mouse).finish_non_exhaustive()
    }
}
