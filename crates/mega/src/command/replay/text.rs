//! What policies would have done, in words.

use mega_core::ActionKind;
use mega_core::bytes;
use mega_core::table::Table;

use super::over_time;
use crate::report::{PolicyReplay, ReplayReport};
use crate::share::{percent, share};

/// A table of the policies, and what is to be known to believe it.
pub(super) fn in_words(report: &ReplayReport) -> String {
    let recording = &report.recording;
    let mut text = format!(
        "{}: {}, on Linux {}, seen by the tracker {}: {} looks over {:.0} s\n\n",
        recording.file.display(),
        recording.subject,
        recording.kernel,
        recording.tracker,
        recording.looks,
        recording.seconds
    );
    text += &table(report).to_string();
    text += &over_time::tables(report);
    for note in notes(report) {
        text += &format!("\n{note}\n");
    }
    text
}

fn table(report: &ReplayReport) -> Table {
    let mut columns = vec![
        "policy",
        "huge",
        "in the end",
        "resident",
        "growth",
        "copied",
        "promoted",
        "demoted",
        "failed",
        "CPU",
        "contiguous",
    ];
    if report.simulated {
        columns.extend(["giant", "moved"]);
    }
    if report.processor.is_some() {
        columns.push("translation");
    }
    let mut table = Table::new(&columns);
    let recording = &report.recording;
    let last = report.policies.first().map(|policy| policy.last);
    let end = last.and_then(|last| share(last.recorded_huge, last.recorded));
    let mut recorded = vec![
        "as recorded".to_owned(),
        percent(recording.coverage),
        percent(end),
        bytes::format(recording.resident),
        percent(recording.coverage.map(|_| 0.0)),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        bytes::format(recording.contiguity),
    ];
    if report.simulated {
        recorded.extend(["-", "-"].map(str::to_owned));
    }
    if report.processor.is_some() {
        let first = report.policies.first();
        let taken = first.and_then(|policy| policy.translation);
        recorded.push(time(taken.map(|taken| taken.recorded_seconds)));
    }
    table.row(recorded);
    for policy in &report.policies {
        let mut row = row(policy);
        if report.simulated {
            let last = policy.last;
            row.extend([
                percent(share(last.giant, last.resident)),
                bytes::format(last.moved),
            ]);
        }
        if report.processor.is_some() {
            row.push(time(policy.translation.map(|taken| taken.seconds)));
        }
        table.row(row);
    }
    table
}

fn row(policy: &PolicyReplay) -> Vec<String> {
    let actions = &policy.actions;
    let failed = actions.failures.count();
    vec![
        policy.policy.clone(),
        percent(policy.coverage),
        percent(share(policy.last.huge, policy.last.resident)),
        bytes::format(policy.last.resident),
        percent(policy.growth.map(|growth| growth - 1.0)),
        bytes::format(actions.bytes_copied),
        actions.done[ActionKind::Promote].to_string(),
        actions.done[ActionKind::Demote].to_string(),
        failed.to_string(),
        format!("{:.2} s", policy.cpu_seconds),
        bytes::format(policy.last.contiguity),
    ]
}

/// A time in seconds, or that it is not known.
fn time(seconds: Option<f64>) -> String {
    seconds.map_or("?".to_owned(), |seconds| format!("{seconds:.2} s"))
}

/// What is to be known to believe the time of translation.
fn of_translation(report: &ReplayReport) -> Option<String> {
    let processor = report.processor?;
    let first = report.policies.first()?.translation;
    Some(match first {
        Some(taken) => format!(
            "`translation` is the time in which a core of {processor}, {}, would have translated the addresses of {:.3} million touches, counted in {:.1} s of the program's CPU time: hits of the L2 TLB and page walks. They are taken to go to any page that it used, one waiting for the other. What huge pages mapped as it was recorded is not in it. `CPU` is by what is known of machines with that processor.",
            report.host_pages.map_or_else(
                || "on the machine itself".to_owned(),
                |size| {
                    let size = bytes::format(size.bytes());
                    format!("in a guest whose memory the host maps by pages of {size}")
                }
            ),
            taken.touches / 1e6,
            taken.program_cpu_seconds
        ),
        None => "Nobody measured its touches when it was recorded: what translating its addresses takes is not known.".to_owned(),
    })
}

/// What is to be known to believe the table.
fn notes(report: &ReplayReport) -> Vec<String> {
    let recording = &report.recording;
    let mut notes = vec![
        "`huge` and `growth` of the first table are means over time: the part of resident memory in huge pages, and what is resident beyond the recording. `contiguous` is what is free in blocks in the end."
            .to_owned(),
        "A replay is an open loop: the program does what it did when it was recorded. One that huge pages make faster would have done more."
            .to_owned(),
    ];
    if report.simulated {
        notes.push("Simulated: `giant` is the part of resident memory in giant pages in the end; `moved` is what compaction moved for promotions. Which pages of a region were used is not recorded, only how many: the first are taken to be. What others had in use at the first look stays so, lies where it makes the fragmentation asked for, and can be moved.".to_owned());
    }
    if recording.coverage.is_some_and(|coverage| coverage > 0.0) {
        notes.push(format!(
            "Blind: {} of its memory was in huge pages as it was recorded. Which of their base pages it used is not known, and not guessed.",
            percent(recording.coverage)
        ));
    }
    notes.extend(of_translation(report));
    if recording.exchanged > 0 {
        notes.push(format!(
            "Exchanged: a manager had the host exchange {} for giant pages as it was recorded, instead of a copy. A replay has no host: it copies.",
            bytes::format(recording.exchanged)
        ));
    }
    if let Some(host) = recording.host_page {
        notes.push(format!(
            "It was recorded in a guest: page sizes are the guest's, {}.",
            host.in_words()
        ));
    }
    if recording.tracker == "damon" {
        notes.push("It was made of a record of damo's. DAMON does not say what is mapped, nor by which pages: all of its regions are taken to be, by base pages. Nor does it say what memory is free: without --memory nothing is, and no promotion succeeds.".to_owned());
    }
    if recording.tracker == "mapped" {
        notes.push("Its tracker saw no accesses: policies that ask for them do little.".to_owned());
    }
    if recording.missed > 0 {
        notes.push(format!(
            "{} more looks were due when it was recorded, and missed.",
            recording.missed
        ));
    }
    let merged: Vec<&str> = report
        .policies
        .iter()
        .filter(|policy| policy.merged > 0)
        .map(|policy| policy.policy.as_str())
        .collect();
    if !merged.is_empty() {
        notes.push(format!(
            "Longer intervals than the recording's ({}): what was accessed in several looks together is the least that it can be.",
            merged.join(", ")
        ));
    }
    notes.extend(
        recording
            .broken
            .iter()
            .map(|how| format!("Of the file, {how}.")),
    );
    notes
}
