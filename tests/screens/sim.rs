//! A screen without a terminal and without time of its own: a scenario, a size, keys; then the picture.

use pg_wait_tracer::analysis::answer::Answer;
use pg_wait_tracer::analysis::question::Question;
use pg_wait_tracer::analysis::{Local, Source};
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::session::{Live, Reply, Request};
use pg_wait_tracer::trace::clock::SECOND;
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::ui::draw::draw;
use pg_wait_tracer::ui::draw::hits::Hits;
use pg_wait_tracer::ui::keymap::Key;
use pg_wait_tracer::ui::msg::{Effect, Msg};
use pg_wait_tracer::ui::state::{Start, State};
use pg_wait_tracer::ui::theme::Theme;
use pg_wait_tracer::ui::theme::color::{Depth, Environment};
use pg_wait_tracer::ui::update::update;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Batches of a scenario per second.
const PER_SECOND: usize = 4;

pub struct Sim {
    pub state: State,
    pub theme: Theme,
    pub source: Local<Recent>,
    pub hits: Hits,
    /// Effects other than questions, oldest first.
    pub effects: Vec<Effect>,
    /// Questions that were not answered, when answers are held back.
    pub held: Vec<Request>,
    pub holding: bool,
    /// Changes answers before they arrive.
    pub touch: fn(&Question, &mut Answer),
    batches: VecDeque<Batch>,
    now: Duration,
}

/// What capture hands over of a scenario; played once for all tests.
fn batches(name: &str) -> Vec<Batch> {
    static PLAYED: Mutex<BTreeMap<String, Vec<Batch>>> = Mutex::new(BTreeMap::new());
    let mut played = PLAYED.lock().unwrap_or_else(PoisonError::into_inner);
    let play = || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(name);
        Script::batches(Scenario::load(&path).unwrap()).unwrap()
    };
    played.entry(name.to_owned()).or_insert_with(play).clone()
}

impl Sim {
    /// The screen after `seconds` of a scenario.
    pub fn new(name: &str, seconds: usize, size: (u16, u16)) -> Self {
        Self::with(name, seconds, size, Start::default(), "dark", Depth::True)
    }

    pub fn with(name: &str, seconds: usize, size: (u16, u16), start: Start, theme: &str, depth: Depth) -> Self {
        let theme = Theme::load(theme, depth, start.ascii, &Environment::default()).unwrap();
        let mut sim = Self {
            state: State::new(start, size),
            theme,
            source: Local(Recent::new(usize::MAX)),
            hits: Hits::default(),
            effects: Vec::new(),
            held: Vec::new(),
            holding: false,
            touch: |_, _| {},
            batches: batches(name).into(),
            now: Duration::ZERO,
        };
        for batch in sim.batches.drain(..(seconds * PER_SECOND).min(sim.batches.len())).collect::<Vec<_>>() {
            sim.source.absorb(batch);
        }
        sim.send(Msg::Tick(Duration::ZERO));
        sim.draw();
        sim
    }

    /// A message and all that follows from it.
    pub fn send(&mut self, msg: Msg) {
        let mut messages = VecDeque::from([msg]);
        while let Some(msg) = messages.pop_front() {
            for effect in update(&mut self.state, msg) {
                match effect {
                    Effect::Ask(request) if self.holding => self.held.push(request),
                    Effect::Ask(request) => messages.push_back(Msg::Reply(self.reply(request))),
                    other => self.effects.push(other),
                }
            }
        }
    }

    fn reply(&mut self, request: Request) -> Reply {
        let mut answer = self.source.ask(&request.question).map(Box::new).map_err(|e| format!("{e:#}"));
        if let Ok(answer) = &mut answer {
            (self.touch)(&request.question, answer);
        }
        Reply { slot: request.slot, seq: request.seq, answer }
    }

    /// Answers what was held back.
    pub fn release(&mut self) {
        self.holding = false;
        for request in std::mem::take(&mut self.held) {
            let reply = self.reply(request);
            self.send(Msg::Reply(reply));
        }
    }

    /// Keys by name, and text to be typed in quotes: `2 Down Enter / 'class=Lock' Enter`.
    pub fn keys(&mut self, keys: &str) -> &mut Self {
        for (i, part) in keys.split('\'').enumerate() {
            if i % 2 == 1 {
                for c in part.chars() {
                    self.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
                }
            } else {
                for name in part.split_whitespace() {
                    self.key(name.parse::<Key>().unwrap_or_else(|e| panic!("{e}")).into());
                }
            }
        }
        self
    }

    pub fn key(&mut self, key: KeyEvent) {
        self.send(Msg::Input(Event::Key(key)));
        self.draw();
    }

    /// Time goes on, with what the scenario holds for it.
    pub fn advance(&mut self, seconds: usize) -> &mut Self {
        for _ in 0..seconds * PER_SECOND {
            if let Some(batch) = self.batches.pop_front() {
                self.source.absorb(batch);
            }
            self.now += Duration::from_nanos(SECOND / PER_SECOND as u64);
            self.send(Msg::Tick(self.now));
        }
        self.draw();
        self
    }

    pub fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        self.send(Msg::Input(Event::Resize(width, height)));
        self.draw();
        self
    }

    pub fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> &mut Self {
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        if let Some(pointer) = self.hits.pointer(event) {
            self.send(Msg::Pointer(pointer));
        }
        self.draw();
        self
    }

    pub fn click(&mut self, column: u16, row: u16) -> &mut Self {
        self.mouse(MouseEventKind::Down(MouseButton::Left), column, row).mouse(MouseEventKind::Up(MouseButton::Left), column, row)
    }

    pub fn draw(&mut self) -> Buffer {
        let (width, height) = self.state.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| self.hits = draw(frame, &self.state, &self.theme)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// The characters on the screen.
    pub fn picture(&mut self) -> String {
        lines(&self.draw()).join("\n")
    }

    /// The row on the screen that holds a text.
    pub fn row_of(&mut self, text: &str) -> u16 {
        let lines = lines(&self.draw());
        lines.iter().position(|l| l.contains(text)).unwrap_or_else(|| panic!("'{text}' is not on the screen:\n{}", lines.join("\n"))) as u16
    }

    /// The line of the selected row.
    pub fn selected(&mut self) -> String {
        let marks = ['▌', '>'];
        lines(&self.draw()).into_iter().find(|l| l.starts_with(marks)).unwrap_or_default().trim_start_matches(marks).trim().to_owned()
    }
}

/// The lines of a buffer, without what is blank at their ends. The second half of a wide character is left out.
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    let mut lines = Vec::new();
    for row in buffer.content.chunks(width) {
        let (mut line, mut skip) = (String::new(), 0);
        for cell in row {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            line.push_str(cell.symbol());
            skip = pg_wait_tracer::ui::text::width(cell.symbol()).saturating_sub(1);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}
