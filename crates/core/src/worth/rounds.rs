//! The ratio that some rounds of one measurement tell, and how sure it is.

use super::Estimate;

/// The fewest rounds that tell how far they scatter.
const FEWEST: usize = 4;

/// Student's t for 95 % with 1, 2 ... 30 degrees of freedom; beyond, the normal distribution's 1.96 is near enough.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// What one round found: something done, and the time that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Round {
    pub(super) done: f64,
    pub(super) time: f64,
}

/// What is done in a unit of time, by rounds that are alike and independent, with the interval that holds the truth 95 times
/// in 100. Rounds with more time count for more. `None` where there are too few, or no time passed. No end is below 0.
#[allow(clippy::cast_precision_loss, reason = "some hundred rounds at most")]
pub(super) fn ratio(rounds: &[Round]) -> Option<Estimate> {
    let count = rounds.len() as f64;
    let time = rounds.iter().map(|round| round.time).sum::<f64>() / count;
    if rounds.len() < FEWEST || time <= 0.0 {
        return None;
    }
    let ratio = rounds.iter().map(|round| round.done).sum::<f64>() / count / time;
    let squares: f64 = rounds
        .iter()
        .map(|round| (round.done - ratio * round.time).powi(2))
        .sum();
    let deviation = (squares / (count - 1.0) / count).sqrt() / time;
    let reach = deviation * STUDENT.get(rounds.len() - 2).copied().unwrap_or(1.96);
    Some(Estimate {
        value: ratio,
        low: (ratio - reach).max(0.0),
        high: ratio + reach,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rounds: &[(f64, f64)]) -> Option<Estimate> {
        let rounds: Vec<Round> = rounds
            .iter()
            .map(|(done, time)| Round {
                done: *done,
                time: *time,
            })
            .collect();
        ratio(&rounds)
    }

    #[test]
    fn the_interval_is_students() {
        assert_eq!(found(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]), None);
        assert_eq!(found(&[(0.0, 0.0); 9]), None);
        let mean = found(&[(9.0, 1.0), (11.0, 1.0), (10.0, 1.0), (10.0, 1.0)]).unwrap();
        assert!((mean.value - 10.0).abs() < 1e-9);
        // The standard error is sqrt(2/3)/2.
        assert!((mean.high - 11.299).abs() < 1e-3, "{mean:?}");
    }

    #[test]
    fn a_round_in_which_little_time_was_used_is_no_scatter() {
        let mean = found(&[(20.0, 2.0), (1.0, 0.1), (10.0, 1.0), (0.0, 0.0)]).unwrap();
        assert!((mean.value - 10.0).abs() < 1e-9);
        assert!(mean.high - mean.low < 1e-9);
    }
}
