//! What an experiment measures: its quantities and the values of one run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use mega_core::bytes;

/// Which way a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Higher,
    Lower,
    /// It says what happened, not how well.
    Neither,
}

impl Better {
    /// In words; nothing for [`Better::Neither`].
    pub(crate) fn words(self) -> &'static str {
        match self {
            Better::Higher => "more is better",
            Better::Lower => "less is better",
            Better::Neither => "",
        }
    }
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    PerSecond,
    Bytes,
    Nanoseconds,
    Seconds,
    /// A part of one; of one core where it is CPU time.
    Share,
    Count,
}

/// One quantity that an experiment measures in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// What machines call it: a key of [`Sample`], in snake case.
    pub(crate) id: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

impl Metric {
    pub(crate) const fn new(
        id: &'static str,
        title: &'static str,
        unit: Unit,
        better: Better,
    ) -> Self {
        Metric {
            id,
            title,
            unit,
            better,
        }
    }

    /// A time that is better the shorter it is.
    pub(crate) const fn latency(id: &'static str, title: &'static str) -> Self {
        Metric::new(id, title, Unit::Nanoseconds, Better::Lower)
    }
}

/// Metrics that several experiments share.
pub(crate) const OPERATIONS: Metric = Metric::new(
    "operations_per_second",
    "operations per second",
    Unit::PerSecond,
    Better::Higher,
);
/// Resident memory of the program when its run ended.
pub(crate) const RESIDENT: Metric = Metric::new(
    "resident_bytes",
    "resident memory",
    Unit::Bytes,
    Better::Lower,
);
/// Of it in huge pages.
pub(crate) const HUGE: Metric = Metric::new(
    "huge_bytes",
    "of it in huge pages",
    Unit::Bytes,
    Better::Neither,
);
/// CPU time of the manager over the program's run; 0 in the modes without one.
pub(crate) const MANAGER_CPU: Metric = Metric::new(
    "manager_cpu_share",
    "CPU used by the manager, of one core",
    Unit::Share,
    Better::Lower,
);

/// The values of one run, by the metric's id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sample(pub(crate) BTreeMap<String, f64>);

impl Sample {
    /// This, with one more value.
    pub(crate) fn with(mut self, metric: Metric, value: f64) -> Self {
        self.0.insert(metric.id.to_owned(), value);
        self
    }

    /// The value of a metric, if this run has one.
    pub(crate) fn get(&self, id: &str) -> Option<f64> {
        self.0.get(id).copied()
    }
}

impl Unit {
    /// A value as people read it.
    // Byte counts and nanoseconds are whole and far below 2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn write(self, value: f64) -> String {
        match self {
            Unit::PerSecond => format!("{}/s", scaled(value)),
            Unit::Bytes => bytes::format(value.max(0.0) as u64),
            Unit::Nanoseconds if value >= 1e6 => format!("{:.2} ms", value / 1e6),
            Unit::Nanoseconds if value >= 1e3 => format!("{:.2} us", value / 1e3),
            Unit::Nanoseconds => format!("{value:.0} ns"),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Share => format!("{:.2} %", value * 100.0),
            Unit::Count => scaled(value),
        }
    }
}

/// With a factor of a thousand or a million where that is shorter.
fn scaled(value: f64) -> String {
    match value.abs() {
        1e6.. => format!("{:.2} M", value / 1e6),
        1e4.. => format!("{:.1} k", value / 1e3),
        100.0.. => format!("{value:.0}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_short() {
        assert_eq!(Unit::PerSecond.write(12_345_678.0), "12.35 M/s");
        assert_eq!(Unit::PerSecond.write(12_345.0), "12.3 k/s");
        assert_eq!(Unit::Nanoseconds.write(1234.0), "1.23 us");
        assert_eq!(Unit::Share.write(0.0123), "1.23 %");
        assert_eq!(Unit::Bytes.write(f64::from(3 << 20)), "3 MiB");
        assert_eq!(Unit::Count.write(0.0), "0");
        assert_eq!(Unit::Count.write(512.0), "512");
    }
}
