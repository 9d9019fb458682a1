//! What a few measurements say together.

use mega_core::worth::Estimate;

/// The middle one, or 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    median_with_interval(values).value
}

/// The median, and the interval that holds the true median some 95 times in 100, whatever the distribution: between the order
/// statistics that lie sqrt(n) away from the middle. Of nine values those are the second and the eighth (96 %).
pub(super) fn median_with_interval(values: &[f64]) -> Estimate {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return Estimate::default();
    };
    let middle = last / 2;
    let value = (sorted[middle] + sorted[last - middle]) / 2.0;
    let away = sorted.len().isqrt();
    Estimate::within(
        value,
        sorted[middle.saturating_sub(away)],
        sorted[(last - middle + away).min(last)],
    )
}

/// The mean, and the interval that holds the true mean some 95 times in 100; not below 0.
pub(super) fn mean_of_costs(values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    if values.len() < 2 {
        return Estimate::exact(values.first().copied().unwrap_or(0.0));
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let reach = 2.0 * (variance / count).sqrt();
    Estimate::within(mean, (mean - reach).max(0.0), mean + reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_nine_lies_between_the_second_and_the_eighth() {
        let values = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        let found = median_with_interval(&values);
        assert_eq!((found.value, found.low, found.high), (5.0, 2.0, 8.0));
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[]), 0.0);
    }

    proptest::proptest! {
        #[test]
        fn intervals_hold_their_value(values in proptest::collection::vec(0.0..1e6_f64, 1..30)) {
            for found in [median_with_interval(&values), mean_of_costs(&values)] {
                proptest::prop_assert!(found.low <= found.value && found.value <= found.high);
                proptest::prop_assert!(found.low >= 0.0);
            }
        }
    }
}
