//! The processes of all managers as rows of one table, for `mega status --processes` and `mega top`.

mod column;

use std::cmp::Ordering;

use mega_core::bytes;
use mega_core::worth::Estimate;

use crate::report::{LastFailure, ManagerStatus, Observed, ProcessReport, TallyReport};
use crate::share::share;

pub(crate) use column::Column;

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The pid of its manager.
    pub(crate) manager: u32,
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// The selection that it belongs to.
    pub(crate) group: String,
    /// All that it has resident.
    pub(crate) resident: u64,
    pub(crate) observed: Observed,
    pub(crate) tally: TallyReport,
    /// CPU seconds that huge pages saved it; `None` where that is not known.
    pub(crate) saved: Option<Estimate>,
    /// Whether it runs a virtual machine, whose own page sizes are not known here.
    pub(crate) runs_guest: bool,
    /// Why it cannot be observed, if it cannot.
    pub(crate) refused: Option<String>,
}

impl Row {
    /// The share of its memory that huge pages can map that they do map, 0 to 1; giant pages count too. `None` without
    /// such memory.
    pub(crate) fn coverage(&self) -> Option<f64> {
        share(self.observed.huge, self.observed.mapped)
    }

    /// Its last failure in words; empty without one.
    pub(crate) fn failure_in_words(&self) -> String {
        match (&self.refused, &self.tally.last_failure) {
            (Some(why), _) => why.clone(),
            (None, Some(failure)) => failure.in_words(),
            (None, None) => String::new(),
        }
    }
}

impl LastFailure {
    /// As "no memory, 3 steps ago".
    fn in_words(&self) -> String {
        let cause = self.cause.replace('_', " ");
        match self.steps_ago {
            0 => format!("{cause}, now"),
            1 => format!("{cause}, 1 step ago"),
            steps => format!("{cause}, {steps} steps ago"),
        }
    }
}

/// Every process of every manager, and those that could not be observed.
pub(crate) fn rows(managers: &[ManagerStatus]) -> Vec<Row> {
    let mut rows = Vec::new();
    for manager in managers {
        for group in &manager.groups {
            let row = |process: &ProcessReport| Row {
                manager: manager.pid,
                pid: process.pid,
                name: process.name.clone(),
                group: group.name.clone(),
                resident: process.resident,
                observed: process.observed,
                tally: process.tally.clone(),
                saved: process.saved_cpu_seconds,
                runs_guest: process.runs_guest,
                refused: None,
            };
            rows.extend(group.processes.iter().map(row));
            rows.extend(group.refused.iter().map(|refused| Row {
                manager: manager.pid,
                pid: refused.pid,
                name: refused.name.clone(),
                group: group.name.clone(),
                resident: 0,
                observed: Observed::default(),
                tally: TallyReport::default(),
                saved: None,
                runs_guest: false,
                refused: Some(refused.why.clone()),
            }));
        }
    }
    rows
}

/// Sorts by a column, in the direction in which it is mostly read or in the other one. Equal ones come by pid.
pub(crate) fn sort(rows: &mut [Row], column: Column, reversed: bool) {
    rows.sort_by(|a, b| {
        let order = column.compare(a, b);
        let order = if reversed { order.reverse() } else { order };
        order.then_with(|| a.pid.cmp(&b.pid))
    });
}

/// Whether a row is what somebody looks for: its name, its group or its last failure contains the text, whatever the
/// case, or its pid begins with it.
pub(crate) fn matches(row: &Row, text: &str) -> bool {
    let text = text.to_lowercase();
    let contains = |whole: &str| whole.to_lowercase().contains(&text);
    contains(&row.name)
        || contains(&row.group)
        || contains(&row.failure_in_words())
        || row.pid.to_string().starts_with(&text)
}

/// Known values before unknown ones, large before small.
fn descending<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// A number of bytes, short; nothing for none.
fn bytes_or_blank(number: u64) -> String {
    match number {
        0 => String::new(),
        number => bytes::format(number),
    }
}

/// CPU time in at most six characters: "4.1 s", "310 s", "85 min", "12 h".
pub(crate) fn cpu_time(seconds: f64) -> String {
    match seconds {
        ..9.95 => format!("{seconds:.1} s"),
        ..999.5 => format!("{seconds:.0} s"),
        ..35_970.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

/// CPU time with its interval, as "4.1 s (3.0 s to 5.2 s)".
pub(crate) fn cpu_time_within(saved: Estimate) -> String {
    let Estimate { value, low, high } = saved;
    format!(
        "{} ({} to {})",
        cpu_time(value),
        cpu_time(low),
        cpu_time(high)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A process with some memory, a part of it in huge pages.
    pub(crate) fn row(pid: u32, name: &str, mapped: u64, huge: u64) -> Row {
        Row {
            manager: 1,
            pid,
            name: name.to_owned(),
            group: "large".to_owned(),
            resident: mapped,
            observed: Observed {
                regions: mapped >> 21,
                mapped,
                accessed: None,
                huge,
                giant: 0,
                bloat: None,
            },
            tally: TallyReport::default(),
            saved: None,
            runs_guest: false,
            refused: None,
        }
    }

    fn pids(rows: &[Row]) -> Vec<u32> {
        rows.iter().map(|row| row.pid).collect()
    }

    #[test]
    fn each_column_sorts_as_it_is_mostly_read() {
        let mut rows = vec![
            row(3, "b", 100, 50),
            row(1, "c", 300, 30),
            row(2, "a", 200, 200),
        ];
        for (column, expected) in [
            (Column::Pid, [1, 2, 3]),
            (Column::Name, [2, 3, 1]),
            (Column::Resident, [1, 2, 3]),
            (Column::Huge, [2, 3, 1]),
        ] {
            sort(&mut rows, column, false);
            assert_eq!(pids(&rows), expected, "{column:?}");
            sort(&mut rows, column, true);
            let reversed: Vec<u32> = expected.into_iter().rev().collect();
            assert_eq!(pids(&rows), reversed, "{column:?}");
        }
    }

    #[test]
    fn what_is_not_known_comes_last_and_equals_come_by_pid() {
        let mut unknown = row(1, "x", 0, 0);
        unknown.observed.bloat = None;
        let mut some = row(2, "y", 1, 0);
        some.observed.bloat = Some(0);
        let mut rows = vec![unknown.clone(), row(9, "z", 1, 0), some];
        rows[1].observed.bloat = Some(7);
        sort(&mut rows, Column::Bloat, false);
        assert_eq!(pids(&rows), [9, 2, 1]);
        let mut same = vec![row(9, "x", 1, 0), row(4, "x", 1, 0)];
        sort(&mut same, Column::Resident, true);
        assert_eq!(pids(&same), [4, 9]);
    }

    #[test]
    fn a_cpu_time_is_short_and_never_too_long() {
        for (seconds, text) in [
            (0.0, "0.0 s"),
            (4.12, "4.1 s"),
            (310.4, "310 s"),
            (5100.0, "85 min"),
            (43_200.0, "12 h"),
        ] {
            assert_eq!(cpu_time(seconds), text);
        }
        let mut seconds = 0.01;
        while seconds < 3e6 {
            assert!(cpu_time(seconds).len() <= 7, "{}", cpu_time(seconds));
            seconds *= 1.01;
        }
        let saved = Estimate::within(4.1, 3.0, 5.2);
        assert_eq!(cpu_time_within(saved), "4.1 s (3.0 s to 5.2 s)");
    }

    #[test]
    fn text_finds_names_groups_failures_and_pids() {
        let mut row = row(4711, "redis-server", 1, 0);
        row.refused = Some("not permitted".to_owned());
        for text in ["REDIS", "large", "471", "permitted", ""] {
            assert!(matches(&row, text), "{text}");
        }
        for text in ["mysql", "711"] {
            assert!(!matches(&row, text), "{text}");
        }
    }

    #[test]
    fn failures_are_told_with_their_age() {
        let mut row = row(1, "x", 1, 0);
        assert_eq!(row.failure_in_words(), "");
        for (steps_ago, expected) in [
            (0, "no memory, now"),
            (1, "no memory, 1 step ago"),
            (5, "no memory, 5 steps ago"),
        ] {
            row.tally.last_failure = Some(LastFailure {
                action: "promote".to_owned(),
                cause: "no_memory".to_owned(),
                steps_ago,
            });
            assert_eq!(row.failure_in_words(), expected);
        }
    }
}
