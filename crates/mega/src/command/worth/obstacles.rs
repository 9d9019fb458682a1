//! What stands in the way of huge pages in a process.

use std::ops::Range;

use mega_core::worth::Worth;
use mega_core::{MemoryObservation, ProcessId, bytes};
use mega_linux::kernel::Kernel;
use mega_linux::process::obstacles::{advised_against, is_disabled};
use mega_linux::{Error, LinuxMachine};

use crate::report::Obstacle;

/// Finds what stands in the way now: of all memory first, then by address.
///
/// # Errors
/// Where the process has ended or may not be looked at.
pub(super) fn find(
    kernel: &dyn Kernel,
    machine: &LinuxMachine,
    process: ProcessId,
    worth: &Worth,
    memory: &MemoryObservation,
) -> Result<Vec<Obstacle>, Error> {
    let mut found = Vec::new();
    if is_disabled(kernel, process.pid)? == Some(true) {
        found.push(disabled(worth));
    }
    found.extend(too_few_blocks(worth, memory));
    let mut parts: Vec<Obstacle> = advised_against(kernel, process.pid)?
        .into_iter()
        .filter_map(|range| advice(&range, worth))
        .collect();
    parts.extend(machine.not_eligible(process).iter().map(|part| Obstacle {
        start: Some(part.range.start),
        length: part.range.end - part.range.start,
        reason: part.reason.name(),
        remedy: part.reason.remedy().to_owned(),
        why: part.reason.in_words(),
    }));
    parts.sort_by_key(|part| part.start);
    found.extend(parts);
    Ok(found)
}

fn disabled(worth: &Worth) -> Obstacle {
    Obstacle {
        start: None,
        length: worth.promotable,
        reason: "disabled_by_prctl",
        remedy: "start it without prctl(PR_SET_THP_DISABLE); some programs have an option for it, as Redis has --disable-thp no".to_owned(),
        why: "it has switched huge pages off for itself by prctl".to_owned(),
    }
}

/// That less is free in blocks than could be made huge.
fn too_few_blocks(worth: &Worth, memory: &MemoryObservation) -> Option<Obstacle> {
    let lacking = worth.promotable.saturating_sub(memory.contiguity);
    (lacking > 0).then(|| Obstacle {
        start: None,
        length: lacking,
        reason: "no_free_block",
        remedy: "free memory, or have blocks emptied: the kernel compacts where it promotes, and mega.ko empties chosen blocks (`mega compact`)".to_owned(),
        why: format!(
            "only {} of memory is free in blocks that huge pages fit",
            bytes::format(memory.contiguity)
        ),
    })
}

/// That a mapping is advised against huge pages, where it has memory that they could map.
fn advice(range: &Range<u64>, worth: &Worth) -> Option<Obstacle> {
    let resident: u64 = worth
        .mappings
        .iter()
        .filter(|mapping| mapping.range.start < range.end && range.start < mapping.range.end)
        .map(|mapping| mapping.resident - mapping.huge)
        .sum();
    (resident > 0).then(|| Obstacle {
        start: Some(range.start),
        length: resident,
        reason: "advised_against",
        remedy: "have the program not call madvise(MADV_NOHUGEPAGE) there".to_owned(),
        why: "the program has asked for no huge pages there by MADV_NOHUGEPAGE".to_owned(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use mega_core::worth::{CurvePoint, Estimate, Locality, MappingWorth};

    use super::*;

    /// A process that huge pages would save 31 % of its time.
    pub(in super::super) fn worth() -> Worth {
        let saved = Estimate {
            value: 0.31,
            low: 0.27,
            high: 0.35,
        };
        Worth {
            touches_per_second: Estimate::exact(31e6),
            cpu_share: 1.0,
            working_set: 4 << 30,
            locality: Locality::SCATTERED,
            frames_together: None,
            saved_ns: Estimate::exact(10.0),
            saved_share: saved,
            speed_up: Estimate::exact(1.0 / 0.69),
            promotable: 4 << 30,
            most: 1 << 30,
            cost_cpu_seconds: 4.1,
            payback_seconds: Some(13.2),
            curve: [(0.0, 0.0), (0.25, 0.9), (1.0, 1.0)]
                .map(|(promoted, gain)| CurvePoint { promoted, gain })
                .to_vec(),
            mappings: vec![MappingWorth {
                range: 0x4000_0000..0x1_4000_0000,
                name: "[heap]".to_owned(),
                resident: 4 << 30,
                huge: 0,
                saved_share: 0.31,
            }],
            saved_by_giant_share: None,
        }
    }

    #[test]
    fn blocks_are_lacking_only_where_less_is_free_than_could_be_huge() {
        let memory = |contiguity| MemoryObservation {
            contiguity,
            ..MemoryObservation::default()
        };
        assert_eq!(too_few_blocks(&worth(), &memory(4 << 30)), None);
        let lacking = too_few_blocks(&worth(), &memory(1 << 30));
        assert_eq!(lacking.map(|lacking| lacking.length), Some(3 << 30));
    }

    #[test]
    fn advice_counts_where_there_is_memory() {
        assert_eq!(advice(&(0x1000..0x2000), &worth()), None);
        let found = advice(&(0x4000_0000..0x1_4000_0000), &worth()).expect("one");
        assert_eq!((found.start, found.length), (Some(0x4000_0000), 4 << 30));
    }
}
