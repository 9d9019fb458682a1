//! Linux's own compaction: two scanners that meet.
//!
//! One scanner takes used pages from the start of the zone, another takes free pages from its end. The kernel moves the
//! first to the second until the scanners meet (section 2.2 of the MEGA paper; `mm/compaction.c`). It compacts when
//! somebody writes to `/proc/sys/vm/compact_memory`, and knows neither a budget nor a choice of blocks. The selection
//! here only forecasts what the kernel will move: the mechanism is [`Mechanism::Kernel`].

use std::time::Duration;

use super::block::Unit;
use super::candidate::candidates;
use super::goal::{Goal, Selection, ToEmpty};
use super::zone::{PhysicalObservation, ZoneKind, ZoneObservation};
use super::{CompactionPolicy, Mechanism};

/// Leaves all to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoScanners;

impl CompactionPolicy for TwoScanners {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn mechanism(&self) -> Mechanism {
        Mechanism::Kernel
    }

    /// kcompactd's period of proactive compaction (500 ms, `HPAGE_FRAG_CHECK_INTERVAL_MSEC`).
    fn period(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn budget_pages(&self) -> u64 {
        u64::MAX
    }

    /// The blocks whose pages the first scanner moves, in order. Always blocks, whatever the goal's unit: the
    /// kernel knows no larger one.
    fn select(&mut self, observation: &PhysicalObservation, goal: &Goal) -> Vec<ToEmpty> {
        let mut selection = Selection::new(observation, goal);
        for zone in observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
        {
            forecast(zone, &mut selection);
        }
        selection.into_targets()
    }
}

fn forecast(zone: &ZoneObservation, selection: &mut Selection) {
    let blocks = candidates(zone, Unit::Block);
    let mut free_scanner = blocks.len();
    let mut taken = 0u64;
    for (migration_scanner, block) in blocks.iter().enumerate() {
        while taken < u64::from(block.movable) && free_scanner > migration_scanner + 1 {
            free_scanner -= 1;
            taken += u64::from(blocks[free_scanner].free);
        }
        if migration_scanner >= free_scanner || taken < u64::from(block.movable) {
            return;
        }
        if block.movable == 0 {
            continue;
        }
        let moved = if block.in_the_way == 0 {
            selection.take(block)
        } else {
            selection.take_in_vain(block, block.movable)
        };
        if moved.is_err() {
            return;
        }
        taken -= u64::from(block.movable);
    }
}
