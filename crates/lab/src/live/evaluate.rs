//! From the values of all runs to medians, paired ratios and verdicts.

use super::experiment::{Experiment, PaperFigure};
use super::goal::{Against, Bound, Goal};
use super::metric::{Better, Metric};
use super::mode::Mode;
use super::results::{
    GoalResult, MetricResult, ModeResult, Paper, PaperRow, RunRecord, Spread, Verdict,
};

/// Every metric of the experiment in every mode.
pub(super) fn metrics(
    experiment: &Experiment,
    modes: &[Mode],
    runs: &[RunRecord],
) -> Vec<MetricResult> {
    let told = |metric: &&Metric| runs.iter().any(|run| run.values.get(metric.id).is_some());
    experiment
        .metrics
        .iter()
        .filter(told)
        .map(|metric| metric_result(metric, modes, runs))
        .collect()
}

fn metric_result(metric: &Metric, modes: &[Mode], runs: &[RunRecord]) -> MetricResult {
    let of_mode = |mode: &Mode| {
        Some(ModeResult {
            mode: mode.clone(),
            value: Spread::of(&values(metric.id, mode, runs))?,
            ratio_to_base: (*mode != Mode::Base)
                .then(|| ratio(metric.id, mode, &Mode::Base, runs))
                .flatten(),
        })
    };
    MetricResult {
        id: metric.id.to_owned(),
        title: metric.title.to_owned(),
        unit: metric.unit,
        better: metric.better,
        modes: modes.iter().filter_map(of_mode).collect(),
    }
}

/// What a metric was in a mode, round by round.
fn values(metric: &str, mode: &Mode, runs: &[RunRecord]) -> Vec<f64> {
    runs.iter()
        .filter(|run| run.mode == *mode)
        .filter_map(|run| run.values.get(metric))
        .collect()
}

/// The ratios of two modes in the same round: what drifts from round to round cancels out.
fn ratio(metric: &str, of: &Mode, against: &Mode, runs: &[RunRecord]) -> Option<Spread> {
    let in_round = |round: u32, mode: &Mode| {
        runs.iter()
            .find(|run| run.round == round && run.mode == *mode)
            .and_then(|run| run.values.get(metric))
    };
    let rounds = runs.iter().filter(|run| run.mode == *of);
    let ratios: Vec<f64> = rounds
        .filter_map(|run| {
            let (value, other) = (in_round(run.round, of)?, in_round(run.round, against)?);
            (other != 0.0).then(|| value / other)
        })
        .collect();
    Spread::of(&ratios)
}

/// Every goal of the experiment, and whether it was reached.
pub(super) fn goals(experiment: &Experiment, runs: &[RunRecord]) -> Vec<GoalResult> {
    experiment
        .goals
        .iter()
        .filter_map(|goal| {
            let metric = experiment.metrics.iter().find(|m| m.id == goal.metric)?;
            Some(goal_result(goal, metric, runs))
        })
        .collect()
}

fn goal_result(goal: &Goal, metric: &Metric, runs: &[RunRecord]) -> GoalResult {
    let (against, found) = match goal.against {
        Against::Nothing => (None, Spread::of(&values(metric.id, goal.of, runs))),
        Against::Mode(mode) => (
            Some(mode.to_string()),
            ratio(metric.id, goal.of, mode, runs),
        ),
        Against::BestStatic => match best_static(metric, runs) {
            Some(best) => (
                Some(format!("{best} (the best static mode)")),
                ratio(metric.id, goal.of, &best, runs),
            ),
            None => (Some("the best static mode".to_owned()), None),
        },
    };
    let verdict = match found {
        None => Verdict::NotMeasured,
        Some(found) if goal.bound.holds(found.median) => Verdict::Met,
        Some(_) => Verdict::Missed,
    };
    let agrees = |value: f64| goal.bound.holds(value) == (verdict == Verdict::Met);
    GoalResult {
        metric: metric.id.to_owned(),
        text: text(goal, metric, against.as_deref()),
        is_ratio: goal.against != Against::Nothing,
        found,
        verdict,
        every_round_agrees: found.is_some_and(|found| agrees(found.low) && agrees(found.high)),
    }
}

/// The static mode with the best median.
fn best_static(metric: &Metric, runs: &[RunRecord]) -> Option<Mode> {
    let better = |value: f64, than: f64| match metric.better {
        Better::Lower => value < than,
        Better::Higher | Better::Neither => value > than,
    };
    let mut best: Option<(Mode, f64)> = None;
    for mode in Mode::STATIC {
        let Some(value) = Spread::of(&values(metric.id, &mode, runs)) else {
            continue;
        };
        if best
            .as_ref()
            .is_none_or(|(_, than)| better(value.median, *than))
        {
            best = Some((mode, value.median));
        }
    }
    best.map(|(mode, _)| mode)
}

fn text(goal: &Goal, metric: &Metric, against: Option<&str>) -> String {
    let (word, limit) = match goal.bound {
        Bound::AtMost(limit) => ("at most", limit),
        Bound::AtLeast(limit) => ("at least", limit),
    };
    match against {
        Some(against) => format!("{}: {} {word} {limit}x of {against}", metric.title, goal.of),
        None => format!(
            "{}: {} {word} {}",
            metric.title,
            goal.of,
            metric.unit.write(limit)
        ),
    }
}

/// A paper's figure as results hold it.
pub(super) fn paper(figure: &PaperFigure) -> Paper {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Paper {
        source: figure.source.to_owned(),
        systems: own(figure.systems),
        rows: figure
            .rows
            .iter()
            .map(|(name, values)| PaperRow {
                name: (*name).to_owned(),
                values: own(values),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::goal::MEGA;
    use crate::live::metric::{OPERATIONS, RESIDENT, Sample};

    fn runs(values: &[(u32, Mode, f64)]) -> Vec<RunRecord> {
        values
            .iter()
            .map(|(round, mode, value)| RunRecord {
                round: *round,
                mode: mode.clone(),
                values: Sample::default().with(OPERATIONS, *value),
            })
            .collect()
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let runs = runs(&[
            (1, Mode::Base, 10.0),
            (1, Mode::Thp, 20.0),
            (2, Mode::Thp, 2.2),
            (2, Mode::Base, 1.0),
            (3, Mode::Thp, 99.0),
        ]);
        let found = ratio(OPERATIONS.id, &Mode::Thp, &Mode::Base, &runs).unwrap();
        assert!((found.low - 2.0).abs() < 1e-9 && (found.high - 2.2).abs() < 1e-9);
        assert_eq!(ratio(OPERATIONS.id, MEGA, &Mode::Base, &runs), None);
    }

    #[test]
    fn a_goal_is_held_against_the_best_static_mode() {
        let runs = runs(&[
            (1, Mode::Base, 10.0),
            (1, Mode::Thp, 20.0),
            (1, Mode::Khugepaged, 15.0),
            (1, MEGA.clone(), 19.0),
        ]);
        let goal = Goal::best_static(OPERATIONS.id, Bound::AtLeast(0.97));
        let result = goal_result(&goal, &OPERATIONS, &runs);
        assert_eq!(result.verdict, Verdict::Missed);
        assert!(result.every_round_agrees);
        assert_eq!(
            result.text,
            "operations per second: mega:adaptive at least 0.97x of thp (the best static mode)"
        );
        let none = goal_result(&goal, &RESIDENT, &runs);
        assert_eq!(none.verdict, Verdict::NotMeasured);
    }

    #[test]
    fn rounds_on_both_sides_of_the_bound_are_told() {
        let runs = runs(&[
            (1, Mode::Base, 10.0),
            (1, MEGA.clone(), 9.0),
            (2, Mode::Base, 10.0),
            (2, MEGA.clone(), 11.0),
            (3, Mode::Base, 10.0),
            (3, MEGA.clone(), 10.0),
        ]);
        let goal = Goal::ratio(OPERATIONS.id, &Mode::Base, Bound::AtLeast(0.97));
        let result = goal_result(&goal, &OPERATIONS, &runs);
        assert_eq!(result.verdict, Verdict::Met);
        assert!(!result.every_round_agrees);
    }
}
