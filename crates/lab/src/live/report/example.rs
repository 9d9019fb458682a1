//! Results for the tests of the reports: several modes, one without a metric, and goals of every verdict.

use crate::live::machine::Machine;
use crate::live::metric::{Better, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::results::{
    GoalResult, MetricResult, ModeResult, Paper, PaperRow, Results, RunRecord, Settings, Spread,
    VERSION, Verdict,
};

/// An experiment of three rounds.
pub(super) fn three_rounds() -> Results {
    results(3, [0.97, 1.02, 1.06].to_vec())
}

/// The same with one round.
pub(super) fn one_round() -> Results {
    results(1, vec![1.02])
}

/// The same with a text in every place that takes any.
pub(super) fn with_text(text: &str) -> Results {
    let mut results = three_rounds();
    results.title = text.to_owned();
    results.about = text.to_owned();
    results.machine.cpu = text.to_owned();
    results.machine.kernel = text.to_owned();
    for metric in &mut results.metrics {
        metric.title = text.to_owned();
    }
    for goal in &mut results.goals {
        goal.text = text.to_owned();
    }
    if let Some(paper) = &mut results.paper {
        paper.source = text.to_owned();
        paper.systems = vec![text.to_owned(); 2];
        paper.rows[0].name = text.to_owned();
        paper.rows[0].values = vec![text.to_owned(); 2];
    }
    results
}

fn results(rounds: u32, noisy: Vec<f64>) -> Results {
    let modes = Mode::usual();
    Results {
        version: VERSION,
        experiment: "gups".into(),
        title: "random updates all over a large array".into(),
        about: "Adds random values to random words of one array. Every update misses the TLB with base pages.".into(),
        machine: machine(),
        settings: Settings {
            size_bytes: 512 << 20,
            rounds,
            measured_seconds: 3.0,
            interval_seconds: 0.2,
            in_turns: true,
        },
        metrics: metrics(&modes, &noisy),
        goals: goals(&noisy),
        paper: Some(paper()),
        runs: runs(rounds, &modes),
        modes,
    }
}

fn machine() -> Machine {
    Machine {
        cpu: "Example Processor 9000 @ 3.10GHz".into(),
        cpus: 2,
        memory_bytes: 24 << 30,
        numa_nodes: 1,
        kernel: "6.12.0-example #1 SMP PREEMPT_DYNAMIC".into(),
        system: "Debian GNU/Linux 12 (bookworm)".into(),
        virtual_machine: true,
        thp_mode: "madvise".into(),
        module: false,
        mega: "0.1.0".into(),
        commit: "0123456789abcdef".into(),
        began: "2026-11-21T17:00:00Z".into(),
    }
}

fn metrics(modes: &[Mode], noisy: &[f64]) -> Vec<MetricResult> {
    let of = |modes: &[Mode], values: &[f64], factor: f64| -> Vec<ModeResult> {
        let one = |mode: &Mode| {
            let is_base = *mode == Mode::Base;
            let ratios = if is_base { &[1.0] } else { values };
            let scaled: Vec<f64> = ratios.iter().map(|value| value * factor).collect();
            ModeResult {
                mode: mode.clone(),
                value: Spread::of(&scaled).unwrap(),
                ratio_to_base: Spread::of(ratios).filter(|_| !is_base),
            }
        };
        modes.iter().map(one).collect()
    };
    let metric = |id: &str, title: &str, unit, better, modes| MetricResult {
        id: id.into(),
        title: title.into(),
        unit,
        better,
        modes,
    };
    let memory = f64::from(502 << 20);
    let share = ModeResult {
        mode: Mode::Mega("adaptive"),
        value: Spread::of(&[0.0123]).unwrap(),
        ratio_to_base: None,
    };
    vec![
        metric(
            "operations_per_second",
            "operations per second",
            Unit::PerSecond,
            Better::Higher,
            of(modes, &[1.5], 12e6),
        ),
        metric(
            "resident_bytes",
            "resident memory",
            Unit::Bytes,
            Better::Lower,
            of(modes, noisy, memory),
        ),
        metric(
            "first_touch_p99_9_ns",
            "first touch of a page, 99.9th percentile",
            Unit::Nanoseconds,
            Better::Lower,
            of(&modes[..1], &[1.0], 1000.0),
        ),
        metric(
            "manager_cpu_share",
            "CPU used by the manager, of one core",
            Unit::Share,
            Better::Neither,
            vec![share],
        ),
    ]
}

fn goals(noisy: &[f64]) -> Vec<GoalResult> {
    let goal = |metric: &str, text: &str, found: &[f64], is_ratio, verdict, every_round_agrees| {
        GoalResult {
            metric: metric.into(),
            text: text.into(),
            found: Spread::of(found),
            is_ratio,
            verdict,
            every_round_agrees,
        }
    };
    let touch = "first_touch_p99_9_ns";
    vec![
        goal(
            "operations_per_second",
            "updates: mega:adaptive at least 0.97x of thp",
            &[1.2],
            true,
            Verdict::Met,
            true,
        ),
        goal(
            "resident_bytes",
            "memory: mega:adaptive at most 1x of base",
            noisy,
            true,
            Verdict::Missed,
            false,
        ),
        goal(
            touch,
            "pauses: at most 1 us",
            &[3000.0, 2000.0, 4000.0],
            false,
            Verdict::Missed,
            true,
        ),
        goal(
            touch,
            "pauses: mega:adaptive at most 1x of khugepaged",
            &[],
            true,
            Verdict::NotMeasured,
            false,
        ),
    ]
}

fn paper() -> Paper {
    Paper {
        source: "Example (OSDI 2016), table 3".into(),
        systems: vec!["Linux".into(), "Ingens".into()],
        rows: vec![PaperRow {
            name: "throughput".into(),
            values: vec!["1.00x".into(), "1.18x".into()],
        }],
    }
}

fn runs(rounds: u32, modes: &[Mode]) -> Vec<RunRecord> {
    let values = Sample(
        [
            ("operations_per_second".to_owned(), 12e6),
            ("resident_bytes".to_owned(), 0.5),
        ]
        .into(),
    );
    (1..=rounds)
        .flat_map(|round| modes.iter().map(move |mode| (round, mode.clone())))
        .map(|(round, mode)| RunRecord {
            round,
            mode,
            values: values.clone(),
        })
        .collect()
}
