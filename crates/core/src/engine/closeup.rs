//! What the policy makes of each region of single processes. It is made only of those that somebody looks at.

use std::collections::BTreeSet;

use crate::action::{Action, ActionKind};
use crate::failures::{FailureMemory, Why};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::Region;
use crate::process::ProcessId;

/// One process, region by region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closeup {
    /// Which process.
    pub process: ProcessId,
    /// Whether the regions' accesses mean anything.
    pub accesses_known: bool,
    /// Its eligible regions with at least one base page mapped, in address order.
    pub regions: Vec<RegionView>,
}

/// One region, and what the policy makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// As it was observed.
    pub observed: RegionObservation,
    /// Why a huge page maps it, or why none does.
    pub verdict: Verdict,
}

/// Why a huge page maps a region, or why none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A huge page or a giant one maps it.
    Huge,
    /// The policy wants a huge page, and nothing but a budget holds it back.
    Due,
    /// The policy wants a huge page, and a part of the region is swapped out.
    Swapped,
    /// The policy wants a huge page, and this holds it back.
    Held(Why),
    /// The policy does not want a huge page.
    NotWanted,
}

/// Looks closely at the observed processes with these pids. O(wanted + their regions x log wanted), nothing without pids.
pub(super) fn of(
    observation: &Observation,
    pids: &BTreeSet<u32>,
    wanted: &[Action],
    failures: &FailureMemory,
) -> Vec<Closeup> {
    if pids.is_empty() {
        return Vec::new();
    }
    let looked_at = observation
        .processes
        .iter()
        .filter(|observed| pids.contains(&observed.process.pid));
    looked_at
        .map(|observed| one(observed, wanted, failures))
        .collect()
}

fn one(observed: &ProcessObservation, wanted: &[Action], failures: &FailureMemory) -> Closeup {
    let process = observed.process;
    let promotions: BTreeSet<Region> = wanted
        .iter()
        .filter(|action| action.kind == ActionKind::Promote && action.target.process == process)
        .map(|action| action.target.region)
        .collect();
    let verdict = |region: &RegionObservation| {
        if region.is_huge() {
            return Verdict::Huge;
        }
        if !promotions.contains(&region.region) {
            return Verdict::NotWanted;
        }
        let target = RegionRef {
            process,
            region: region.region,
        };
        let kind = ActionKind::Promote;
        match failures.holds(&Action { kind, target }) {
            Some(why) => Verdict::Held(why),
            None if region.swapped > 0 => Verdict::Swapped,
            None => Verdict::Due,
        }
    };
    let view = |region: &RegionObservation| RegionView {
        observed: *region,
        verdict: verdict(region),
    };
    Closeup {
        process,
        accesses_known: observed.accesses_known,
        regions: observed.regions.iter().map(view).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Cause, Outcome};
    use crate::page::{HUGE_PAGE_SIZE, PageSize};

    #[test]
    fn each_region_has_its_reason() {
        let process = |pid| ProcessId { pid, start_time: 1 };
        let region = |index: u64| Region::containing(index * HUGE_PAGE_SIZE);
        let seen = |index, page_size, swapped| RegionObservation {
            region: region(index),
            mapped: 100,
            accessed: 0,
            page_size,
            zero_filled: None,
            swapped,
        };
        let regions = vec![
            seen(0, PageSize::Huge, 0),
            seen(1, PageSize::Base, 0),
            seen(2, PageSize::Base, 0),
            seen(3, PageSize::Base, 7),
            seen(4, PageSize::Base, 7),
        ];
        let observed = |pid| ProcessObservation {
            process: process(pid),
            cpu_time: None,
            regions: regions.clone(),
            accesses_known: true,
            node: None,
            cgroup: None,
        };
        let observation = Observation {
            processes: vec![observed(1), observed(2)],
            ..Observation::default()
        };
        let promote = |index| Action {
            kind: ActionKind::Promote,
            target: RegionRef {
                process: process(2),
                region: region(index),
            },
        };
        let mut failures = FailureMemory::default();
        failures.record(&promote(4), Some(Outcome::Failed(Cause::Busy)));
        failures.begin_step(&observation, true);
        let wanted = [promote(1), promote(3), promote(4)];
        let none = of(&observation, &BTreeSet::new(), &wanted, &failures);
        assert!(none.is_empty());
        let closeups = of(&observation, &BTreeSet::from([2, 3]), &wanted, &failures);
        assert_eq!(closeups.len(), 1);
        let verdicts: Vec<Verdict> = closeups[0].regions.iter().map(|r| r.verdict).collect();
        let held = Verdict::Held(Why::Failed(Cause::Busy));
        let expected = [
            Verdict::Huge,
            Verdict::Due,
            Verdict::NotWanted,
            Verdict::Swapped,
            held,
        ];
        assert_eq!(verdicts, expected);
    }
}
