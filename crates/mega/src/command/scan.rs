//! `mega scan`: one look at a process.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::bytes;
use mega_core::engine::{Would, would};
use mega_core::promotion::{self, Parameters};
use mega_core::table::Table;
use mega_core::worth::{self, Worth};
use mega_core::{
    ActionKind, HUGE_PAGE_SIZE, Machine, Observation, PageSize, ProcessId, ProcessObservation,
    Region, RegionRef,
};
use mega_linux::calibrate::{self, Stored};
use mega_linux::guest::Vmms;
use mega_linux::kernel::LiveKernel;
use mega_linux::observe::tracker::FolioSizes;
use mega_linux::process::claim::{Claim, ClaimError, Claims};
use mega_linux::run_dir::RunDir;
use mega_linux::touches::Effort;
use mega_linux::{Error, Host, HostOptions, LinuxMachine, MachineOptions, process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::Scan;
use crate::exit::Failure;
use crate::output::{self, bytes_or_dash};
use crate::report::{
    HostPage, Memory, NotEligibleReport, RegionReport, ScanReport, ScanTotals, VERSION,
    folios_in_words, region_reports, sizes_in_words, words,
};

/// How long the touch meter looks at most.
const METERED: Duration = Duration::from_secs(3);
/// How often the progress of the window is shown.
const PROGRESS: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Scan) -> Result<ExitCode, Failure> {
    let process = process::identify(&LiveKernel, args.pid)?;
    let host = Arc::new(Host::open(HostOptions {
        dry_run: args.dry_run,
        tracker: args.tracker.kind(),
    })?);
    if let Some(other) = host.other_module() {
        output::say(&other.to_string());
    }
    let tracker = host.tracker_kind().to_string();
    let mut machine = LinuxMachine::new(host, MachineOptions::default());
    machine.set_targets(vec![process]);
    let mut observation = if args.dry_run {
        observe(&mut machine, process)?
    } else {
        // If two megas cleared the same Accessed bits, both would see too few.
        let _claim = claim(process)?;
        observe(&mut machine, process)?;
        wait(&machine, process, args.window)?;
        observe(&mut machine, process)?
    };
    if args.bloat {
        count_zero_filled(&mut machine, &mut observation);
    }
    let folios = folios_of(&mut machine, observed(&observation, process)?);
    let worth = worth_of(&mut machine, process)?;
    let would = would_by_policy(&observation)?;
    let observed = observed(&observation, process)?;
    let regions = region_reports(observed, folios.as_ref(), args.bloat);
    let report = ScanReport {
        version: VERSION,
        pid: args.pid,
        window_seconds: if args.dry_run {
            0.0
        } else {
            args.window.as_secs_f64()
        },
        tracker,
        totals: ScanTotals::of(&regions),
        host_page: HostPage::of(machine.host().is_guest(), false),
        runs_guest: Vmms::of(machine.host().kernel().as_ref()).contain(args.pid),
        regions,
        worth,
        not_eligible: machine
            .not_eligible(process)
            .iter()
            .map(NotEligibleReport::from)
            .collect(),
        memory: Memory::from(&observation.memory),
        would,
    };
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&in_words(&report, args.verbose))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn claim(process: ProcessId) -> Result<Claim, Failure> {
    let claims = Claims::open(&RunDir::open()?)?;
    claims.take(process).map_err(|error| match error {
        ClaimError::Held { by_pid, .. } => Failure::Failed(format!(
            "process {process} is managed by another mega already (pid {by_pid}); `mega status` shows what that one sees, and `mega scan --dry-run` looks without clearing Accessed bits"
        )),
        other @ ClaimError::Other(_) => other.into(),
    })
}

fn observe(machine: &mut LinuxMachine, process: ProcessId) -> Result<Observation, Failure> {
    let observation = machine.observe()?;
    if let Some((_, error)) = machine.take_refused().pop() {
        return Err(error.into());
    }
    observed(&observation, process)?;
    Ok(observation)
}

/// The observation of the process. Where there is none, it has ended.
fn observed(observation: &Observation, process: ProcessId) -> Result<&ProcessObservation, Failure> {
    let found = observation
        .processes
        .iter()
        .find(|observed| observed.process == process);
    found.ok_or_else(|| ended(process))
}

fn ended(process: ProcessId) -> Failure {
    Failure::Failed(format!(
        "process {process} has ended while mega looked at it"
    ))
}

/// Waits for the window to pass.
///
/// # Errors
/// Where the process ends meanwhile.
fn wait(machine: &LinuxMachine, process: ProcessId, window: Duration) -> Result<(), Failure> {
    let kernel = machine.host().kernel();
    let handle = kernel
        .open_process(process.pid)
        .map_err(|_| ended(process))?;
    let Some(pidfd) = handle.fd() else {
        return Err(Error::Gone { pid: process.pid }.into());
    };
    let progress = output::progress(
        "watching",
        u64::try_from(window.as_millis()).unwrap_or(u64::MAX),
    );
    let started = Instant::now();
    loop {
        let passed = started.elapsed();
        progress.set_position(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
        let left = window.saturating_sub(passed);
        if left.is_zero() {
            progress.finish_and_clear();
            return Ok(());
        }
        let timeout = Timespec::try_from(left.min(PROGRESS)).unwrap_or_default();
        // A pidfd is readable once its process has ended.
        if poll(
            &mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)],
            Some(&timeout),
        ) == Ok(1)
        {
            progress.finish_and_clear();
            return Err(ended(process));
        }
    }
}

fn count_zero_filled(machine: &mut LinuxMachine, observation: &mut Observation) {
    let regions = observation
        .processes
        .iter()
        .map(|process| process.regions.len() as u64)
        .sum();
    let progress = output::progress("counting zero-filled pages", regions);
    for observed in &mut observation.processes {
        for region in &mut observed.regions {
            let target = RegionRef {
                process: observed.process,
                region: region.region,
            };
            region.zero_filled = machine.count_zero_filled(target);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
}

/// The folios in the regions that base pages map.
fn folios_of(
    machine: &mut LinuxMachine,
    observed: &ProcessObservation,
) -> Option<BTreeMap<Region, FolioSizes>> {
    let in_base_pages = observed.regions.iter().filter(|region| !region.is_huge());
    let regions: Vec<Region> = in_base_pages.map(|region| region.region).collect();
    let progress = output::progress("looking at folios", regions.len() as u64);
    let folios = machine.folio_sizes(observed.process, &regions, || progress.inc(1));
    progress.finish_and_clear();
    folios
}

/// What huge pages would gain the process, where that can be told without a calibration being made first.
fn worth_of(machine: &mut LinuxMachine, process: ProcessId) -> Result<Option<Worth>, Failure> {
    let host = Arc::clone(machine.host());
    if host.is_dry_run() || !host.tracker_kind().knows_accesses() {
        return Ok(None);
    }
    let Stored::Valid(calibration) = calibrate::load(host.kernel().as_ref())? else {
        return Ok(None);
    };
    let effort = Effort {
        at_most: METERED,
        ..Effort::default()
    };
    match machine.measure_touches(process, effort) {
        Ok(touches) if touches.tell_how_often() => Ok(Some(worth::predict(&touches, &calibration))),
        // It ran too little, this tracker reads no single bits, or the process ended: what was seen of it stands.
        Ok(_) | Err(Error::Missing { .. } | Error::Gone { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn would_by_policy(observation: &Observation) -> Result<BTreeMap<String, Would>, Failure> {
    let by_policy = promotion::registry().iter().map(|info| {
        let policy = promotion::build(info.name, &Parameters::new())?;
        Ok((info.name.to_owned(), would(policy, observation)))
    });
    by_policy.collect()
}

fn in_words(report: &ScanReport, verbose: bool) -> String {
    let totals = &report.totals;
    let mut text = format!(
        "process {}: {} regions, {} mapped, {} accessed in {} s, {} in huge pages",
        report.pid,
        totals.regions,
        bytes::format(totals.mapped),
        bytes_or_dash(totals.accessed),
        report.window_seconds,
        bytes::format(totals.huge)
    );
    if totals.giant > 0 {
        text += &format!(" ({} in giant ones)", bytes::format(totals.giant));
    }
    if let Some(bloat) = totals.bloat {
        text += &format!(" of which {} zero-filled", bytes::format(bloat));
    }
    text += &format!(" (tracker {})\n", report.tracker);
    if let Some(sizes) = sizes_in_words(report.host_page, report.runs_guest) {
        text += &format!("{sizes}\n");
    }
    text.push('\n');
    let rows: Vec<Vec<RegionReport>> = if verbose {
        report
            .regions
            .iter()
            .map(|region| vec![region.clone()])
            .collect()
    } else {
        areas(&report.regions)
    };
    text += &regions_in_words(&rows);
    text += &not_eligible_in_words(&report.not_eligible);
    if let Some(worth) = &report.worth {
        text += &format!("{}\n", super::worth::gain(worth));
    }
    text += &would_in_words(&report.would);
    text
}

/// What is left alone, and for each reason what to do, once.
fn not_eligible_in_words(left_alone: &[NotEligibleReport]) -> String {
    let mut text = String::new();
    let mut told = Vec::new();
    for part in left_alone {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:x}-{:x}: {} left alone: {}",
            part.start,
            part.start + part.length,
            bytes::format(part.length),
            part.why
        );
    }
    for part in left_alone {
        if !told.contains(&part.remedy) {
            told.push(part.remedy);
            let _ = writeln!(text, "What to do: {}.", part.remedy);
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Joins neighbouring regions that pages of one size map, in folios of the same sizes.
fn areas(regions: &[RegionReport]) -> Vec<Vec<RegionReport>> {
    let folio_sizes = |region: &RegionReport| -> Vec<u64> {
        let folios = region.folios.iter().flatten();
        folios.map(|folios| folios.size).collect()
    };
    let alike = |a: &RegionReport, b: &RegionReport| {
        a.start + HUGE_PAGE_SIZE == b.start
            && a.page_size == b.page_size
            && folio_sizes(a) == folio_sizes(b)
    };
    regions
        .chunk_by(alike)
        .map(<[RegionReport]>::to_vec)
        .collect()
}

fn regions_in_words(rows: &[Vec<RegionReport>]) -> String {
    let any_folios = rows
        .iter()
        .flatten()
        .flat_map(|region| &region.folios)
        .any(|folios| !folios.is_empty());
    let mut headings = vec![
        "addresses",
        "regions",
        "page",
        "mapped",
        "accessed",
        "zero-filled",
    ];
    if any_folios {
        headings.push("in larger folios");
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let (Some(first), Some(last)) = (row.first(), row.last()) else {
            continue;
        };
        let sums = ScanTotals::of(row);
        let mut cells = vec![
            format!("{:x}-{:x}", first.start, last.start + HUGE_PAGE_SIZE),
            sums.regions.to_string(),
            bytes::format(first.page_size),
            bytes::format(sums.mapped),
            bytes_or_dash(sums.accessed),
            bytes_or_dash(sums.zero_filled),
        ];
        if any_folios {
            cells.push(
                sums.folios
                    .as_deref()
                    .and_then(folios_in_words)
                    .unwrap_or_else(|| "-".to_owned()),
            );
        }
        table.row(cells);
    }
    format!("{table}\n")
}

fn would_in_words(would: &BTreeMap<String, Would>) -> String {
    let mut text = String::from("What each policy would do once its decisions have settled:\n\n");
    let any_giant = would.values().any(|would| {
        would
            .wanted
            .iter()
            .any(|(kind, count)| kind.page_size() == PageSize::Giant && *count > 0)
    });
    let kinds = || {
        let all = ActionKind::ALL.into_iter();
        all.filter(|kind| any_giant || kind.page_size() != PageSize::Giant)
    };
    let mut headings = vec!["policy"];
    headings.extend(kinds().map(|kind| words(kind).plural));
    headings.extend(["copied", "given back"]);
    let mut table = Table::new(&headings);
    for (policy, would) in would {
        let mut row = vec![policy.clone()];
        row.extend(kinds().map(|kind| would.wanted[kind].to_string()));
        row.push(bytes::format(would.bytes_copied));
        row.push(bytes::format(would.bytes_given_back));
        table.row(row);
    }
    // Writing to a string does not fail.
    let _ = write!(text, "{table}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::FolioReport;

    #[test]
    fn what_is_left_alone_is_told_with_each_remedy_once() {
        assert_eq!(not_eligible_in_words(&[]), "");
        let part = |start| NotEligibleReport {
            start,
            length: 4 << 20,
            reason: "r",
            remedy: "do this",
            why: "so".to_owned(),
        };
        let text = not_eligible_in_words(&[part(0x40_0000), part(0x100_0000)]);
        let expected = "400000-800000: 4 MiB left alone: so\n1000000-1400000: 4 MiB left alone: so\nWhat to do: do this.\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn folios_are_a_column_only_where_there_are_larger_ones() {
        let region = |index: u64, folios| RegionReport {
            start: index * HUGE_PAGE_SIZE,
            mapped: HUGE_PAGE_SIZE,
            accessed: None,
            page_size: 4096,
            folios: Some(folios),
            zero_filled: None,
        };
        let small = vec![FolioReport {
            size: 65536,
            mapped: 1_966_080,
        }];
        let regions = [
            region(1, Vec::new()),
            region(2, small.clone()),
            region(3, small),
        ];
        let base_alone = regions_in_words(&areas(&regions[..1]));
        assert!(!base_alone.contains("folios"), "{base_alone}");
        let text = regions_in_words(&areas(&regions));
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let [heading, base, folios] = lines[..] else {
            panic!("{text}");
        };
        assert!(heading.ends_with("in larger folios"), "{text}");
        // What base pages alone back is another row than what folios do.
        assert!(
            base.starts_with("200000-400000") && base.ends_with('-'),
            "{text}"
        );
        assert!(
            folios.starts_with("400000-800000") && folios.ends_with("3.75 MiB of 64 KiB"),
            "{text}"
        );
    }

    #[test]
    fn giant_pages_are_a_column_only_where_some_policy_asks_for_them() {
        let mut would = BTreeMap::from([
            ("adaptive".to_owned(), Would::default()),
            ("trident".to_owned(), Would::default()),
        ]);
        assert!(!would_in_words(&would).contains("giant"));
        would.entry("trident".to_owned()).or_default().wanted[ActionKind::PromoteGiant] = 3;
        let text = would_in_words(&would);
        let heading = text.lines().nth(2).expect("a heading");
        assert!(
            heading.contains("demotions  promotions to giant pages  demotions of giant pages"),
            "{text}"
        );
        let last: Vec<&str> = text
            .lines()
            .last()
            .expect("a row")
            .split_whitespace()
            .collect();
        assert_eq!(
            last,
            ["trident", "0", "0", "3", "0", "0", "0", "B", "0", "B"]
        );
    }
}
