//! How fast a run went over its time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One stretch of a run, in which it worked in one way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Seconds from `ready` to its start.
    pub from: f64,
    /// Seconds from `ready` to its end.
    pub to: f64,
    /// Operations per second in it.
    pub rate: f64,
}

/// Stretches in order, maybe with gaps, in which the run did something else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rates(pub Vec<Stretch>);

impl Rates {
    /// Adds what was done between two times since `ready`; nothing where no time passed.
    pub(super) fn push(&mut self, from: Duration, to: Duration, operations: u64) {
        if to > from {
            self.0.push(Stretch {
                from: from.as_secs_f64(),
                to: to.as_secs_f64(),
                rate: rate(operations, to - from),
            });
        }
    }

    /// Operations per second over the entries that lie wholly in a stretch of time, in seconds; `None` where none does.
    #[must_use]
    pub fn between(&self, from: f64, to: f64) -> Option<f64> {
        let inside = |stretch: &&Stretch| stretch.from >= from && stretch.to <= to;
        let (mut seconds, mut operations) = (0.0, 0.0);
        for stretch in self.0.iter().filter(inside) {
            let length = stretch.to - stretch.from;
            seconds += length;
            operations += stretch.rate * length;
        }
        (seconds > 0.0).then(|| operations / seconds)
    }

    /// Operations per second in the slowest whole second from `from` to `to`, in seconds since `ready`; `None` where no second has any.
    #[must_use]
    pub fn slowest_second(&self, from: f64, to: f64) -> Option<f64> {
        std::iter::successors(Some(from), |from| Some(from + 1.0))
            .take_while(|from| from + 1.0 <= to)
            .filter_map(|from| self.between(from, from + 1.0))
            .min_by(f64::total_cmp)
    }

    /// Operations per second over the stretches that begin at `from` seconds since `ready` or later, or over the last
    /// one where none does. `None` where there is none at all.
    #[must_use]
    pub fn since(&self, from: f64) -> Option<f64> {
        let last = self.0.last()?;
        let (mut seconds, mut operations) = (0.0, 0.0);
        for stretch in self.0.iter().filter(|stretch| stretch.from >= from) {
            let length = stretch.to - stretch.from;
            seconds += length;
            operations += stretch.rate * length;
        }
        Some(if seconds > 0.0 {
            operations / seconds
        } else {
            last.rate
        })
    }
}

/// Operations per second; 0 for no time at all.
#[allow(clippy::cast_precision_loss)]
pub(super) fn rate(operations: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    operations as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_counts_by_its_own_length() {
        let at = Duration::from_secs;
        let mut rates = Rates::default();
        assert_eq!(rates.since(0.0), None);
        rates.push(at(0), at(1), 10);
        rates.push(at(1), at(1), 99);
        // In between it did something else.
        rates.push(at(4), at(5), 20);
        rates.push(at(6), at(8), 100);
        let near = |from, expected: f64| {
            let found = rates.since(from).unwrap();
            assert!((found - expected).abs() < 1e-9, "{from}: {found}");
        };
        near(0.0, 32.5);
        near(0.5, 40.0);
        near(5.5, 50.0);
        // None begins so late.
        near(7.0, 50.0);
        assert_eq!(rates.between(0.0, 5.0), Some(15.0));
        assert_eq!(rates.between(0.5, 4.5), None);
    }
}
