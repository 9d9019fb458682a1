//! What it costs to make a region huge.

#![allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]

use mega_core::worth::Estimate;
use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};

use super::statistics::mean_of_costs;
use super::turns::cpu_time;
use crate::Error;
use crate::kernel::own_memory::{Advice, OwnMemory};

/// Regions that are promoted, each by itself: 64 MiB.
const REGIONS: usize = 32;

/// CPU seconds for each region, with what the kernel and a hypervisor do for the block included.
pub(super) fn measure() -> Result<Estimate, Error> {
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
    for start in range.step_by(HUGE_PAGE_SIZE as usize) {
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
