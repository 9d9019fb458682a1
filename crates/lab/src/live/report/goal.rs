//! A goal in words.

use super::ratio;
use crate::live::metric::Unit;
use crate::live::results::{GoalResult, Results, Verdict};

/// The verdict.
pub(super) fn verdict(goal: &GoalResult) -> &'static str {
    match (goal.verdict, goal.every_round_agrees) {
        (Verdict::Met, true) => "met",
        (Verdict::Met, false) => "met by the median only",
        (Verdict::Missed, true) => "missed",
        (Verdict::Missed, false) => "missed by the median only",
        (Verdict::NotMeasured, _) => "not measured",
    }
}

/// What was found: a ratio, or a value in the metric's unit with the lowest and the highest; `None` where nothing was.
pub(super) fn found(goal: &GoalResult, results: &Results) -> Option<String> {
    let found = goal.found?;
    if goal.is_ratio {
        return Some(ratio::write(found));
    }
    let metric = results
        .metrics
        .iter()
        .find(|metric| metric.id == goal.metric);
    let unit = metric.map_or(Unit::Count, |metric| metric.unit);
    let [median, low, high] = [found.median, found.low, found.high].map(|value| unit.write(value));
    if low == high {
        return Some(median);
    }
    Some(format!("{median}, {low} to {high}"))
}

/// The goal and what was found, without the verdict.
pub(super) fn line(goal: &GoalResult, results: &Results) -> String {
    match found(goal, results) {
        Some(found) => format!("{}; found {found}", goal.text),
        None => goal.text.clone(),
    }
}

/// Goals that were missed, also those that only the median missed.
pub(super) fn missed(results: &Results) -> impl Iterator<Item = &GoalResult> {
    results.goals.iter().filter(|goal| is_missed(goal))
}

/// All others.
pub(super) fn others(results: &Results) -> impl Iterator<Item = &GoalResult> {
    results.goals.iter().filter(|goal| !is_missed(goal))
}

fn is_missed(goal: &GoalResult) -> bool {
    goal.verdict == Verdict::Missed
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_goal_is_told_with_what_was_found() {
        let results = example::three_rounds();
        let lines: Vec<(&str, String)> = results
            .goals
            .iter()
            .map(|goal| (verdict(goal), line(goal, &results)))
            .collect();
        let expected = [
            (
                "met",
                "updates: mega:adaptive at least 0.97x of thp; found 1.20x",
            ),
            (
                "missed by the median only",
                "memory: mega:adaptive at most 1x of base; found ~1.02x, 0.97 to 1.06",
            ),
            (
                "missed",
                "pauses: at most 1 us; found 3.00 us, 2.00 us to 4.00 us",
            ),
            (
                "not measured",
                "pauses: mega:adaptive at most 1x of khugepaged",
            ),
        ];
        for (line, (verdict, text)) in lines.iter().zip(expected) {
            assert_eq!((line.0, line.1.as_str()), (verdict, text));
        }
        assert_eq!(lines.len(), expected.len());
        assert_eq!(missed(&results).count() + others(&results).count(), 4);
    }
}
