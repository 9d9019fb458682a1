//! What huge pages saved, from the windows of one program.

use mega_core::worth::Estimate;
use serde::{Deserialize, Serialize};

use crate::statistics::median;

/// Half the width of the interval that holds the mean of a normal distribution 95 times in 100, in standard errors, by
/// degrees of freedom from 1 on (Student's t).
const STUDENT: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];

/// What a program did in one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Whether its memory was to be huge.
    pub(super) huge: bool,
    pub(super) operations_per_second: f64,
    pub(super) cpu_ns_per_operation: f64,
    /// The share of its resident memory that was in huge pages.
    pub(super) huge_share: f64,
}

/// The share of CPU time saved: each window with huge pages against the mean of those with base pages beside it. `None` where
/// there is no such pair, or a program did nothing.
pub(super) fn saved(windows: &[Measured]) -> Option<Estimate> {
    let pairs: Vec<f64> = windows
        .windows(3)
        .filter(|three| !three[0].huge && three[1].huge && !three[2].huge)
        .map(|three| {
            let base = f64::midpoint(three[0].cpu_ns_per_operation, three[2].cpu_ns_per_operation);
            1.0 - three[1].cpu_ns_per_operation / base
        })
        .collect();
    middle(&pairs)
}

/// The median, which a second in which the machine did something else does not move, in the interval of the mean, which it widens; that
/// is all numbers where there is but one.
#[allow(clippy::cast_precision_loss)]
fn middle(values: &[f64]) -> Option<Estimate> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let median = median(values)?;
    let Some(freedom) = values.len().checked_sub(2) else {
        return Some(Estimate::within(median, median - 1.0, median + 1.0));
    };
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let reach = error * STUDENT.get(freedom).copied().unwrap_or(2.2);
    Some(Estimate::within(median, mean - reach, mean + reach))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(huge: bool, cpu_ns_per_operation: f64) -> Measured {
        Measured {
            huge,
            operations_per_second: 1e9 / cpu_ns_per_operation,
            cpu_ns_per_operation,
            huge_share: f64::from(u8::from(huge)),
        }
    }

    #[test]
    fn a_machine_that_gets_steadily_slower_changes_nothing() {
        let times = [100.0, 66.0, 120.0, 78.0, 140.0];
        let windows: Vec<Measured> = (0..)
            .zip(times)
            .map(|(turn, ns)| window(turn % 2 == 1, ns))
            .collect();
        let saved = saved(&windows).unwrap();
        assert!(
            (saved.value - 0.4).abs() < 1e-9 && saved.low > 0.39 && saved.high < 0.41,
            "{saved:?}"
        );
    }

    #[test]
    fn one_bad_window_moves_the_interval_and_not_the_value() {
        let times = [100.0, 70.0, 100.0, 70.0, 100.0, 190.0, 100.0];
        let windows: Vec<Measured> = (0..)
            .zip(times)
            .map(|(turn, ns)| window(turn % 2 == 1, ns))
            .collect();
        let saved = saved(&windows).unwrap();
        assert!((saved.value - 0.3).abs() < 1e-9, "{saved:?}");
        assert!(saved.low < -0.9 && saved.high > 0.3, "{saved:?}");
    }

    #[test]
    fn one_pair_says_little_and_none_nothing() {
        assert_eq!(saved(&[window(false, 1.0), window(true, 1.0)]), None);
        let one = saved(&[window(false, 2.0), window(true, 1.0), window(false, 2.0)]).unwrap();
        assert_eq!((one.value, one.low, one.high), (0.5, -0.5, 1.5));
        let still = Measured {
            cpu_ns_per_operation: f64::INFINITY,
            ..window(true, 1.0)
        };
        assert_eq!(
            saved(&[window(false, 2.0), still, window(false, 2.0)]),
            None
        );
    }
}
