//! The mean of some rounds of one measurement, and how sure it is.

use super::Estimate;

/// The fewest rounds that tell how far they scatter.
pub(super) const FEWEST: usize = 4;

/// Student's t for 95 % with 1, 2 ... 30 degrees of freedom; beyond, the normal distribution's 1.96 is near enough.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The mean of rounds that are alike and independent, with the interval that holds the truth 95 times in 100. `None` where
/// there are too few. No end is below 0.
#[allow(clippy::cast_precision_loss, reason = "some hundred rounds at most")]
pub(super) fn mean(rounds: &[f64]) -> Option<Estimate> {
    if rounds.len() < FEWEST {
        return None;
    }
    let count = rounds.len() as f64;
    let mean = rounds.iter().sum::<f64>() / count;
    let squares: f64 = rounds.iter().map(|round| (round - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0) / count).sqrt();
    let reach = deviation * STUDENT.get(rounds.len() - 2).copied().unwrap_or(1.96);
    Some(Estimate {
        value: mean,
        low: (mean - reach).max(0.0),
        high: mean + reach,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        assert_eq!(mean(&[1.0, 2.0, 3.0]), None);
        let found = mean(&[9.0, 11.0, 10.0, 10.0]).unwrap();
        assert!((found.value - 10.0).abs() < 1e-9);
        // The standard error is sqrt(2/3)/2.
        assert!((found.high - 11.299).abs() < 1e-3, "{found:?}");
        assert_eq!(mean(&[2.0; 5]), Some(Estimate::exact(2.0)));
    }
}
