//! How values went over time, as far as somebody looked.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::sample::Sample;
use super::state::Key;
use crate::processes::Row;
use crate::share::share;

/// Points that are kept of each series: ten minutes of two seconds each.
pub(super) const POINTS: usize = 300;
/// Processes whose series are kept: those with the most resident, and those that have a series.
const PROCESSES: usize = 256;

/// Values over time, oldest first.
pub(crate) type Series = VecDeque<f64>;

/// Adds a value, and forgets the oldest where there are enough.
fn push(series: &mut Series, value: f64) {
    if series.len() == POINTS {
        series.pop_front();
    }
    series.push_back(value);
}

/// What of a process is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessHistory {
    /// The share of its memory in huge pages, 0 to 1.
    pub(crate) coverage: Series,
    /// Bytes that promotions copied, each second.
    pub(crate) copied: Series,
    /// The sum at the last sample, and its time.
    last_copied: Option<(u64, u64)>,
}

/// How values went over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// Memory pressure, 0 to 1.
    pub(crate) pressure: Series,
    /// The part of all processes' memory in huge pages, 0 to 1.
    pub(crate) coverage: Series,
    /// CPU time of all managers, of one core.
    pub(crate) cpu: Series,
    /// The sum at the last sample, and its time.
    last_cpu: Option<(f64, u64)>,
    /// By manager and pid. A list, because a key of JSON is a string.
    #[serde(with = "as_list")]
    pub(crate) processes: BTreeMap<Key, ProcessHistory>,
}

impl History {
    /// Adds a sample. `rows` are all its processes.
    pub(crate) fn add(&mut self, sample: &Sample, rows: &[Row]) {
        if let Some(pressure) = sample.pressure {
            push(&mut self.pressure, pressure.some);
        }
        let sum = |value: fn(&Row) -> u64| rows.iter().map(value).sum();
        let (huge, mapped) = (sum(|row| row.observed.huge), sum(|row| row.observed.mapped));
        if let Some(coverage) = share(huge, mapped) {
            push(&mut self.coverage, coverage);
        }
        self.add_cpu(sample);
        self.add_processes(sample.time, rows);
    }

    fn add_cpu(&mut self, sample: &Sample) {
        if self.last_cpu.is_some_and(|(_, then)| then == sample.time) {
            return;
        }
        let managers = sample.managers.iter();
        let cpu: f64 = managers.map(|manager| manager.manager.cpu_seconds).sum();
        if let Some((before, then)) = self.last_cpu
            && sample.time > then
        {
            push(
                &mut self.cpu,
                (cpu - before).max(0.0) / seconds(sample.time - then),
            );
        }
        self.last_cpu = Some((cpu, sample.time));
    }

    fn add_processes(&mut self, time: u64, rows: &[Row]) {
        let mut largest: Vec<&Row> = rows.iter().filter(|row| row.refused.is_none()).collect();
        largest.sort_by_key(|row| {
            let is_known = self.processes.contains_key(&Key::of(row));
            std::cmp::Reverse((is_known, row.resident))
        });
        largest.truncate(PROCESSES);
        let mut before = std::mem::take(&mut self.processes);
        for row in largest {
            let key = Key::of(row);
            let mut history = before.remove(&key).unwrap_or_default();
            history.add(time, row);
            self.processes.insert(key, history);
        }
    }
}

impl ProcessHistory {
    fn add(&mut self, time: u64, row: &Row) {
        if let Some(coverage) = row.coverage() {
            push(&mut self.coverage, coverage);
        }
        if self.last_copied.is_some_and(|(_, then)| then == time) {
            return;
        }
        let copied = row.tally.bytes_copied;
        if let Some((before, then)) = self.last_copied
            && time > then
        {
            let rate = bytes(copied.saturating_sub(before)) / seconds(time - then);
            push(&mut self.copied, rate);
        }
        self.last_copied = Some((copied, time));
    }
}

#[allow(clippy::cast_precision_loss, reason = "it is drawn with eight levels")]
fn seconds(seconds: u64) -> f64 {
    seconds as f64
}

#[allow(clippy::cast_precision_loss, reason = "it is drawn with eight levels")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

/// A map as a list of its entries.
mod as_list {
    use super::{BTreeMap, Key, ProcessHistory};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<Key, ProcessHistory>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Key, ProcessHistory>, D::Error> {
        let entries = Vec::<(Key, ProcessHistory)>::deserialize(deserializer)?;
        Ok(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::tests::row;

    fn sample(time: u64) -> Sample {
        Sample {
            time,
            pressure: None,
            managers: Vec::new(),
            detail: None,
            troubles: Vec::new(),
        }
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let mut history = History::default();
        let mut one = row(7, "x", 100, 50);
        history.add(&sample(10), std::slice::from_ref(&one));
        one.tally.bytes_copied = 600;
        history.add(&sample(12), std::slice::from_ref(&one));
        // A manager that started anew.
        one.tally.bytes_copied = 100;
        history.add(&sample(14), std::slice::from_ref(&one));
        let known = &history.processes[&Key::of(&one)];
        assert_eq!(known.copied, [300.0, 0.0]);
        assert_eq!(known.coverage, [0.5, 0.5, 0.5]);
        history.add(&sample(16), &[]);
        assert!(history.processes.is_empty(), "it has ended");
    }

    #[test]
    fn no_series_grows_without_bound() {
        let mut history = History::default();
        let rows: Vec<Row> = (0..1000).map(|pid| row(pid, "x", 1 << 20, 0)).collect();
        for time in 0..POINTS as u64 + 50 {
            history.add(&sample(time), &rows);
        }
        assert_eq!(history.processes.len(), PROCESSES);
        assert_eq!(history.coverage.len(), POINTS);
    }
}
