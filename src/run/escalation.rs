//! Flags of windows that open by themselves, as settings of the machine that opens them.

use super::Usage;
use crate::capture::anomaly::{self, Cpu};
use crate::capture::budget::Allowance;
use crate::capture::escalation::Settings;
use crate::cli::escalation::{Budget, Escalation};
use crate::trace::clock::SECOND;
use anyhow::Result;

/// The settings, or what does not go together.
pub fn settings(flags: &Escalation) -> Result<Settings> {
    let f = flags;
    let base = Settings::default();
    let cpu = base.rules.cpu;
    let ns = |s: u32| u64::from(s) * SECOND;
    let settings = Settings {
        budget: match f.escalation_budget {
            None => base.budget,
            Some(Budget::Unlimited) => Allowance::Unlimited,
            Some(Budget::Seconds(s)) => Allowance::Ns((s * SECOND as f64) as u64),
        },
        window: f.anomaly_window_s.map_or(base.window, ns),
        cores: f.anomaly_cpu_capacity,
        rules: anomaly::Settings {
            aas_factor: f.anomaly_aas_factor.unwrap_or(base.rules.aas_factor),
            aas_ticks: f.anomaly_aas_ticks.unwrap_or(base.rules.aas_ticks),
            lock_fraction: f.anomaly_lock_fraction.unwrap_or(base.rules.lock_fraction),
            lock_min_aas: f.anomaly_lock_min_aas.unwrap_or(base.rules.lock_min_aas),
            cooldown: f.anomaly_cooldown_s.map_or(base.rules.cooldown, ns),
            cpu: Cpu {
                on: !f.anomaly_cpu_cusum_disable,
                k: f.anomaly_cpu_cusum_k.unwrap_or(cpu.k),
                margin: f.anomaly_cpu_margin.unwrap_or(cpu.margin),
                h: f.anomaly_cpu_cusum_h.unwrap_or(cpu.h),
                cap: f.anomaly_cpu_cusum_cap.unwrap_or(cpu.cap),
                min_aas: f.anomaly_cpu_min_aas.unwrap_or(cpu.min_aas),
                gap_s: f.anomaly_cpu_coverage_gap_s.unwrap_or(cpu.gap_s),
            },
        },
    };
    if settings.rules.aas_factor > 0.0 && settings.rules.aas_factor < 1.0 {
        let text = format!(
            "--anomaly-aas-factor is {}: the usual load itself would be out of the ordinary; make it more than 1, or 0 for no such rule",
            settings.rules.aas_factor
        );
        return Err(Usage(text).into());
    }
    let cpu = settings.rules.cpu;
    if cpu.on && cpu.cap <= cpu.k + cpu.margin {
        let text = format!(
            "--anomaly-cpu-cusum-cap is {}, but evidence adds up only above k and margin together, {:.2}: make it larger",
            cpu.cap,
            cpu.k + cpu.margin
        );
        return Err(Usage(text).into());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    fn of(args: &[&str]) -> Result<Settings, String> {
        let cli = Cli::try_parse_from(["pg_wait_tracer"].iter().chain(args)).map_err(|e| e.to_string())?;
        settings(&cli.live.escalation).map_err(|e| e.to_string())
    }

    #[test]
    fn absent_flags_are_the_defaults_and_each_one_counts() {
        assert_eq!(of(&[]).unwrap(), Settings::default());
        let all = of(&[
            "--escalation-budget=12.5",
            "--anomaly-aas-factor=4",
            "--anomaly-aas-ticks=5",
            "--anomaly-lock-fraction=0.5",
            "--anomaly-lock-min-aas=3",
            "--anomaly-cooldown-s=30",
            "--anomaly-window-s=10",
            "--anomaly-cpu-capacity=1.5",
            "--anomaly-cpu-min-aas=1",
            "--anomaly-cpu-margin=0.1",
            "--anomaly-cpu-cusum-k=0.7",
            "--anomaly-cpu-cusum-h=2",
            "--anomaly-cpu-cusum-cap=2",
            "--anomaly-cpu-coverage-gap-s=4",
            "--anomaly-cpu-cusum-disable",
        ]);
        let cpu = Cpu { on: false, k: 0.7, margin: 0.1, h: 2.0, cap: 2.0, min_aas: 1.0, gap_s: 4.0 };
        let rules = anomaly::Settings { aas_factor: 4.0, aas_ticks: 5, lock_fraction: 0.5, lock_min_aas: 3.0, cooldown: 30 * SECOND, cpu };
        let budget = Allowance::Ns(12_500_000_000);
        assert_eq!(all.unwrap(), Settings { budget, window: 10 * SECOND, rules, cores: Some(1.5) });
    }

    #[test]
    fn budgets_and_what_is_refused() {
        for text in ["unlimited", "UNLIMITED", "-1"] {
            assert_eq!(of(&["--escalation-budget", text]).unwrap().budget, Allowance::Unlimited);
        }
        assert_eq!(of(&["--escalation-budget", "0"]).unwrap().budget, Allowance::Ns(0));
        for (bad, says) in [
            ("--escalation-budget=-2", "0 or more"),
            ("--escalation-budget=soon", "0 or more"),
            ("--escalation-budget=4000", "unlimited"),
            ("--anomaly-aas-factor=-1", "0 or more"),
            ("--anomaly-aas-factor=0.5", "more than 1"),
            ("--anomaly-aas-ticks=0", "0 is not in"),
            ("--anomaly-lock-fraction=1.1", "0 to 1"),
            ("--anomaly-lock-min-aas=0", "above 0"),
            ("--anomaly-window-s=0", "0 is not in"),
            ("--anomaly-cpu-capacity=nan", "above 0"),
            ("--anomaly-cpu-cusum-cap=0.8", "make it larger"),
        ] {
            let error = of(&[bad]).unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
        }
    }
}
