//! `mega compact`: contiguity by hand, verified.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::bytes;
use mega_core::compaction::{
    self, Block, CompactionPolicy, Compactor, Emptied, Goal, Mechanism, MigrationCounts,
    PhysicalObservation, Stopped, ToEmpty, Unit,
};
use mega_core::promotion::Parameters;
use mega_linux::kernel::{Kernel, LiveKernel, ReadOnly};
use mega_linux::physical::vmstat::CompactionStatistics;
use mega_linux::physical::{PhysicalMemory, Source, buddyinfo};
use serde::Serialize;

use crate::cli::Compact;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;

/// What `mega compact --json` prints. `docs/interfaces.md` describes it.
#[derive(Serialize)]
struct CompactReport {
    version: u32,
    policy: &'static str,
    dry_run: bool,
    unit: Unit,
    /// Blocks or chunks asked for.
    asked: u64,
    /// Of these, emptied now; in a dry run, those that would be.
    emptied: u64,
    #[serde(flatten)]
    counts: MigrationCounts,
    seconds: f64,
    free_blocks_before: u64,
    free_blocks_after: u64,
    /// What was tried, in order. Empty where the kernel compacted.
    targets: Vec<Emptied>,
}

pub(super) fn run(args: &Compact) -> Result<ExitCode, Failure> {
    let (unit, asked) = match (args.amount.blocks, args.amount.chunks) {
        (Some(blocks), _) => (Unit::Block, blocks),
        (_, Some(chunks)) => (Unit::Chunk, chunks),
        (None, None) => {
            return Err(Failure::Usage(
                "say how much: --blocks N or --chunks N".to_owned(),
            ));
        }
    };
    let default = match unit {
        Unit::Block => compaction::DEFAULT_COMPACTION,
        Unit::Chunk => "trident",
    };
    let name = args.policy.as_deref().unwrap_or(default);
    let parameters: Parameters = args.parameters.iter().cloned().collect();
    let mut policy = compaction::build(name, &parameters)?;
    let kernel: Arc<dyn Kernel> = if args.dry_run {
        Arc::new(ReadOnly(LiveKernel))
    } else {
        Arc::new(LiveKernel)
    };

    let mut report = CompactReport {
        version: VERSION,
        policy: policy.name(),
        dry_run: args.dry_run,
        unit,
        asked,
        emptied: 0,
        counts: MigrationCounts::default(),
        seconds: 0.0,
        free_blocks_before: free_blocks(kernel.as_ref())?,
        free_blocks_after: 0,
        targets: Vec::new(),
    };
    let start = Instant::now();
    match (policy.mechanism(), args.dry_run) {
        (Mechanism::Targeted, false) => empty(&kernel, policy.as_mut(), &mut report)?,
        (Mechanism::Kernel, false) => leave_to_the_kernel(kernel.as_ref(), &mut report)?,
        (_, true) => forecast(&kernel, policy.as_mut(), &mut report)?,
    }
    report.seconds = start.elapsed().as_secs_f64();
    report.free_blocks_after = free_blocks(kernel.as_ref())?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&in_words(&report))?;
    }
    Ok(if report.emptied >= asked {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn free_blocks(kernel: &dyn Kernel) -> Result<u64, Failure> {
    let lists = buddyinfo::read(kernel)?;
    let pages = u64::from(compaction::PAGES_PER_BLOCK);
    let areas = lists
        .iter()
        .flat_map(|list| list.areas.iter().enumerate().skip(compaction::HUGE_ORDER));
    Ok(areas
        .map(|(order, &count)| count.saturating_mul(1 << order.min(63)) / pages)
        .sum())
}

/// Empties one target after the other until enough are empty or none is left.
fn empty(
    kernel: &Arc<dyn Kernel>,
    policy: &mut dyn CompactionPolicy,
    report: &mut CompactReport,
) -> Result<(), Failure> {
    let mut memory = PhysicalMemory::with_module(Arc::clone(kernel))?;
    let progress = output::progress("compacting", report.asked);
    let mut refused = BTreeSet::new();
    'rounds: while report.emptied < report.asked {
        let mut observation = memory.observe_physical()?;
        leave_out(&mut observation, &refused);
        let count = report.asked - report.emptied;
        let targets = policy.select(
            &observation,
            &Goal {
                unit: report.unit,
                count,
                pages: u64::MAX,
            },
        );
        if targets.is_empty() {
            break;
        }
        for target in &targets {
            for emptied in memory.empty(std::slice::from_ref(target))? {
                record(report, &emptied);
                refused.insert(emptied.target);
                if emptied.stopped == Stopped::Interrupted {
                    break 'rounds;
                }
            }
            progress.set_position(report.emptied);
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// Marks what was tried as unmovable, so that it is not selected again.
fn leave_out(observation: &mut PhysicalObservation, tried: &BTreeSet<ToEmpty>) {
    let tried: Vec<(u64, u64)> = tried
        .iter()
        .map(|target| {
            (
                target.first_pfn,
                target.first_pfn + u64::from(target.unit.pages()),
            )
        })
        .collect();
    let was_tried = |block: Block| {
        tried
            .iter()
            .any(|&(start, end)| (start..end).contains(&block.first_pfn()))
    };
    for block in observation
        .zones
        .iter_mut()
        .flat_map(|zone| &mut zone.blocks)
    {
        if block.movable > 0 && was_tried(block.block) {
            block.unmovable += std::mem::take(&mut block.movable);
        }
    }
}

fn record(report: &mut CompactReport, emptied: &Emptied) {
    let free = emptied.stopped.is_free() || emptied.stopped == Stopped::Would;
    report.emptied += u64::from(free);
    report.counts.add(&emptied.counts);
    report.targets.push(*emptied);
}

/// Has the kernel compact everything, and reads what it counted.
fn leave_to_the_kernel(kernel: &dyn Kernel, report: &mut CompactReport) -> Result<(), Failure> {
    let before = CompactionStatistics::read(kernel)?;
    mega_linux::physical::compact_memory(kernel)?;
    report.counts = CompactionStatistics::read(kernel)?.since(&before).into();
    report.emptied = free_blocks(kernel)?.saturating_sub(report.free_blocks_before);
    if report.unit == Unit::Chunk {
        output::say(
            "the kernel compacts blocks, not chunks: counted are whole chunks' worth of blocks",
        );
        report.emptied /= compaction::BLOCKS_PER_CHUNK;
    }
    Ok(())
}

/// Selects, and asks the module, where there is one, what stands in the way.
fn forecast(
    kernel: &Arc<dyn Kernel>,
    policy: &mut dyn CompactionPolicy,
    report: &mut CompactReport,
) -> Result<(), Failure> {
    let mut memory = PhysicalMemory::open(Arc::clone(kernel))?;
    if let Some(other) = memory.other_module() {
        output::say(&other.to_string());
    }
    let observation = memory.observe_physical()?;
    let goal = Goal {
        unit: report.unit,
        count: report.asked,
        pages: u64::MAX,
    };
    let targets = policy.select(&observation, &goal);
    if memory.source() == Source::Module && policy.mechanism() == Mechanism::Targeted {
        for emptied in memory.empty(&targets)? {
            record(report, &emptied);
        }
    } else {
        for target in targets {
            let stopped = if target.empties {
                Stopped::Would
            } else {
                Stopped::Unmovable
            };
            let (counts, took) = (MigrationCounts::default(), Duration::ZERO);
            record(
                report,
                &Emptied {
                    target,
                    stopped,
                    counts,
                    took,
                },
            );
        }
    }
    Ok(())
}

fn in_words(report: &CompactReport) -> String {
    let (one, many) = match report.unit {
        Unit::Block => ("block", "blocks"),
        Unit::Chunk => ("chunk", "chunks"),
    };
    let unit = if report.asked == 1 { one } else { many };
    let mut text = if report.dry_run {
        let pages: u64 = report
            .targets
            .iter()
            .map(|emptied| u64::from(emptied.target.pages))
            .sum();
        format!(
            "{} of {} {unit} would be emptied by policy {}, migrating {} pages ({})\n",
            report.emptied,
            report.asked,
            report.policy,
            pages,
            bytes::format(pages * mega_core::BASE_PAGE_SIZE),
        )
    } else {
        format!(
            "{} of {} {unit} emptied by policy {}: {} pages migrated ({}), {} failed, in {:.1} s\n",
            report.emptied,
            report.asked,
            report.policy,
            report.counts.migrated,
            bytes::format(report.counts.migrated * mega_core::BASE_PAGE_SIZE),
            report.counts.failed,
            report.seconds,
        )
    };
    let mut causes: Vec<(Stopped, usize)> = Vec::new();
    for emptied in report
        .targets
        .iter()
        .filter(|e| !e.stopped.is_free() && e.stopped != Stopped::Would)
    {
        match causes
            .iter_mut()
            .find(|(stopped, _)| *stopped == emptied.stopped)
        {
            Some((_, count)) => *count += 1,
            None => causes.push((emptied.stopped, 1)),
        }
    }
    for (stopped, count) in causes {
        text += &format!("  {count}: {stopped}\n");
    }
    if report.targets.is_empty() && report.policy != "linux" {
        text += &format!(
            "  no {one} qualifies: each is free, full, or has unmovable pages (see mega frag)\n"
        );
    }
    text + &format!(
        "free blocks: {} before, {} after\n",
        report.free_blocks_before, report.free_blocks_after
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(first_pfn: u64) -> ToEmpty {
        ToEmpty {
            unit: Unit::Block,
            first_pfn,
            pages: 10,
            empties: true,
        }
    }

    fn emptied(first_pfn: u64, stopped: Stopped) -> Emptied {
        let counts = MigrationCounts {
            scanned: 512,
            isolated: 10,
            migrated: 10,
            failed: 0,
        };
        Emptied {
            target: target(first_pfn),
            stopped,
            counts,
            took: Duration::ZERO,
        }
    }

    fn report() -> CompactReport {
        CompactReport {
            version: VERSION,
            policy: "mega",
            dry_run: false,
            unit: Unit::Block,
            asked: 3,
            emptied: 0,
            counts: MigrationCounts::default(),
            seconds: 0.25,
            free_blocks_before: 7,
            free_blocks_after: 9,
            targets: Vec::new(),
        }
    }

    #[test]
    fn what_failed_is_told_by_cause_and_not_counted_as_emptied() {
        let mut report = report();
        record(&mut report, &emptied(0, Stopped::Emptied));
        record(&mut report, &emptied(512, Stopped::Pinned));
        record(&mut report, &emptied(1024, Stopped::AlreadyFree));
        assert_eq!((report.emptied, report.counts.migrated), (2, 30));
        assert_eq!(
            in_words(&report),
            "2 of 3 blocks emptied by policy mega: 30 pages migrated (120 KiB), 0 failed, in 0.2 s\n  \
             1: not emptied: a page in it is pinned\nfree blocks: 7 before, 9 after\n"
        );
    }

    #[test]
    fn what_was_tried_is_not_tried_again() {
        use compaction::{BlockObservation, ZoneKind, ZoneObservation};
        let block = |index: u64| BlockObservation {
            free: 502,
            movable: 10,
            ..BlockObservation::free(Block::containing(index * 512))
        };
        let mut observation = PhysicalObservation {
            zones: vec![ZoneObservation {
                node: 0,
                kind: ZoneKind::Normal,
                start_pfn: 0,
                spanned: 2048,
                free_areas: vec![5000],
                reserve: 0,
                blocks: (0..4).map(block).collect(),
            }],
        };
        leave_out(
            &mut observation,
            &BTreeSet::from([target(512), target(1024)]),
        );
        let goal = Goal {
            unit: Unit::Block,
            count: 4,
            pages: u64::MAX,
        };
        let mut policy = compaction::build("mega", &Parameters::new()).expect("it is there");
        let selected: Vec<u64> = policy
            .select(&observation, &goal)
            .iter()
            .map(|t| t.first_pfn)
            .collect();
        assert_eq!(selected, [0, 3 * 512]);
    }
}
