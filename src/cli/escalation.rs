//! Flags of windows that open by themselves. Each is absent unless said, so that one without effect is noticed.

use clap::Args;

/// Budget and rules, as typed.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Windows that open by themselves (--mode tiered)")]
pub struct Escalation {
    /// Seconds that exact windows may be open in any hour, by hand too: 0 for none, or unlimited [default: 300].
    #[arg(long, value_name = "SEC|unlimited", value_parser = budget, allow_hyphen_values = true)]
    pub escalation_budget: Option<Budget>,
    /// Open one when the load is this many times the usual; 0 turns the rule off [default: 3.0].
    #[arg(long, value_name = "X", value_parser = not_negative)]
    pub anomaly_aas_factor: Option<f64>,
    /// For so many observations (tenths of a second) in a row [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_000))]
    pub anomaly_aas_ticks: Option<u32>,
    /// Open one when more than this share of the active sessions waits for locks; 0 turns the rule off [default: 0.30].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub anomaly_lock_fraction: Option<f64>,
    /// And at least so many do [default: 2.0].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub anomaly_lock_min_aas: Option<f64>,
    /// No rule opens another one for so long after the last began [default: 120].
    #[arg(long, value_name = "SEC", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub anomaly_cooldown_s: Option<u32>,
    /// How long such a window is open, as far as the budget allows [default: 60].
    #[arg(long, value_name = "SEC", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub anomaly_window_s: Option<u32>,
    /// Cores the server can have [default: by its affinity and control group].
    #[arg(long, value_name = "CORES", value_parser = positive)]
    pub anomaly_cpu_capacity: Option<f64>,
    /// Open one for too little CPU only when so many sessions are without a wait [default: 2.0].
    #[arg(long, value_name = "N", value_parser = not_negative)]
    pub anomaly_cpu_min_aas: Option<f64>,
    /// Added to k where the capacity is a number of CPUs that others may use too [default: 0.02].
    #[arg(long, value_name = "SHARE", value_parser = not_negative)]
    pub anomaly_cpu_margin: Option<f64>,
    /// Demand for CPU over capacity from which on evidence of too little of it adds up [default: 0.80].
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    pub anomaly_cpu_cusum_k: Option<f64>,
    /// Evidence at which a window opens, seconds of overload [default: 1.5].
    #[arg(long, value_name = "SEC", value_parser = positive)]
    pub anomaly_cpu_cusum_h: Option<f64>,
    /// Demand over capacity that counts at most [default: 1.25].
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    pub anomaly_cpu_cusum_cap: Option<f64>,
    /// The evidence is void after so long without trusted observations [default: 2.0].
    #[arg(long, value_name = "SEC", value_parser = positive)]
    pub anomaly_cpu_coverage_gap_s: Option<f64>,
    /// No window for too little CPU.
    #[arg(long)]
    pub anomaly_cpu_cusum_disable: bool,
}

/// What exact windows may be open in an hour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Seconds.
    Seconds(f64),
    /// No limit.
    Unlimited,
}

/// More is the whole hour.
const HOUR_S: f64 = 3_600.0;

fn budget(text: &str) -> Result<Budget, String> {
    if text.eq_ignore_ascii_case("unlimited") || text == "-1" {
        return Ok(Budget::Unlimited);
    }
    match text.parse::<f64>() {
        Ok(s) if (0.0..=HOUR_S).contains(&s) => Ok(Budget::Seconds(s)),
        Ok(s) if s > HOUR_S => Err("an hour has 3600 seconds: say unlimited for no limit".into()),
        _ => Err("not a number of seconds, 0 or more, and not unlimited".into()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| *x >= 0.0 && x.is_finite()).ok_or_else(|| "not a number, 0 or more".into())
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| *x > 0.0 && x.is_finite()).ok_or_else(|| "not a number above 0".into())
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| (0.0..=1.0).contains(x)).ok_or_else(|| "not a share from 0 to 1".into())
}
