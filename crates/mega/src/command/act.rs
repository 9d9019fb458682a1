//! `mega promote` and `mega demote`: one action by hand, verified.

use std::process::ExitCode;
use std::sync::Arc;

use mega_core::bytes;
use mega_core::{
    Action, ActionKind, Cause, Machine, Outcome, PageSize, ProcessId, Region, RegionRef, Span,
};
use mega_linux::act::giant::GiantPages;
use mega_linux::exchanges::Exchanges;
use mega_linux::kernel::LiveKernel;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, TrackerKind, process};

use crate::cli::{Act, Demote, LargePage};
use crate::exit::Failure;
use crate::output;
use crate::report::{
    ActionReport, ExchangeReport, HostPage, VERSION, Words, causes_in_words, sizes_in_words, words,
};

/// Regions acted on between two looks at the progress: 128 MiB.
const BATCH: usize = 64;

pub(super) fn promote(args: &Act) -> Result<ExitCode, Failure> {
    run(
        args,
        match args.page_size {
            LargePage::Huge => ActionKind::Promote,
            LargePage::Giant => ActionKind::PromoteGiant,
        },
    )
}

pub(super) fn demote(args: &Demote) -> Result<ExitCode, Failure> {
    run(
        &args.act,
        match (args.zero_filled, args.act.page_size) {
            (true, _) => ActionKind::FreeZero,
            (false, LargePage::Huge) => ActionKind::Demote,
            (false, LargePage::Giant) => ActionKind::DemoteGiant,
        },
    )
}

fn run(args: &Act, kind: ActionKind) -> Result<ExitCode, Failure> {
    let process = process::identify(&LiveKernel, args.pid)?;
    // Accesses do not matter here, and this tracker starts at no cost.
    let options = HostOptions {
        dry_run: args.dry_run,
        tracker: Some(TrackerKind::Mapped),
    };
    let host = Arc::new(Host::open(options)?);
    let of_spans = kind.page_size() == PageSize::Giant;
    if of_spans {
        // The error says what is missing.
        let giant_pages = GiantPages::open(Arc::clone(host.kernel()))?;
        if kind == ActionKind::FreeZero {
            giant_pages.needs_free_zero()?;
        }
    } else if let Some(other) = host.other_module() {
        output::say(&other.to_string());
    }
    let mut machine = LinuxMachine::new(
        host,
        MachineOptions {
            lock_bound: args.lock_bound,
            swap_in: true,
        },
    );
    machine.set_targets(vec![process]);
    let mut report = ActionReport::new(VERSION, args.pid, kind);
    let exchanges_before = Exchanges::read(&LiveKernel);
    if of_spans {
        let spans = machine.eligible_spans(process, args.range.clone())?;
        act_on_spans(&mut machine, process, &spans, &mut report);
    } else {
        let regions = machine.eligible_regions(process, args.range.clone())?;
        let with_pages = machine.look(process, &regions)?;
        report.record_empty((regions.len() - with_pages.len()) as u64);
        let regions = with_pages.into_iter().map(|seen| seen.region).collect();
        act_on_regions(&mut machine, process, regions, &mut report);
    }
    report.exchange = Exchanges::read(&LiveKernel)
        .map(|now| now.since(&exchanges_before.unwrap_or_default()))
        .as_ref()
        .map(ExchangeReport::from);
    report.host_page = HostPage::of(machine.host().is_guest(), report.exchanged > 0);
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

fn action(kind: ActionKind, process: ProcessId, region: Region) -> Action {
    Action {
        kind,
        target: RegionRef { process, region },
    }
}

fn act_on_regions(
    machine: &mut LinuxMachine,
    process: ProcessId,
    regions: Vec<Region>,
    report: &mut ActionReport,
) {
    let progress = output::progress(words(report.action).verb, regions.len() as u64);
    let actions: Vec<Action> = regions
        .into_iter()
        .map(|region| action(report.action, process, region))
        .collect();
    for batch in actions.chunks(BATCH) {
        for outcome in machine.act(batch) {
            report.record(outcome);
        }
        progress.inc(batch.len() as u64);
    }
    progress.finish_and_clear();
}

fn act_on_spans(
    machine: &mut LinuxMachine,
    process: ProcessId,
    spans: &[Span],
    report: &mut ActionReport,
) {
    let progress = output::progress(words(report.action).verb, spans.len() as u64);
    for &span in spans {
        report.record(act_on_span(machine, process, span, report.action));
        progress.inc(1);
    }
    progress.finish_and_clear();
}

/// Changes one span. A promotion has the kernel collapse base pages straight into the chunk, so that each is copied once. Where
/// it cannot, or did not find a chunk or memory everywhere, it promotes the regions to huge pages first.
fn act_on_span(
    machine: &mut LinuxMachine,
    process: ProcessId,
    span: Span,
    kind: ActionKind,
) -> Outcome {
    if kind.is_promotion() && machine.host().can_collapse_to_giant() {
        let outcomes = machine.act(&[action(kind, process, span.first_region())]);
        match outcomes.first() {
            Some(Outcome::Failed(Cause::NotHuge | Cause::NoMemory)) | None => {}
            Some(outcome) => return *outcome,
        }
    }
    let obstacle = if kind.is_promotion() {
        promote_regions(machine, process, span)
    } else {
        None
    };
    let outcomes = machine.act(&[action(kind, process, span.first_region())]);
    match (outcomes.first(), obstacle) {
        // Why a region is not huge says more than that it is not.
        (Some(Outcome::Failed(Cause::NotHuge)), Some(cause)) => Outcome::Failed(cause),
        (Some(outcome), _) => *outcome,
        // Not reached: a machine returns an outcome for every action.
        (None, _) => Outcome::Failed(Cause::Busy),
    }
}

/// Promotes the regions of a span to huge pages. Returns why the first that failed did. A hole without memory is no
/// failure.
fn promote_regions(machine: &mut LinuxMachine, process: ProcessId, span: Span) -> Option<Cause> {
    let actions: Vec<Action> = Region::wholly_inside(span.start(), span.end())
        .map(|region| action(ActionKind::Promote, process, region))
        .collect();
    let outcomes = actions.chunks(BATCH).flat_map(|batch| machine.act(batch));
    // Collected first, so that every region is tried.
    let causes: Vec<Cause> = outcomes
        .filter_map(|outcome| match outcome {
            Outcome::Failed(cause) if cause != Cause::Gone => Some(cause),
            _ => None,
        })
        .collect();
    causes.first().copied()
}

fn in_words(report: &ActionReport) -> String {
    let Words {
        done,
        already_so,
        would_be,
        ..
    } = words(report.action);
    let mut parts = vec![
        format!("{} {done}", report.done),
        format!("{} {already_so}", report.already_so),
    ];
    if report.not_tried > 0 {
        parts.push(format!("{} {would_be} (dry run)", report.not_tried));
    }
    if report.empty > 0 {
        parts.push(format!("{} without a page", report.empty));
    }
    let failed: u64 = report.failures.values().sum();
    if failed > 0 {
        parts.push(format!(
            "{failed} failed ({})",
            causes_in_words(&report.failures)
        ));
    }
    let places = match report.action.page_size() {
        PageSize::Giant => "spans",
        PageSize::Base | PageSize::Huge => "regions",
    };
    let mut text = format!(
        "process {}: {} {places}: {}\n",
        report.pid,
        report.regions,
        parts.join(", ")
    );
    text += &match report.action {
        _ if report.done == 0 => String::new(),
        ActionKind::PromoteGiant => format!(
            "copied for the {done} spans: {}\n",
            bytes::format(report.copied)
        ),
        ActionKind::DemoteGiant => String::new(),
        ActionKind::Promote | ActionKind::Demote | ActionKind::FreeZero => format!(
            "resident in the {done} {places}: {} before, {} after\n",
            bytes::format(report.resident_before),
            bytes::format(report.resident_after)
        ),
    };
    text + &of_the_host(report)
}

/// What a guest knows of its host: what it exchanged, and by which pages it maps these.
fn of_the_host(report: &ActionReport) -> String {
    let mut text = String::new();
    if report.exchanged > 0 {
        text += &format!(
            "exchanged by the host instead: {}\n",
            bytes::format(report.exchanged)
        );
    }
    let exchange = report.exchange.as_ref();
    if let Some(exchange) = exchange.filter(|exchange| exchange.is_news()) {
        text += &format!("on this machine meanwhile: {}\n", exchange.in_words());
    }
    if let Some(sizes) = sizes_in_words(report.host_page, false) {
        text += &format!("{sizes}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_by_cause() {
        let mut report = ActionReport::new(VERSION, 7, ActionKind::Promote);
        report.record(Outcome::Done {
            resident_before: 4096,
            resident_after: 2 << 20,
        });
        report.record(Outcome::Failed(Cause::NoMemory));
        report.record(Outcome::NotTried);
        report.record_empty(4);
        assert_eq!(
            in_words(&report),
            "process 7: 7 regions: 1 promoted, 0 huge already, 1 would be promoted (dry run), 4 without a page, 1 failed (1 no memory)\nresident in the promoted regions: 4 KiB before, 2 MiB after\n"
        );
    }

    #[test]
    fn spans_are_told_with_what_they_gave_back() {
        let mut report = ActionReport::new(VERSION, 7, ActionKind::FreeZero);
        report.record(Outcome::Done {
            resident_before: 1 << 30,
            resident_after: 600 << 20,
        });
        report.record(Outcome::AlreadySo);
        report.record(Outcome::NotTried);
        assert_eq!(
            in_words(&report),
            "process 7: 3 spans: 1 relieved, 1 with nothing to give back, 1 would be searched (dry run)\nresident in the relieved spans: 1 GiB before, 600 MiB after\n"
        );
    }

    #[test]
    fn spans_are_told_with_what_was_copied() {
        let mut report = ActionReport::new(VERSION, 7, ActionKind::PromoteGiant);
        report.record(Outcome::Remapped {
            copied: 6 << 20,
            exchanged: 0,
        });
        report.record(Outcome::Failed(Cause::NotHuge));
        assert_eq!(
            in_words(&report),
            "process 7: 2 spans: 1 promoted, 0 giant already, 1 failed (1 not huge)\ncopied for the promoted spans: 6 MiB\n"
        );
        report.record(Outcome::Remapped {
            copied: 0,
            exchanged: 1 << 30,
        });
        report.host_page = HostPage::of(true, true);
        report.exchange = Some(ExchangeReport {
            requests: 1,
            exchanged: 512,
            not_exchanged: [("busy".to_owned(), 3)].into(),
            ..ExchangeReport::default()
        });
        assert_eq!(
            in_words(&report).lines().skip(2).collect::<Vec<_>>(),
            [
                "exchanged by the host instead: 1 GiB",
                "on this machine meanwhile: 512 pairs exchanged by the host in 1 requests, 3 not (3 busy)",
                "page sizes are this guest's, host 2 MiB at most where it has just exchanged, unknown elsewhere"
            ]
        );
        let mut report = ActionReport::new(VERSION, 7, ActionKind::DemoteGiant);
        report.record(Outcome::Remapped {
            copied: 0,
            exchanged: 0,
        });
        assert_eq!(
            in_words(&report),
            "process 7: 1 spans: 1 demoted, 0 huge pages already\n"
        );
    }
}
