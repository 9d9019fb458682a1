//! The columns of the table of processes.

use std::cmp::Ordering;

use clap::ValueEnum;
use mega_core::bytes;

use super::{Row, bytes_or_blank, cpu_time, descending};
use crate::share::{percent, share};

/// A column, by which the table can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    /// The command's name
    Name,
    /// The pid
    Pid,
    /// The selection that the process belongs to
    Group,
    /// All that it has resident
    Resident,
    /// The share of its memory that huge pages map
    Huge,
    /// The share of its memory that giant pages map
    Giant,
    /// What the policy still wants huge pages for
    Wanted,
    /// CPU time that huge pages saved it, as far as its gain was measured
    Saved,
    /// Zero-filled memory in huge pages, as far as it was counted
    Bloat,
    /// What demotions gave back
    GivenBack,
    /// The last failure
    Failure,
}

impl Column {
    /// Every column, in the order in which they are shown.
    pub(crate) const ALL: [Column; 11] = [
        Column::Name,
        Column::Pid,
        Column::Group,
        Column::Resident,
        Column::Huge,
        Column::Giant,
        Column::Wanted,
        Column::Saved,
        Column::Bloat,
        Column::GivenBack,
        Column::Failure,
    ];

    /// Its heading.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Column::Name => "process",
            Column::Pid => "pid",
            Column::Group => "group",
            Column::Resident => "resident",
            Column::Huge => "huge",
            Column::Giant => "giant",
            Column::Wanted => "wanted",
            Column::Saved => "saved",
            Column::Bloat => "bloat",
            Column::GivenBack => "given back",
            Column::Failure => "last failure",
        }
    }

    /// Whether it holds words, which are read from the left, and no numbers.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Column::Name | Column::Group | Column::Failure)
    }

    /// What it shows of a process.
    pub(crate) fn cell(self, row: &Row) -> String {
        match self {
            Column::Name => printable(&row.name),
            Column::Pid => row.pid.to_string(),
            Column::Group => row.group.clone(),
            Column::Resident => bytes::format(row.resident),
            Column::Huge => percent(row.coverage()),
            Column::Giant => match row.observed.giant {
                0 => String::new(),
                giant => percent(share(giant, row.observed.mapped)),
            },
            Column::Wanted => bytes_or_blank(row.tally.wanted),
            Column::Saved => row
                .saved
                .map_or_else(String::new, |saved| cpu_time(saved.value)),
            Column::Bloat => row.observed.bloat.map_or_else(String::new, bytes::format),
            Column::GivenBack => bytes_or_blank(row.tally.bytes_given_back),
            Column::Failure => printable(&row.failure_in_words()),
        }
    }

    /// Names and pids ascend; of all else the most comes first, and what is not known last.
    pub(super) fn compare(self, a: &Row, b: &Row) -> Ordering {
        let most = |value: fn(&Row) -> u64| value(b).cmp(&value(a));
        match self {
            Column::Name => a.name.cmp(&b.name),
            Column::Pid => a.pid.cmp(&b.pid),
            Column::Group => a.group.cmp(&b.group),
            Column::Resident => most(|row| row.resident),
            Column::Huge => descending(a.coverage(), b.coverage()),
            Column::Giant => most(|row| row.observed.giant),
            Column::Wanted => most(|row| row.tally.wanted),
            Column::Saved => {
                let saved = |row: &Row| row.saved.map(|saved| saved.value);
                descending(saved(a), saved(b))
            }
            Column::Bloat => descending(a.observed.bloat, b.observed.bloat),
            Column::GivenBack => most(|row| row.tally.bytes_given_back),
            Column::Failure => descending(latest_failure(a), latest_failure(b)),
        }
    }
}

/// A program chooses its name; what would move a terminal's cursor does not get there.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// The later a failure was, the larger.
fn latest_failure(row: &Row) -> Option<(bool, i128)> {
    if row.refused.is_some() {
        return Some((true, 0));
    }
    let failure = row.tally.last_failure.as_ref()?;
    Some((false, -i128::from(failure.steps_ago)))
}
