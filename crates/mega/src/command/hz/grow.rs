//! `mega hz grow`: empties memory blocks and gives them to hzmem.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use mega_core::BASE_PAGE_SIZE;
use mega_core::bytes;
use mega_core::compaction::{MemoryBlock, MigrationCounts, Stopped, memory_blocks};
use mega_linux::Error;
use mega_linux::hzmem::Hzmem;
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::physical::memory_blocks as blocks;
use mega_linux::physical::{PhysicalMemory, iomem};
use serde::Serialize;

use crate::cli::HzGrow;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;

/// What `mega hz grow --json` prints. `docs/interfaces.md` describes it.
#[derive(Serialize)]
struct Report {
    version: u32,
    asked: u64,
    memory_block: u64,
    added: u64,
    #[serde(flatten)]
    counts: MigrationCounts,
    seconds: f64,
    /// What was tried, in order.
    tried: Vec<Tried>,
}

/// A memory block, and what came of it.
#[derive(Serialize)]
struct Tried {
    start: u64,
    size: u64,
    node: u32,
    stopped: Stopped,
    migrated: u64,
    added: bool,
    /// Why hzmem could not take it although it was emptied.
    error: Option<String>,
}

pub(super) fn run(args: &HzGrow) -> Result<ExitCode, Failure> {
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let hzmem = Hzmem::open(Arc::clone(&kernel))?;
    let mut memory = PhysicalMemory::with_module(Arc::clone(&kernel))?;
    let mut report = Report {
        version: VERSION,
        asked: args.size,
        memory_block: blocks::size(kernel.as_ref())?,
        added: 0,
        counts: MigrationCounts::default(),
        seconds: 0.0,
        tried: Vec::new(),
    };
    let start = Instant::now();
    grow(kernel.as_ref(), &hzmem, &mut memory, args.node, &mut report)?;
    report.seconds = start.elapsed().as_secs_f64();
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&in_words(&report))?;
    }
    Ok(if report.added >= report.asked {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Empties one memory block after the other, the one with the least to move first, until hzmem has enough or none is
/// left.
fn grow(
    kernel: &dyn Kernel,
    hzmem: &Hzmem,
    memory: &mut PhysicalMemory,
    node: Option<u32>,
    report: &mut Report,
) -> Result<(), Failure> {
    let progress = output::progress("making room", report.asked);
    let mut refused = BTreeSet::new();
    while report.added < report.asked {
        let observation = memory.observe(&mut |_, _| ())?;
        let found = memory_blocks(&observation, report.memory_block / BASE_PAGE_SIZE, node);
        let memories = iomem::read(kernel)?;
        let can_go = |block: &&MemoryBlock| {
            let range = block.start()..block.start() + block.bytes();
            memories.iter().any(|memory| memory.can_lose(&range))
        };
        let Some(block) = found
            .iter()
            .filter(can_go)
            .find(|block| !refused.contains(&block.first_pfn))
        else {
            break;
        };
        refused.insert(block.first_pfn);
        let tried = take(kernel, hzmem, memory, block, report)?;
        let stopped = tried.stopped;
        report.added += if tried.added { tried.size } else { 0 };
        report.tried.push(tried);
        if stopped == Stopped::Interrupted {
            break;
        }
        progress.set_position(report.added);
    }
    progress.finish_and_clear();
    Ok(())
}

/// Empties one memory block and gives it to hzmem.
fn take(
    kernel: &dyn Kernel,
    hzmem: &Hzmem,
    memory: &mut PhysicalMemory,
    block: &MemoryBlock,
    report: &mut Report,
) -> Result<Tried, Failure> {
    let (stopped, counts) = memory.empty_memory_block(block)?;
    report.counts.add(&counts);
    let mut tried = Tried {
        start: block.start(),
        size: block.bytes(),
        node: block.node,
        stopped,
        migrated: counts.migrated,
        added: false,
        error: None,
    };
    if !stopped.is_free() {
        return Ok(tried);
    }
    match hzmem.add(tried.start, tried.size) {
        Ok(()) => tried.added = true,
        Err(missing @ Error::Missing { .. }) => return Err(missing.into()),
        Err(error) => {
            tried.error = Some(error.to_string());
            // The kernel has it again, but the module cannot put it online.
            let range = tried.start..tried.start + tried.size;
            if blocks::is_online(kernel, &range)? == Some(false) {
                blocks::put_online(kernel, &range)?;
            }
        }
    }
    Ok(tried)
}

fn in_words(report: &Report) -> String {
    let wanted = report.asked.div_ceil(report.memory_block);
    let mut text = format!(
        "hzmem was given {} of {} ({wanted} memory {} of {}): {} pages migrated ({}), {} failed, in {:.1} s\n",
        bytes::format(report.added),
        bytes::format(report.asked),
        if wanted == 1 { "block" } else { "blocks" },
        bytes::format(report.memory_block),
        report.counts.migrated,
        bytes::format(report.counts.migrated.saturating_mul(BASE_PAGE_SIZE)),
        report.counts.failed,
        report.seconds,
    );
    for tried in &report.tried {
        let outcome = match (&tried.error, tried.added) {
            (_, true) => format!("{} pages migrated", tried.migrated),
            (Some(error), _) => error.clone(),
            (None, _) => tried.stopped.to_string(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:#x}, node {}: {outcome}", tried.start, tried.node);
    }
    if report.added < report.asked {
        text += "  no other memory block can be had: each has an unmovable page, lies below the kernel itself, or too little \
                 is free elsewhere to hold what is in it (see mega frag); memory kept at boot with memmap= always works\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(added: bool, error: Option<&str>, stopped: Stopped) -> Report {
        Report {
            version: VERSION,
            asked: 100 << 20,
            memory_block: 128 << 20,
            added: if added { 128 << 20 } else { 0 },
            counts: MigrationCounts {
                migrated: 512,
                ..MigrationCounts::default()
            },
            seconds: 0.5,
            tried: vec![Tried {
                start: 0x1_3800_0000,
                size: 128 << 20,
                node: 0,
                stopped,
                migrated: 512,
                added,
                error: error.map(str::to_owned),
            }],
        }
    }

    #[test]
    fn what_was_given_is_told_with_what_it_took() {
        let text = in_words(&report(true, None, Stopped::Emptied));
        assert!(
            text.starts_with(
                "hzmem was given 128 MiB of 100 MiB (1 memory block of 128 MiB): 512 pages migrated (2 MiB)"
            ),
            "{text}"
        );
        assert!(text.contains("0x138000000, node 0: 512 pages migrated"));
        assert!(!text.contains("memmap="), "{text}");
    }

    #[test]
    fn what_was_not_given_is_told_with_the_reason() {
        let text = in_words(&report(false, None, Stopped::Pinned));
        assert!(
            text.contains("node 0: not emptied: a page in it is pinned"),
            "{text}"
        );
        assert!(text.contains("memmap="), "{text}");
        let text = in_words(&report(false, Some("cannot: it is odd"), Stopped::Emptied));
        assert!(text.contains("node 0: cannot: it is odd"), "{text}");
    }
}
