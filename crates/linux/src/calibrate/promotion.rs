//! What it costs to make a region huge.

#![allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]

use std::io;

use mega_core::worth::Estimate;
use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};

use super::statistics::mean_of_costs;
use super::turns::cpu_time;
use crate::Error;
use crate::kernel::Kernel;
use crate::kernel::own_memory::{Advice, OwnMemory};

/// Regions that are promoted, each by itself: 64 MiB.
const REGIONS: usize = 32;
/// Blocks that are touched before as many promotions: the kernel hands out first what was freed last.
const AT_ONCE: usize = 4;

/// CPU seconds for each region.
pub(super) struct Costs {
    /// With what the kernel and a hypervisor do for the block included.
    pub(super) promotion: Estimate,
    /// Where the block is backed.
    pub(super) copy: Estimate,
}

pub(super) fn measure(kernel: &dyn Kernel) -> Result<Costs, Error> {
    Ok(Costs {
        promotion: measure_into(&|| Ok(()))?,
        copy: measure_into(&|| kernel.touch_blocks(AT_ONCE).map(drop))?,
    })
}

/// What promotions take if each few follow `preparation`.
fn measure_into(preparation: &dyn Fn() -> io::Result<()>) -> Result<Estimate, Error> {
    let refused = |source| Error::Io {
        attempt: "promote memory of a calibration".to_owned(),
        source,
    };
    let memory = OwnMemory::new(REGIONS).map_err(refused)?;
    let range = memory.range();
    memory
        .advise(range.clone(), Advice::NoHuge)
        .map_err(refused)?;
    for address in range.clone().step_by(BASE_PAGE_SIZE as usize) {
        memory.write(address);
    }
    memory
        .advise(range.clone(), Advice::Huge)
        .map_err(refused)?;
    let mut seconds = Vec::new();
    let mut failure = None;
    for (number, start) in range.step_by(HUGE_PAGE_SIZE as usize).enumerate() {
        if number.is_multiple_of(AT_ONCE) {
            preparation().map_err(refused)?;
        }
        let before = cpu_time();
        match memory.advise(start..start + HUGE_PAGE_SIZE, Advice::Collapse) {
            Ok(()) => seconds.push(cpu_time().saturating_sub(before).as_secs_f64()),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        // A region for which there is no free block just now says nothing about the others.
        Some(error) if seconds.is_empty() => Err(refused(error)),
        _ => Ok(mean_of_costs(&seconds)),
    }
}
