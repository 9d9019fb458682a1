//! `mega status --processes`: a table of all processes, and what of their memory is left alone.

use std::fmt::Write;

use mega_core::bytes;
use mega_core::table::Table;

use crate::processes::{self, Column};
use crate::report::gain::seconds;
use crate::report::{ManagerStatus, ProcessReport, folios_in_words, sizes_in_words};

pub(super) fn in_words(managers: &[ManagerStatus], sort: Column, limit: Option<usize>) -> String {
    let mut rows = processes::rows(managers);
    processes::sort(&mut rows, sort, false);
    let headings: Vec<&str> = Column::ALL.iter().map(|column| column.heading()).collect();
    let mut table = Table::new(&headings);
    let shown = limit.unwrap_or(rows.len()).min(rows.len());
    for row in &rows[..shown] {
        table.row(Column::ALL.iter().map(|column| column.cell(row)));
    }
    let mut text = table.to_string();
    if shown < rows.len() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} more (--limit)", rows.len() - shown);
    }
    for row in &rows[..shown] {
        let found = managers
            .iter()
            .filter(|manager| manager.pid == row.manager)
            .flat_map(|manager| &manager.groups)
            .flat_map(|group| &group.processes)
            .find(|process| process.pid == row.pid);
        if let Some(process) = found {
            text += &sizes_of(process);
            text += &larger_folios_of(process);
            text += &gain_in_words(process);
            text += &left_alone_in_words(process);
        }
    }
    let host_page = managers.iter().find_map(|manager| manager.host_page);
    if let Some(sizes) = sizes_in_words(host_page, false) {
        let _ = writeln!(text, "{sizes}");
    }
    text
}

/// Whose page sizes those of a process are, where that is a question. That the machine is a guest is told once for all.
fn sizes_of(process: &ProcessReport) -> String {
    sizes_in_words(None, process.runs_guest).map_or_else(String::new, |sizes| {
        format!("{} ({}): {sizes}\n", process.name, process.pid)
    })
}

fn larger_folios_of(process: &ProcessReport) -> String {
    let folios = process.larger_folios.as_deref().and_then(folios_in_words);
    folios.map_or_else(String::new, |folios| {
        format!(
            "{} ({}): base page table entries map some {folios} (folios larger than a base page)\n",
            process.name, process.pid
        )
    })
}

fn gain_in_words(process: &ProcessReport) -> String {
    process.gain.map_or_else(String::new, |gain| {
        format!(
            "{} ({}): huge pages save {} (measured {} ago)\n",
            process.name,
            process.pid,
            gain.in_words(),
            seconds(gain.seconds_ago)
        )
    })
}

fn left_alone_in_words(process: &ProcessReport) -> String {
    let mut text = String::new();
    for (reason, bytes) in &process.not_eligible {
        let _ = writeln!(
            text,
            "{} ({}): {} left alone: {}{}",
            process.name,
            process.pid,
            bytes::format(*bytes),
            reason.replace('_', " "),
            match reason.starts_with("misaligned") {
                true => format!(" (`mega scan {}` says what to do)", process.pid),
                false => String::new(),
            }
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::status::summary::tests::daemon;

    #[test]
    fn what_a_process_gains_is_told_below_the_table() {
        let mut daemon = daemon();
        daemon.groups[0].processes[0].gain = Some(crate::report::GainReport {
            saved_share: mega_core::worth::Estimate::within(0.31, 0.27, 0.35),
            cpu_share: 1.0,
            cost_cpu_seconds: 4.1,
            payback_seconds: Some(13.0),
            seconds_ago: 12.3,
        });
        let text = in_words(&[daemon], Column::Resident, None);
        let told = "redis-server (4711): huge pages save 31 % (27 to 35 %) of its CPU time, for 4.1 s of CPU, paid back in 13 s (measured 12 s ago)";
        assert!(text.lines().any(|line| line == told), "{text}");
        assert!(!text.contains("java (4712): huge"), "{text}");
    }

    #[test]
    fn larger_folios_are_told_where_there_are_some() {
        let mut daemon = daemon();
        let folios = |size, mapped| crate::report::FolioReport { size, mapped };
        daemon.groups[0].processes[0].larger_folios =
            Some(vec![folios(16 << 10, 8 << 20), folios(64 << 10, 1 << 30)]);
        daemon.groups[0].processes[1].larger_folios = Some(Vec::new());
        let text = in_words(&[daemon], Column::Resident, None);
        let told = "redis-server (4711): base page table entries map some 8 MiB of 16 KiB, 1 GiB of 64 KiB (folios larger than a base page)";
        assert!(text.lines().any(|line| line == told), "{text}");
        assert!(!text.contains("java (4712): base"), "{text}");
    }

    #[test]
    fn whose_the_page_sizes_are_is_told() {
        let mut daemon = daemon();
        let none = in_words(&[daemon.clone()], Column::Resident, None);
        assert!(!none.contains("page sizes"), "{none}");
        daemon.groups[0].processes[0].runs_guest = true;
        daemon.host_page = Some(crate::report::HostPage::Unknown);
        let text = in_words(&[daemon], Column::Resident, None);
        let host =
            "redis-server (4711): page sizes are the host's behind a guest's memory, guest unknown";
        for line in [host, "page sizes are this guest's, host unknown"] {
            assert!(text.lines().any(|told| told == line), "{text}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_cut() {
        let text = in_words(&[daemon()], Column::Resident, Some(1));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("process"), "{text}");
        assert!(lines[1].starts_with("redis-server"), "{text}");
        assert_eq!(lines[2], "2 more (--limit)");
        assert!(lines[3].contains("left alone: misaligned shared memory"));
        assert!(lines[3].contains("`mega scan 4711`"), "{text}");
        let by_name = in_words(&[daemon()], Column::Name, None);
        let second = by_name.lines().nth(1);
        assert!(
            second.is_some_and(|line| line.starts_with("java")),
            "{by_name}"
        );
    }
}
