//! The command line: clap types and help text, no logic.

pub mod escalation;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// See where a PostgreSQL server spends its time, live, from outside.
#[derive(Debug, Parser)]
#[command(
    name = "pg_wait_tracer",
    version = version(),
    disable_version_flag = true,
    about = "See where a PostgreSQL server (13 to 18) spends its time: every session, live, from outside.\nNo patch, no extension, no restart, no login; nothing is attached to PostgreSQL.",
    after_help = "Without a command: the full-screen picture on a terminal, text per interval in a pipe.\n\
        Exit status: 0 fine, 1 failed, 2 wrong usage. Reading another user's server needs root (or CAP_SYS_PTRACE,\n\
        CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH together).",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the live picture.
    #[command(flatten)]
    pub live: Live,
    /// Print version and commit.
    #[arg(long, action = clap::ArgAction::Version)]
    pub version: Option<bool>,
}

/// Version and commit.
pub fn version() -> &'static str {
    env!("PGWT_VERSION")
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The full-screen picture: of a running server, or, with -T, of a recording, finished or growing.
    Tui(Box<Live>),
    /// A recording at a glance: time model, top events, sessions and queries.
    Dump(Box<Dump>),
    /// Ask a running recorder, by its directory: how it stands, its metrics; open and close an exact window.
    Ctl(Ctl),
    /// What this machine and its servers allow, and what mends what is missing.
    Doctor(Box<Target>),
    /// A private throw-away PostgreSQL with a workload, and the picture on it.
    Demo(Box<Demo>),
}

/// Which server.
#[derive(Debug, Clone, Default, Args)]
pub struct Target {
    /// Postmaster's process id [default: the only server running].
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<i32>,
    /// Data directory of the server.
    #[arg(short = 'D', long, value_name = "DIR", env = "PGDATA", hide_env_values = true)]
    pub pgdata: Option<PathBuf>,
}

/// Flags of the live picture, in text and full screen.
#[derive(Debug, Clone, Args)]
pub struct Live {
    /// Which server.
    #[command(flatten)]
    pub target: Target,
    /// View to print, or to open first [default: time_model].
    #[arg(short = 'V', long, value_enum)]
    pub view: Option<View>,
    /// Order of the active view.
    #[arg(short = 'S', long, value_enum, default_value_t = Sort::WaitTime)]
    pub sort: Sort,
    /// Output [default: tui on a terminal, else text].
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,
    /// Seconds per interval.
    #[arg(short, long, value_name = "SEC", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub interval: Option<u32>,
    /// Stop after this many seconds.
    #[arg(short, long, value_name = "SEC", value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// Print this many intervals, then stop.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// Up to three windows side by side (or below each other), increasing, the first equal to the interval: 5s,1m,5m.
    #[arg(short, long, value_name = "W1,W2,W3")]
    pub window: Option<String>,
    /// Totals since the start instead of the interval's.
    #[arg(long, conflicts_with = "window")]
    pub cumulative: bool,
    /// Only this wait event, as Class:Event or CPU* (a histogram without it is of all waits that are load).
    #[arg(short, long, value_name = "NAME")]
    pub event: Option<String>,
    /// Only this backend; session_event lists all, and its events below.
    #[arg(short = 'P', long, value_name = "PID")]
    pub pid_filter: Option<i32>,
    /// Only this query (signed, unsigned or 0x hexadecimal).
    #[arg(short = 'Q', long, value_name = "ID", allow_hyphen_values = true)]
    pub query_id: Option<String>,
    /// Only rows that match, for example: class=Lock user=app,web db!=test
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// How waits are seen [default: tiered].
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// What a window opened in the full screen is.
    #[arg(long, value_enum, default_value_t = WindowTier::Exact)]
    pub window_tier: WindowTier,
    /// Close an exact or blocking window that costs the server more than this, per cent of one core; it is tried again later.
    #[arg(long, value_name = "PERCENT", default_value_t = MAX_OVERHEAD, value_parser = percent)]
    pub max_overhead: f64,
    /// In exact and blocking windows, record waits alone: no queries, no executions, no states (so no CPU* of client backends).
    #[arg(long)]
    pub lightweight: bool,
    /// In exact and blocking windows, record no query ids.
    #[arg(long)]
    pub skip_query_id: bool,
    /// Samples per second, 1 to 10000 [default: 100 when memory is mapped, else 10].
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sample_rate: Option<u32>,
    /// How to read the server's memory.
    #[arg(long, value_enum, default_value_t = Access::Auto)]
    pub access: Access,
    /// Play a scenario file instead of watching a server: no root, no PostgreSQL.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "sample_rate", "access"])]
    pub script: Option<PathBuf>,
    /// Colours: dark, light, high-contrast, ansi16, mono, or a theme file.
    #[arg(long, value_name = "THEME")]
    pub theme: Option<String>,
    /// When to use colour.
    #[arg(long, value_enum)]
    pub color: Option<Color>,
    /// Time zone of what is shown, for example Europe/Berlin or UTC [default: local].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
    /// Serve metrics for Prometheus on this address over HTTP, without any login: :9187 is 127.0.0.1:9187.
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics_listen: Option<String>,
    /// Only ASCII characters in the full-screen picture.
    #[arg(long)]
    pub ascii: bool,
    /// Leave the mouse to the terminal.
    #[arg(long)]
    pub no_mouse: bool,
    /// Say on stderr which server is watched, and how.
    #[arg(short, long)]
    pub verbose: bool,
    /// Windows that open by themselves.
    #[command(flatten)]
    pub escalation: escalation::Escalation,
    /// Recordings.
    #[command(flatten)]
    pub recording: Recording,
}

impl Live {
    /// How waits are seen: as said, else tiered.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Tiered)
    }

    /// The view asked for, else the time model.
    pub fn view(&self) -> View {
        self.view.unwrap_or(View::TimeModel)
    }
}

/// Default of `--max-overhead`.
pub const MAX_OVERHEAD: f64 = 25.0;

fn percent(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|p: &f64| *p > 0.0 && p.is_finite()).ok_or_else(|| "not a number above 0".into())
}

/// Recording into a directory, and looking at one.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Recordings")]
pub struct Recording {
    /// Record into this directory; with --replay and tui, look at it.
    #[arg(short = 'T', long, value_name = "DIR")]
    pub trace_dir: Option<PathBuf>,
    /// Record without a screen until stopped (SIGTERM); with --view also print. SIGHUP begins another file.
    #[arg(long, requires = "trace_dir", conflicts_with_all = ["duration", "count", "replay"])]
    pub daemon: bool,
    /// Look at the recording in -T DIR: no root, no PostgreSQL. Prints one table of the whole stretch, or one per --interval.
    #[arg(long, requires = "trace_dir", conflicts_with_all = ["script", "cumulative"])]
    pub replay: bool,
    /// Beginning of what is looked at: 14:02, 2026-11-29 14:02:03, 10m (ago) [default: the beginning].
    #[arg(long, value_name = "TIME", requires = "trace_dir")]
    pub from: Option<String>,
    /// End of what is looked at [default: the newest].
    #[arg(long, value_name = "TIME", requires = "trace_dir")]
    pub to: Option<String>,
    /// Remove recordings older than this many hours; 0 keeps all.
    #[arg(short = 'R', long, value_name = "HOURS", default_value_t = 24)]
    pub trace_retention: u64,
    /// Remove the oldest recordings when all together are larger than this many GiB (0.5 is half of one); 0 keeps all.
    #[arg(long, value_name = "GIB", default_value_t = 0.0, value_parser = gibibytes)]
    pub retention_gb: f64,
    /// Group that may read recordings [default: dba, if there is such a group].
    #[arg(long, value_name = "GROUP", requires = "trace_dir")]
    pub trace_group: Option<String>,
}

fn gibibytes(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|g: &f64| *g >= 0.0 && g.is_finite()).ok_or_else(|| "not a number, 0 or more".into())
}

/// Flags of the dump.
#[derive(Debug, Clone, Args)]
pub struct Dump {
    /// Trace directory.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Beginning of what is looked at: 14:02, 2026-11-29 14:02:03, 10m (ago) [default: the beginning].
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End of what is looked at [default: the newest].
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Only rows that match, for example: class=Lock user=app,web db!=test
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// text, or json: an object per line.
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,
    /// Time zone of what is shown, for example Europe/Berlin or UTC [default: local].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
}

/// Flags of the control command.
#[derive(Debug, Clone, Args)]
pub struct Ctl {
    /// Trace directory of the recorder.
    #[arg(short = 'T', long, value_name = "DIR")]
    pub trace_dir: PathBuf,
    /// What is wanted.
    #[arg(value_enum)]
    pub what: Wanted,
    /// Length of the window, for escalate [default: 60].
    #[arg(value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,
    /// text, or json: the answer as it came.
    #[arg(short, long, value_enum, default_value_t = Answer::Text)]
    pub format: Answer,
}

/// What a recorder can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// How it stands: mode, server, window, budget.
    Status,
    /// What it has counted.
    Metrics,
    /// Its whole account of itself.
    Health,
    /// All metrics as Prometheus reads them.
    Prometheus,
    /// Open an exact window, or let the open one last so long from now.
    Escalate,
    /// Close the window.
    Deescalate,
}

/// How its answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Answer {
    /// For people.
    Text,
    /// A line of JSON.
    Json,
}

/// Flags of the demo.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// Flags of the picture.
    #[command(flatten)]
    pub live: Live,
}

/// Views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum View {
    /// DB Time by class and event.
    TimeModel,
    /// Wait events.
    SystemEvent,
    /// Sessions.
    SessionEvent,
    /// Queries and their events.
    QueryEvent,
    /// How long waits were. Exact and blocking windows only.
    Histogram,
    /// What followed what. Exact and blocking windows only.
    Flow,
    /// What each session is doing now.
    Active,
}

/// Orders of the active view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Sort {
    /// Longest current wait first.
    WaitTime,
    /// Most DB Time first.
    DbTime,
    /// By process id.
    Pid,
    /// By event name.
    Event,
}

/// Outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Full screen.
    Tui,
    /// Tables.
    Text,
    /// One JSON object per line and interval.
    Json,
    /// A header line, then rows.
    Csv,
}

/// Capture tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Point observations of every backend, read from shared memory. Nothing is attached to the server, ever.
    Sampled,
    /// Sampled, with exact windows that open by themselves when something is wrong, and on demand.
    Tiered,
    /// Exact all the time: every wait with its true length, by hardware watchpoints. Costs the server a trap per transition.
    Full,
    /// Blocking all the time: every wait that leaves the CPU with its true length. Cheap.
    Blocking,
    /// Not in this program.
    #[value(hide = true)]
    Coop,
}

/// Tiers a window can be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WindowTier {
    /// Every wait, at a trap per transition.
    Exact,
    /// Every wait that leaves the CPU. Cheap.
    Blocking,
}

/// Ways to the server's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Access {
    /// Mapped when allowed, else by system calls.
    Auto,
    /// Mapped, or not at all.
    Map,
    /// By system calls.
    Readv,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
