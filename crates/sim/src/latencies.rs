//! How long things took: how many took how long, exactly.

use std::collections::BTreeMap;

/// Counts by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: BTreeMap<u64, u64>,
}

impl Latencies {
    /// One more that took `cycles`.
    pub fn record(&mut self, cycles: u64) {
        self.record_many(cycles, 1);
    }

    /// So many more that took `cycles` each.
    pub fn record_many(&mut self, cycles: u64, count: u64) {
        if count > 0 {
            *self.counts.entry(cycles).or_default() += count;
        }
    }

    /// Adds what was recorded elsewhere.
    pub fn merge(&mut self, other: &Latencies) {
        for (&cycles, &count) in &other.counts {
            *self.counts.entry(cycles).or_default() += count;
        }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The cycles of all together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts
            .iter()
            .map(|(cycles, count)| cycles * count)
            .sum()
    }

    /// The mean, in cycles; 0 where there were none.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.total() as f64 / count as f64,
        }
    }

    /// What so many of a thousand stay at or below, in cycles; 0 where there were none.
    #[must_use]
    pub fn per_mille(&self, of_thousand: u64) -> u64 {
        let wanted = (self.count() * of_thousand).div_ceil(1000);
        let mut seen = 0;
        for (&cycles, &count) in &self.counts {
            seen += count;
            if seen >= wanted {
                return cycles;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.per_mille(500), latencies.count()), (0, 0));
        for cycles in (1..=1000).rev() {
            latencies.record(cycles);
        }
        for at in [1, 500, 990, 999, 1000] {
            assert_eq!(latencies.per_mille(at), at);
        }
        assert_eq!(latencies.mean(), 500.5);
    }
}
