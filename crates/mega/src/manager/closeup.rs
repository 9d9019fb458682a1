//! Makes a close look at one process of what the engine saw of its regions and of what its mappings say.

use std::ops::Range;

use mega_core::engine::{Closeup, RegionView, Verdict};
use mega_core::failures::Why;
use mega_core::{HUGE_PAGE_SIZE, PageSize};
use mega_linux::process::anatomy::{Anatomy, Part};
use mega_linux::process::not_eligible::{NotEligible, Reason};

use crate::report::{CellReport, MappingReport};

/// Cells of all mappings together, about: enough for a large screen, few enough for one answer.
const CELLS: usize = 1024;
/// Mappings that are listed, at most: those with the most addresses.
const MAPPINGS: usize = 400;

/// What lies in the way of huge pages where only a part of a mapping is concerned.
pub(crate) const SWITCHED_OFF: &str = "switched_off";

/// The mappings, with what was seen in each.
pub(crate) fn mappings(
    anatomy: &Anatomy,
    closeup: Option<&Closeup>,
    left_alone: &[NotEligible],
) -> Vec<MappingReport> {
    let regions = closeup.map_or(&[][..], |closeup| &closeup.regions);
    let per_cell = regions.len().div_ceil(CELLS).max(1);
    let switched_off = anatomy.switched_off == Some(true);
    let mut small = MappingReport::default();
    let mut listed = Vec::new();
    for part in &anatomy.parts {
        let length = part.range.end - part.range.start;
        if length < HUGE_PAGE_SIZE {
            small.length += length;
            *small.reasons.entry("too_small".to_owned()).or_default() += length;
            continue;
        }
        let mut report = MappingReport {
            start: part.range.start,
            length,
            name: part.name.clone(),
            ..MappingReport::default()
        };
        report.add_obstacles(part, left_alone);
        let seen = within(regions, &part.range);
        let known = closeup.is_some_and(|closeup| closeup.accesses_known);
        report.add_regions(seen, known, switched_off);
        report.cells = seen.chunks(per_cell).filter_map(cell).collect();
        listed.push(report);
    }
    keep_largest(&mut listed, &mut small);
    if small.length > 0 {
        listed.push(small);
    }
    listed
}

/// The regions that begin in `range`.
fn within<'r>(regions: &'r [RegionView], range: &Range<u64>) -> &'r [RegionView] {
    let first = |address| regions.partition_point(|view| view.observed.region.start() < address);
    &regions[first(range.start)..first(range.end)]
}

/// Adds the smallest to `rest` where there are more than can be listed.
fn keep_largest(listed: &mut Vec<MappingReport>, rest: &mut MappingReport) {
    if listed.len() <= MAPPINGS {
        return;
    }
    listed.sort_by_key(|report| std::cmp::Reverse((report.mapped, report.length)));
    for left_out in listed.split_off(MAPPINGS) {
        rest.length += left_out.length;
        rest.mapped += left_out.mapped;
        rest.huge += left_out.huge;
        rest.giant += left_out.giant;
        for (reason, bytes) in left_out.reasons {
            *rest.reasons.entry(reason).or_default() += bytes;
        }
    }
    listed.sort_by_key(|report| report.start);
}

impl MappingReport {
    /// What no huge page can map, in bytes of addresses.
    fn add_obstacles(&mut self, part: &Part, left_alone: &[NotEligible]) {
        if let Some(obstacle) = part.obstacle {
            self.reasons.insert(obstacle.name().to_owned(), self.length);
        }
        for left in left_alone {
            let start = left.range.start.max(part.range.start);
            let end = left.range.end.min(part.range.end);
            if let Reason::CountedWith { .. } = left.reason
                && start < end
            {
                *self
                    .reasons
                    .entry(left.reason.name().to_owned())
                    .or_default() += end - start;
            }
        }
    }

    /// What was seen, in bytes mapped.
    fn add_regions(&mut self, regions: &[RegionView], accesses_known: bool, switched_off: bool) {
        self.accessed = accesses_known.then_some(0);
        for view in regions {
            let bytes = view.observed.resident_bytes();
            self.mapped += bytes;
            if let Some(accessed) = &mut self.accessed {
                *accessed += accessed_bytes(view);
            }
            if view.observed.is_huge() {
                self.huge += bytes;
                self.giant += giant_bytes(view);
            } else {
                let reason = match switched_off {
                    true => SWITCHED_OFF,
                    false => reason(view.verdict),
                };
                *self.reasons.entry(reason.to_owned()).or_default() += bytes;
            }
        }
    }
}

fn accessed_bytes(view: &RegionView) -> u64 {
    u64::from(view.observed.accessed) * mega_core::BASE_PAGE_SIZE
}

fn giant_bytes(view: &RegionView) -> u64 {
    match view.observed.page_size {
        PageSize::Giant => view.observed.resident_bytes(),
        PageSize::Base | PageSize::Huge => 0,
    }
}

fn cell(regions: &[RegionView]) -> Option<CellReport> {
    let sum = |bytes: fn(&RegionView) -> u64| regions.iter().map(bytes).sum();
    Some(CellReport {
        start: regions.first()?.observed.region.start(),
        length: regions.len() as u64 * HUGE_PAGE_SIZE,
        mapped: sum(|view| view.observed.resident_bytes()),
        accessed: sum(accessed_bytes),
        huge: sum(|view| match view.observed.is_huge() {
            true => view.observed.resident_bytes(),
            false => 0,
        }),
        giant: sum(giant_bytes),
    })
}

/// The name of a reason why a region is not huge.
fn reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Huge => "huge",
        Verdict::Due => "due",
        Verdict::Swapped => "swapped",
        Verdict::Held(Why::Failed(cause)) => cause.name(),
        Verdict::Held(Why::Unreported) => "no_answer",
        Verdict::Held(Why::InVain) => "in_vain",
        Verdict::Held(Why::LeftOut) => "dry_run",
        Verdict::NotWanted => "policy",
    }
}

/// What a reason means, in a few words.
pub(crate) fn reason_in_words(reason: &str) -> &str {
    const WORDS: [(&str, &str); 20] = [
        ("busy", "shared by fork, or pinned"),
        ("counted_elsewhere", "counted elsewhere"),
        ("dry_run", "wanted (dry run)"),
        ("due", "due, waits for budget"),
        ("file", "a file"),
        ("gone", "it went away"),
        ("hugetlb", "hugetlb, large already"),
        ("in_vain", "a demotion was in vain"),
        ("kernel", "the kernel's own pages"),
        ("misaligned_shared_memory", "alignment: none fits"),
        ("no_answer", "the kernel did not say"),
        ("no_memory", "no free block"),
        ("not_eligible", "advice forbids it"),
        ("not_huge", "a part is not huge yet"),
        ("not_permitted", "a privilege is missing"),
        ("policy", "policy: not worth it"),
        ("reserved", "reserved, nothing in it"),
        ("stack", "a stack"),
        ("swapped", "partly in swap"),
        (SWITCHED_OFF, "switched off by prctl"),
    ];
    match reason {
        "too_small" => "smaller than 2 MiB",
        _ => WORDS
            .iter()
            .find(|(name, _)| *name == reason)
            .map_or(reason, |(_, words)| words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use mega_core::{ProcessId, Region, RegionObservation};
    use mega_linux::process::anatomy::Obstacle;

    const MIB: u64 = 1 << 20;

    fn view(index: u64, page_size: PageSize, verdict: Verdict) -> RegionView {
        RegionView {
            observed: RegionObservation {
                region: Region::containing(index * HUGE_PAGE_SIZE),
                mapped: 512,
                accessed: 256,
                page_size,
                zero_filled: None,
                swapped: 0,
            },
            verdict,
        }
    }

    fn closeup(regions: Vec<RegionView>) -> Closeup {
        Closeup {
            process: ProcessId {
                pid: 1,
                start_time: 1,
            },
            accesses_known: true,
            regions,
        }
    }

    fn part(range: Range<u64>, obstacle: Option<Obstacle>) -> Part {
        Part {
            range,
            name: String::new(),
            shared: false,
            obstacle,
        }
    }

    /// The reason for the most bytes.
    fn main_reason(reasons: &BTreeMap<String, u64>) -> Option<(&str, u64)> {
        let most = reasons.iter().max_by_key(|(_, bytes)| **bytes)?;
        Some((most.0.as_str(), *most.1))
    }

    fn anatomy(parts: Vec<Part>) -> Anatomy {
        Anatomy {
            parts,
            switched_off: Some(false),
        }
    }

    #[test]
    fn each_region_counts_in_its_mapping() {
        let seen = closeup(vec![
            view(1, PageSize::Huge, Verdict::Huge),
            view(2, PageSize::Base, Verdict::NotWanted),
            view(8, PageSize::Base, Verdict::Due),
        ]);
        let mut anatomy = anatomy(vec![
            part(2 * MIB..6 * MIB, None),
            part(7 * MIB..8 * MIB, Some(Obstacle::TooSmall)),
            part(16 * MIB..32 * MIB, None),
            part(64 * MIB..80 * MIB, Some(Obstacle::File)),
        ]);
        let found = mappings(&anatomy, Some(&seen), &[]);
        assert_eq!(found.len(), 4);
        let first = &found[0];
        assert_eq!((first.mapped, first.huge), (4 * MIB, 2 * MIB));
        assert_eq!(first.accessed, Some(2 * MIB));
        assert_eq!(main_reason(&first.reasons), Some(("policy", 2 * MIB)));
        assert_eq!(first.cells.len(), 2);
        assert_eq!(main_reason(&found[1].reasons), Some(("due", 2 * MIB)));
        assert_eq!(main_reason(&found[2].reasons), Some(("file", 16 * MIB)));
        assert_eq!((found[3].start, found[3].length), (0, MIB));
        anatomy.switched_off = Some(true);
        let found = mappings(&anatomy, Some(&seen), &[]);
        assert_eq!(
            main_reason(&found[0].reasons),
            Some((SWITCHED_OFF, 2 * MIB))
        );
    }

    #[test]
    fn what_another_process_stands_for_is_named() {
        let anatomy = anatomy(vec![part(2 * MIB..10 * MIB, None)]);
        let left = NotEligible {
            range: 4 * MIB..20 * MIB,
            reason: Reason::CountedWith { pid: 9 },
        };
        let found = mappings(&anatomy, None, &[left]);
        let expected = Some(("counted_elsewhere", 6 * MIB));
        assert_eq!(main_reason(&found[0].reasons), expected);
        assert_eq!(found[0].accessed, None);
    }

    #[test]
    fn many_regions_and_mappings_fit_one_answer() {
        let regions = (0..100_000).map(|index| view(index, PageSize::Base, Verdict::Due));
        let seen = closeup(regions.collect());
        let parts = (0..1000)
            .map(|index| part(index * 4 * MIB..(index + 1) * 4 * MIB, None))
            .collect();
        let found = mappings(&anatomy(parts), Some(&seen), &[]);
        assert_eq!(found.len(), MAPPINGS + 1);
        let mapped: u64 = found.iter().map(|mapping| mapping.mapped).sum();
        assert_eq!(mapped, 4000 * MIB);
        let one = anatomy(vec![part(0..1 << 40, None)]);
        let found = mappings(&one, Some(&seen), &[]);
        assert!(found[0].cells.len() <= CELLS);
        let cells: u64 = found[0].cells.iter().map(|cell| cell.length).sum();
        assert_eq!(cells, 100_000 * HUGE_PAGE_SIZE);
    }

    #[test]
    fn every_reason_has_words() {
        use mega_core::Cause;
        for verdict in [
            Verdict::Due,
            Verdict::Swapped,
            Verdict::Held(Why::Failed(Cause::Busy)),
            Verdict::Held(Why::Failed(Cause::NoMemory)),
            Verdict::Held(Why::Failed(Cause::NotPermitted)),
            Verdict::Held(Why::Failed(Cause::NotEligible)),
            Verdict::Held(Why::Failed(Cause::NotHuge)),
            Verdict::Held(Why::Failed(Cause::Gone)),
            Verdict::Held(Why::Unreported),
            Verdict::Held(Why::InVain),
            Verdict::Held(Why::LeftOut),
            Verdict::NotWanted,
        ] {
            let name = reason(verdict);
            assert_ne!(reason_in_words(name), name);
        }
        assert_eq!(reason_in_words("of_a_newer_mega"), "of_a_newer_mega");
    }
}
