//! `mega status`: what every running manager sees and does.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use mega_core::bytes;

use crate::cli::Status;
use crate::control;
use crate::exit::Failure;
use crate::output::{self, Table, bytes_or_dash};
use crate::report::{GroupStatus, ManagerStatus, Mode, RefusedReport, StatusReport, VERSION};
use crate::value::format_duration;

pub(super) fn run(args: &Status) -> Result<ExitCode, Failure> {
    let (managers, failures) = control::ask_everyone()?;
    for failure in &failures {
        output::say(failure);
    }
    if args.json {
        output::print_json(&StatusReport {
            version: VERSION,
            managers: managers.clone(),
        })?;
    } else {
        let sections: Vec<String> = managers.iter().map(in_words).collect();
        output::print(&sections.join("\n"))?;
    }
    if managers.is_empty() {
        let line = "no `mega daemon` and no `mega run` is running".to_owned();
        return Err(Failure::Failed(line));
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(status: &ManagerStatus) -> String {
    let mut text = match &status.mode {
        Mode::Run { command } => format!("mega run, pid {}: {}\n", status.pid, command.join(" ")),
        Mode::Daemon { config } => {
            format!("mega daemon, pid {}: {}\n", status.pid, config.display())
        }
    };
    let dry_run = if status.dry_run { ", dry run" } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "  up {}, tracker {}{dry_run}, manager CPU {:.2} s ({:.2} % of one core), memory {}",
        seconds(status.uptime_seconds),
        status.tracker,
        status.manager.cpu_seconds,
        status.manager.cpu_share * 100.0,
        bytes::format(status.manager.resident)
    );
    if let Some(fault) = &status.fault {
        let _ = writeln!(text, "  faults ({}) take {}", fault.mode, fault.by);
    }
    for group in &status.groups {
        text += &group_in_words(group);
    }
    text
}

fn group_in_words(group: &GroupStatus) -> String {
    let actions = &group.actions;
    let mut text = format!(
        "  {}: policy {}, {} promoted, {} demoted, {} copied, {} given back\n",
        group.name,
        group.policy,
        actions.promoted,
        actions.demoted,
        bytes::format(actions.bytes_copied),
        bytes::format(actions.bytes_given_back)
    );
    if let Some(giant) = actions.giant_in_words() {
        let _ = writeln!(text, "    {giant}");
    }
    for line in actions.failures.in_words() {
        let _ = writeln!(text, "    {line}");
    }
    if group.longest_hold_seconds > 0.0 {
        let _ = writeln!(
            text,
            "    held an mmap lock for {} at most (bound {})",
            seconds(group.longest_hold_seconds),
            seconds(group.lock_bound_seconds)
        );
    }
    if let Some(error) = &group.last_error {
        let _ = writeln!(text, "    the latest step failed: {error}");
    }
    for RefusedReport { pid, name, why } in &group.refused {
        let _ = writeln!(text, "    not managed: {name} (pid {pid}): {why}");
    }
    if group.processes.is_empty() {
        return text + "    no process\n";
    }
    let mut headings = vec![
        "process", "pid", "regions", "mapped", "accessed", "huge", "bloat",
    ];
    if group.totals.giant > 0 {
        headings.push("giant");
    }
    let mut table = Table::new(&headings);
    for process in &group.processes {
        let observed = &process.observed;
        let mut row = vec![
            process.name.clone(),
            process.pid.to_string(),
            observed.regions.to_string(),
            bytes::format(observed.mapped),
            bytes_or_dash(observed.accessed),
            bytes::format(observed.huge),
            bytes_or_dash(observed.bloat),
        ];
        if group.totals.giant > 0 {
            row.push(bytes::format(observed.giant));
        }
        table.row(row);
    }
    for line in table.to_string().lines() {
        let _ = writeln!(text, "    {line}");
    }
    for process in &group.processes {
        for (reason, bytes) in &process.not_eligible {
            let _ = writeln!(
                text,
                "    {}: {} left alone: {}{}",
                process.pid,
                bytes::format(*bytes),
                reason.replace('_', " "),
                match reason.starts_with("misaligned") {
                    true => format!(" (`mega scan {}` says what to do)", process.pid),
                    false => String::new(),
                }
            );
        }
    }
    text
}

/// A time from a manager's answer, in words.
fn seconds(seconds: f64) -> String {
    // Another version of mega may answer anything.
    format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
