//! `mega promote` and `mega demote`: one action by hand, verified.

use std::process::ExitCode;
use std::sync::Arc;

use mega_core::{Action, ActionKind, Machine, RegionRef};
use mega_lab::bytes;
use mega_linux::kernel::LiveKernel;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, TrackerKind, process};

use crate::cli::Act;
use crate::exit::Failure;
use crate::output;
use crate::report::{ActionReport, VERSION, causes_in_words};

/// Regions acted on between two looks at the progress: 128 MiB.
const BATCH: usize = 64;

pub(super) fn run(args: &Act, kind: ActionKind) -> Result<ExitCode, Failure> {
    let process = process::identify(&LiveKernel, args.pid)?;
    // Accesses do not matter here, and this tracker costs nothing to start.
    let options = HostOptions {
        dry_run: args.dry_run,
        tracker: Some(TrackerKind::Mapped),
    };
    let host = Arc::new(Host::open(options)?);
    let mut machine = LinuxMachine::new(
        host,
        MachineOptions {
            lock_bound: args.lock_bound,
        },
    );
    machine.set_targets(vec![process]);
    let regions = machine.eligible_regions(process, args.range.clone())?;
    let actions: Vec<Action> = regions
        .into_iter()
        .map(|region| Action {
            kind,
            target: RegionRef { process, region },
        })
        .collect();
    let report = act(
        &mut machine,
        &actions,
        ActionReport::new(VERSION, args.pid, kind),
    );
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&in_words(&report))?;
    }
    Ok(if report.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn act(machine: &mut LinuxMachine, actions: &[Action], mut report: ActionReport) -> ActionReport {
    let progress = output::progress(verb(report.action), actions.len() as u64);
    for batch in actions.chunks(BATCH) {
        for outcome in machine.act(batch) {
            report.record(outcome);
        }
        progress.inc(batch.len() as u64);
    }
    progress.finish_and_clear();
    report
}

fn verb(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Promote | ActionKind::PromoteGiant => "promoting",
        ActionKind::Demote | ActionKind::DemoteGiant => "demoting",
    }
}

fn in_words(report: &ActionReport) -> String {
    let (done, so) = match report.action {
        ActionKind::Promote => ("promoted", "huge"),
        ActionKind::Demote => ("demoted", "base pages"),
        ActionKind::PromoteGiant => ("promoted", "giant"),
        ActionKind::DemoteGiant => ("demoted", "huge pages"),
    };
    let mut parts = vec![
        format!("{} {done}", report.done),
        format!("{} {so} already", report.already_so),
    ];
    if report.not_tried > 0 {
        parts.push(format!("{} would be {done} (dry run)", report.not_tried));
    }
    let failed: u64 = report.failures.values().sum();
    if failed > 0 {
        parts.push(format!(
            "{failed} failed ({})",
            causes_in_words(&report.failures)
        ));
    }
    let mut text = format!(
        "process {}: {} regions: {}\n",
        report.pid,
        report.regions,
        parts.join(", ")
    );
    if report.done > 0 {
        text += &format!(
            "resident in the {done} regions: {} before, {} after\n",
            bytes::format(report.resident_before),
            bytes::format(report.resident_after)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::{Cause, Outcome};

    #[test]
    fn failures_are_told_by_cause() {
        let mut report = ActionReport::new(VERSION, 7, ActionKind::Promote);
        report.record(Outcome::Done {
            resident_before: 4096,
            resident_after: 2 << 20,
        });
        report.record(Outcome::Failed(Cause::NoMemory));
        report.record(Outcome::NotTried);
        assert_eq!(
            in_words(&report),
            "process 7: 3 regions: 1 promoted, 0 huge already, 1 would be promoted (dry run), 1 failed (1 no memory)\nresident in the promoted regions: 4 KiB before, 2 MiB after\n"
        );
    }
}
