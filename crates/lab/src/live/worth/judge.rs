//! Whether the predictions are good enough.

use serde::{Deserialize, Serialize};

/// A prediction, and the truth about it, both as shares of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) predicted: f64,
    pub(super) measured: f64,
}

/// One bar, and whether it was met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bar {
    pub(super) bar: String,
    pub(super) found: String,
    pub(super) met: bool,
}

/// How far a prediction may be off, in points of CPU time, most of the time and ever.
const NEAR: f64 = 0.05;
const FARTHEST: f64 = 0.12;
/// How many of ten are to be near.
const NEAR_OF_TEN: usize = 9;
const RANKS: f64 = 0.95;
/// A program that gains less than the first is never to be said to gain more than the second.
const NOTHING: f64 = 0.02;
const SOMETHING: f64 = 0.05;

/// All bars.
pub(super) fn judge(pairs: &[Pair]) -> Vec<Bar> {
    let off = |pair: &Pair| (pair.predicted - pair.measured).abs();
    let near = pairs.iter().filter(|pair| off(pair) <= NEAR).count();
    let farthest = pairs.iter().map(off).fold(0.0, f64::max);
    let ranks = rank_correlation(pairs);
    let false_hopes = pairs
        .iter()
        .filter(|pair| pair.measured < NOTHING && pair.predicted > SOMETHING)
        .count();
    let bar = |bar: &str, found: String, met| Bar {
        bar: bar.to_owned(),
        found,
        met,
    };
    vec![
        bar(
            "9 of 10 within 5 points",
            format!("{near} of {}", pairs.len()),
            10 * near >= NEAR_OF_TEN * pairs.len(),
        ),
        bar(
            "none off by more than 12 points",
            format!("{:.1} points at most", 100.0 * farthest),
            farthest <= FARTHEST,
        ),
        bar(
            "rank correlation at least 0.95",
            ranks.map_or_else(
                || "too few programs".to_owned(),
                |ranks| format!("{ranks:.3}"),
            ),
            ranks.is_some_and(|ranks| ranks >= RANKS),
        ),
        bar(
            "none that gains under 2 % is said to gain over 5 %",
            format!("{false_hopes} are"),
            false_hopes == 0,
        ),
    ]
}

/// Spearman's: the correlation of the ranks; `None` where all are alike or there are fewer than two.
fn rank_correlation(pairs: &[Pair]) -> Option<f64> {
    let predicted: Vec<f64> = pairs.iter().map(|pair| pair.predicted).collect();
    let measured: Vec<f64> = pairs.iter().map(|pair| pair.measured).collect();
    correlation(&ranks(&predicted), &ranks(&measured))
}

/// The place of each in ascending order; the same mean place for those that are alike.
#[allow(clippy::cast_precision_loss)]
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let alike = values.iter().filter(|other| *other == value).count();
        below as f64 + (alike as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[allow(clippy::cast_precision_loss)]
fn correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let count = one.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (mean_one, mean_other) = (mean(one), mean(other));
    let products = one.iter().zip(other);
    let together: f64 = products
        .map(|(x, y)| (x - mean_one) * (y - mean_other))
        .sum();
    let spread = |values: &[f64], mean: f64| {
        values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
    };
    let whole = (spread(one, mean_one) * spread(other, mean_other)).sqrt();
    (whole > 0.0).then(|| together / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(shares: &[(f64, f64)]) -> Vec<Pair> {
        let pair = |&(predicted, measured): &(f64, f64)| Pair {
            predicted,
            measured,
        };
        shares.iter().map(pair).collect()
    }

    #[test]
    fn good_predictions_meet_all_bars() {
        let met = judge(&pairs(&[(0.3, 0.32), (0.0, 0.01), (0.1, 0.06)]));
        assert!(met.iter().all(|bar| bar.met), "{met:?}");
    }

    #[test]
    fn each_bar_can_be_missed() {
        let missed = |shares: &[(f64, f64)]| -> Vec<bool> {
            judge(&pairs(shares)).iter().map(|bar| !bar.met).collect()
        };
        assert_eq!(
            missed(&[(0.3, 0.2), (0.0, 0.01)]),
            [true, false, false, false]
        );
        assert_eq!(
            missed(&[(0.4, 0.2), (0.0, 0.01)]),
            [true, true, false, false]
        );
        assert_eq!(
            missed(&[(0.04, 0.03), (0.03, 0.04)]),
            [false, false, true, false]
        );
        assert_eq!(
            missed(&[(0.055, 0.01), (0.5, 0.5)]),
            [false, false, false, true]
        );
        assert_eq!(missed(&[]), [false, false, true, false]);
    }

    #[test]
    fn ranks_of_like_values_are_shared() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let same_order = pairs(&[(0.1, 0.2), (0.2, 0.3), (0.3, 0.9)]);
        assert!((rank_correlation(&same_order).unwrap() - 1.0).abs() < 1e-9);
        let reversed = pairs(&[(0.1, 0.9), (0.2, 0.3), (0.3, 0.2)]);
        assert!((rank_correlation(&reversed).unwrap() + 1.0).abs() < 1e-9);
    }
}
