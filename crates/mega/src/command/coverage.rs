//! `mega coverage`: how much of a program's memory huge pages map, whether that is enough, and what would help.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::coverage::Obstacle;
use mega_core::{ActionKind, HUGE_PAGE_SIZE, Machine, ProcessId, bytes};
use mega_linux::guest::{self, Vmms};
use mega_linux::kernel::LiveKernel;
use mega_linux::process::Chosen;
use mega_linux::process::not_eligible::{NotEligible, Reason};
use mega_linux::{Error, Host, HostOptions, LinuxMachine, MachineOptions, observe, process};

use crate::cli::Coverage;
use crate::control;
use crate::exit::Failure;
use crate::output;
use crate::report::{
    CoverageReport, GroupStatus, HostPage, MachineSupply, Managed, ManagerStatus, ProcessCoverage,
    VERSION, causes_in_words, free_blocks, sizes_in_words,
};

/// The pause between two looks while waiting.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Coverage) -> Result<ExitCode, Failure> {
    if args.pid.is_none() && args.select.is_none() {
        return of_the_machine(args);
    }
    // It only looks.
    let host = Arc::new(Host::open(HostOptions {
        dry_run: true,
        ..HostOptions::default()
    })?);
    let started = Instant::now();
    let mut report = loop {
        let report = look(args, &host)?;
        let left = args.wait.saturating_sub(started.elapsed());
        if report.holds || left.is_zero() {
            break report;
        }
        std::thread::sleep(PAUSE.min(left));
    };
    let lacks = |one: &ProcessCoverage| one.blocks_needed > Some(report.free_blocks);
    if report.processes.iter().any(lacks) {
        // What compaction could make is worth a look at all of physical memory only then.
        report.machine = Some(MachineSupply::look()?);
    }
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&in_words(&report))?;
    }
    Ok(ExitCode::from(u8::from(!report.holds)))
}

/// What the machine could give, and no process.
fn of_the_machine(args: &Coverage) -> Result<ExitCode, Failure> {
    if args.min.is_some() || args.of.is_some() || !args.wait.is_zero() {
        let line = "say of which process: PID or --select NAME";
        return Err(Failure::Usage(line.to_owned()));
    }
    let machine = MachineSupply::look()?;
    let host_page = HostPage::of(guest::is_guest(&LiveKernel), false);
    if args.json {
        output::print_json(&CoverageReport {
            version: VERSION,
            holds: true,
            processes: Vec::new(),
            refused: 0,
            free_blocks: machine.now.huge,
            machine: Some(machine),
            host_page,
        })?;
    } else {
        output::print(&machine.in_words())?;
        if let Some(sizes) = sizes_in_words(host_page, false) {
            output::print(&format!("{sizes}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Which processes are meant.
struct Meant {
    processes: Vec<ProcessId>,
    /// Of the selection, those that cannot be observed.
    refused: u64,
}

fn look(args: &Coverage, host: &Arc<Host>) -> Result<CoverageReport, Failure> {
    let managers = managers(args)?;
    let meant = meant(args, &managers)?;
    let mut machine = LinuxMachine::new(Arc::clone(host), MachineOptions::default());
    machine.set_chosen(args.of.clone().or_else(|| promised_of(&meant, &managers)));
    machine.set_targets(meant.processes);
    let observation = machine.observe()?;
    let vmms = Vmms::of(&LiveKernel);
    if let Some((_, error)) = machine.take_refused().pop() {
        return Err(error.into());
    }
    let free_blocks = free_blocks(&observation.memory);
    let mut processes = Vec::new();
    for observed in &observation.processes {
        let process = observed.process;
        let found = match observe::coverage::observe(&mut machine, process) {
            // One of many: the others tell.
            Err(Error::Gone { .. }) if args.pid.is_none() => continue,
            found => found?,
        };
        let allowed = observed
            .cgroup
            .map(|cgroup| cgroup.available / HUGE_PAGE_SIZE);
        let managed = managed(&managers, process.pid);
        let promised = managed.as_ref().and_then(|managed| managed.promised);
        let mut one = ProcessCoverage::new(
            process.pid,
            process::name_of(host.kernel().as_ref(), process),
            managed,
            &found,
            args.min.or(promised),
            allowed,
        );
        let pinned = process::pinned::pinned(&LiveKernel, process.pid).unwrap_or_default();
        one.pinned = pinned.counted;
        one.pinned_by_vfio = pinned.vfio;
        one.runs_guest = vmms.contain(process.pid);
        one.help = help(&one, machine.not_eligible(process), free_blocks);
        processes.push(one);
    }
    if args.pid.is_some() && processes.is_empty() {
        return Err(Failure::Failed(
            "the process has ended while mega looked at it".to_owned(),
        ));
    }
    Ok(CoverageReport {
        version: VERSION,
        holds: processes.iter().all(ProcessCoverage::holds)
            && (args.min.is_none() || !processes.is_empty() && meant.refused == 0),
        processes,
        refused: meant.refused,
        free_blocks,
        machine: None,
        host_page: HostPage::of(host.is_guest(), false),
    })
}

/// The memory that the selection of these processes promises a coverage of; `None` for all of it.
fn promised_of(meant: &Meant, managers: &[ManagerStatus]) -> Option<Chosen> {
    let pid = meant.processes.first()?.pid;
    let words = managed(managers, pid)?.coverage_of?;
    // A newer daemon may know words that this program does not: then all of it is shown.
    Chosen::parse(words.iter().map(String::as_str)).ok()
}

/// The running managers. For one process it does not matter if they cannot be asked.
fn managers(args: &Coverage) -> Result<Vec<ManagerStatus>, Failure> {
    match control::ask_everyone() {
        Ok((managers, _)) => Ok(managers),
        Err(_) if args.pid.is_some() => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

fn groups(managers: &[ManagerStatus]) -> impl Iterator<Item = (u32, &GroupStatus)> {
    managers
        .iter()
        .flat_map(|manager| manager.groups.iter().map(|group| (manager.pid, group)))
}

fn meant(args: &Coverage, managers: &[ManagerStatus]) -> Result<Meant, Failure> {
    if let Some(pid) = args.pid {
        return Ok(Meant {
            processes: vec![process::identify(&LiveKernel, pid)?],
            refused: 0,
        });
    }
    let name = args.select.as_deref().unwrap_or_default();
    let selected: Vec<&GroupStatus> = groups(managers)
        .map(|(_, group)| group)
        .filter(|group| group.name == name)
        .collect();
    if selected.is_empty() {
        let known = groups(managers).map(|(_, group)| group.name.as_str());
        let hint = match mega_core::nearest(name, known) {
            Some(near) => format!("; did you mean '{near}'?"),
            None => "; `mega status` shows all".to_owned(),
        };
        return Err(Failure::Failed(format!(
            "no running mega has a selection '{name}'{hint}"
        )));
    }
    let pids = selected.iter().flat_map(|group| &group.processes);
    Ok(Meant {
        // Those that have ended since are not meant.
        processes: pids
            .filter_map(|one| process::identify(&LiveKernel, one.pid).ok())
            .collect(),
        refused: selected
            .iter()
            .map(|group| group.refused.len() as u64)
            .sum(),
    })
}

/// Who manages the process.
fn managed(managers: &[ManagerStatus], pid: u32) -> Option<Managed> {
    let has_it = |group: &GroupStatus| group.processes.iter().any(|one| one.pid == pid);
    let (by_pid, group) = groups(managers).find(|(_, group)| has_it(group))?;
    Some(Managed {
        by_pid,
        selection: group.name.clone(),
        policy: group.policy.clone(),
        promised: group.coverage,
        coverage_of: group.coverage_of.clone(),
        failures: group.actions.failures.0[ActionKind::Promote].clone(),
    })
}

/// What would help a process that has less than all of its memory in huge pages.
fn help(one: &ProcessCoverage, left_alone: &[NotEligible], free_blocks: u64) -> Vec<String> {
    let mut help = Vec::new();
    let promotable =
        one.part(Obstacle::None.name()).regions + one.part(Obstacle::PartlyMapped.name()).regions;
    if let Some(needed) = one.blocks_needed.filter(|needed| *needed > free_blocks) {
        help.push(format!(
            "it needs {needed} free blocks, there are {free_blocks}: `mega compact --blocks {needed}` empties some"
        ));
    }
    if let Some((needed, allowed)) = one.blocks_needed.zip(one.blocks_allowed)
        && needed > allowed
    {
        help.push(format!(
            "it needs {needed} blocks, its memory cgroup has room for {allowed}: raise the cgroup's memory.max"
        ));
    }
    if promotable > 0 {
        help.push(match &one.managed {
            None => format!(
                "no mega manages it: select it in the configuration, or `mega promote {}`",
                one.pid
            ),
            Some(Managed {
                promised: Some(_),
                selection,
                ..
            }) => format!(
                "the selection {selection} promises it: mega goes on, within the budgets: wait, raise cpu_budget, copy_budget or standstill, or `mega promote {}`",
                one.pid
            ),
            Some(managed) => format!(
                "the policy {} of the selection {} promotes what it finds worth it, within the budgets: wait, choose another, or `mega promote {}`",
                managed.policy, managed.selection, one.pid
            ),
        });
    }
    let partly = one.part(Obstacle::PartlyMapped.name());
    if partly.regions > 0 {
        let added = (partly.regions * HUGE_PAGE_SIZE).saturating_sub(partly.bytes);
        help.push(format!(
            "huge pages for the {} regions that are mapped in part would add {} to what is resident",
            partly.regions,
            bytes::format(added)
        ));
    }
    if !one.rest.is_empty() {
        help.extend(pinned(one));
    }
    if one.part(Obstacle::Swapped.name()).regions > 0 {
        help.push(format!(
            "a part is in swap: mega waits for the program to read it; `mega promote {}` reads it",
            one.pid
        ));
    }
    if one.part(Obstacle::SharedSinceFork.name()).regions > 0 {
        help.push("base pages are shared with a forked process: wait until that ends".to_owned());
    }
    if one.part(Obstacle::SwitchedOff.name()).regions > 0 {
        help.push(
            "the program has switched huge pages off for itself (PR_SET_THP_DISABLE): see its own options, or what starts it"
                .to_owned(),
        );
    }
    help.extend(remedies(left_alone));
    if let Some(managed) = one
        .managed
        .as_ref()
        .filter(|managed| !managed.failures.is_empty())
    {
        help.push(format!(
            "promotions of the selection {} that failed since the start: {}",
            managed.selection,
            causes_in_words(&managed.failures)
        ));
    }
    help
}

/// What is known of pages that devices hold on to.
fn pinned(one: &ProcessCoverage) -> Vec<String> {
    let mut help = Vec::new();
    if one.pinned > 0 {
        help.push(format!(
            "{} are pinned (io_uring, RDMA or iommufd): there huge pages have to come before the pinning, or after it",
            bytes::format(one.pinned)
        ));
    }
    if let Some(most) = one.pinned_by_vfio {
        help.push(format!(
            "up to {} are pinned by VFIO: have huge pages there before the device is attached, as by preallocation of the guest's memory",
            bytes::format(most)
        ));
    }
    help
}

/// What to do about misaligned memory, each remedy once.
fn remedies(left_alone: &[NotEligible]) -> Vec<String> {
    let mut remedies: Vec<String> = left_alone
        .iter()
        .filter(|part| !matches!(part.reason, Reason::CountedWith { .. }))
        .map(|part| part.reason.remedy().to_owned())
        .collect();
    remedies.dedup();
    remedies
}

/// What is in the way, in words.
fn in_the_way(name: &str) -> &'static str {
    match name {
        "none" => "nothing in the way",
        "partly_mapped" => "mapped in part",
        "swapped" => "in swap, in part",
        "shared_since_fork" => "shared since a fork",
        _ => "switched off by the program",
    }
}

fn in_words(report: &CoverageReport) -> String {
    let mut text = String::new();
    for one in &report.processes {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} (pid {}): {} in huge pages, {} of {}{}",
            one.name,
            one.pid,
            one.coverage
                .map_or_else(|| "nothing mapped".to_owned(), percent),
            bytes::format(one.huge),
            bytes::format(one.mapped),
            match &one.managed {
                Some(managed) => format!(
                    "; selection {}, policy {}",
                    managed.selection, managed.policy
                ),
                None => String::new(),
            }
        );
        if let Some(sizes) = sizes_in_words(None, one.runs_guest) {
            let _ = writeln!(text, "  {sizes}");
        }
        for (name, part) in &one.rest {
            let _ = writeln!(
                text,
                "  {} in {} regions: {}",
                bytes::format(part.bytes),
                part.regions,
                in_the_way(name)
            );
        }
        if one.misaligned > 0 {
            let size = bytes::format(one.misaligned);
            let _ = writeln!(
                text,
                "  {size} at most: at addresses that no huge page fits"
            );
        }
        let enough = one.min.is_some() && one.holds();
        for line in one.help.iter().filter(|_| !enough) {
            let _ = writeln!(text, "  - {line}");
        }
        if let Some(least) = one.min {
            let verdict = if enough { "holds" } else { "does not hold" };
            let _ = writeln!(text, "  {} {verdict}", percent(least));
        }
    }
    if let Some(sizes) = sizes_in_words(report.host_page, false) {
        let _ = writeln!(text, "{sizes}");
    }
    if let Some(machine) = &report.machine {
        text += &machine.in_words();
    }
    if report.refused > 0 {
        let _ = writeln!(
            text,
            "{} processes cannot be observed: `mega status` says why",
            report.refused
        );
    }
    text
}

fn percent(part: f64) -> String {
    // Rounded down: what is written as reached is reached.
    format!("{} %", (part * 1000.0 + 1e-9).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use mega_core::coverage::{Coverage as Found, Obstacle};
    use mega_core::{PageSize, Region, RegionObservation};

    fn found(base: u64, huge: u64) -> Found {
        let mut found = Found::default();
        for index in 0..base + huge {
            let page_size = if index < base {
                PageSize::Base
            } else {
                PageSize::Huge
            };
            let region = RegionObservation {
                region: Region::containing(index << 21),
                mapped: 512,
                accessed: 0,
                page_size,
                zero_filled: None,
                swapped: 0,
            };
            found.add(&region, Obstacle::seen_in(&region));
        }
        found
    }

    fn one(found: &Found, min: f64, managed: Option<Managed>) -> ProcessCoverage {
        ProcessCoverage::new(7, "guest".to_owned(), managed, found, Some(min), Some(3))
    }

    #[test]
    fn blocks_that_are_lacking_are_counted() {
        let one = one(&found(10, 10), 0.95, None);
        assert_eq!(one.blocks_needed, Some(9));
        let help = help(&one, &[], 4);
        assert_eq!(
            help,
            [
                "it needs 9 free blocks, there are 4: `mega compact --blocks 9` empties some",
                "it needs 9 blocks, its memory cgroup has room for 3: raise the cgroup's memory.max",
                "no mega manages it: select it in the configuration, or `mega promote 7`",
            ]
        );
    }

    #[test]
    fn a_managed_process_is_told_its_policy_and_its_failures() {
        let managed = Managed {
            by_pid: 1,
            selection: "guests".to_owned(),
            policy: "adaptive".to_owned(),
            promised: None,
            coverage_of: None,
            failures: BTreeMap::from([("busy".to_owned(), 3)]),
        };
        let promised = Managed {
            promised: Some(0.95),
            ..managed.clone()
        };
        let kept = help(&one(&found(2, 2), 0.95, Some(promised)), &[], 100);
        assert!(
            kept[0].starts_with("the selection guests promises it"),
            "{kept:?}"
        );
        let one = one(&found(2, 2), 0.5, Some(managed));
        let help = help(&one, &[], 100);
        assert_eq!(help.len(), 2, "{help:?}");
        assert!(
            help[0].starts_with("the policy adaptive of the selection guests"),
            "{help:?}"
        );
        assert!(
            help[1].ends_with("failed since the start: 3 busy"),
            "{help:?}"
        );
    }

    #[test]
    fn pinned_memory_is_told_only_where_something_is_missing() {
        let pinned = |base| {
            let mut one = one(&found(base, 2), 0.95, None);
            one.pinned = 4 << 20;
            one.pinned_by_vfio = Some(1 << 30);
            help(&one, &[], 100)
        };
        let told = pinned(2);
        assert!(
            told.iter().any(|line| line.starts_with("4 MiB are pinned")),
            "{told:?}"
        );
        assert!(
            told.iter()
                .any(|line| line.starts_with("up to 1 GiB are pinned by VFIO")),
            "{told:?}"
        );
        assert_eq!(pinned(0), Vec::<String>::new());
    }

    #[test]
    fn the_words_give_figures_and_verdict() {
        let mut report = CoverageReport {
            version: VERSION,
            holds: false,
            processes: vec![one(&found(1, 2), 0.95, None)],
            refused: 1,
            free_blocks: 9,
            machine: None,
            host_page: None,
        };
        report.processes[0].help = vec!["wait".to_owned()];
        assert_eq!(
            in_words(&report),
            "guest (pid 7): 66.6 % in huge pages, 4 MiB of 6 MiB\n  2 MiB in 1 regions: nothing in the way\n  - wait\n  95 % does not hold\n1 processes cannot be observed: `mega status` says why\n"
        );
    }

    #[test]
    fn misaligned_memory_counts_as_not_covered() {
        let mut found = found(0, 1);
        found.add_out_of_reach(2 << 20);
        let one = one(&found, 0.95, None);
        assert_eq!((one.misaligned, one.blocks_needed), (2 << 20, None));
        assert_eq!(one.coverage, Some(0.5));
    }
}
