//! What the engine did, process by process.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::observation::Observation;
use crate::page::HUGE_PAGE_SIZE;
use crate::process::ProcessId;
use crate::sorted;

/// What was done to one process for as long as it was observed without a break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Regions promoted, and verified.
    pub promoted: u64,
    /// Regions demoted, and verified.
    pub demoted: u64,
    /// Bytes that promotions copied, as far as is known ([`super::Totals::bytes_copied`]).
    pub bytes_copied: u64,
    /// Bytes that demotions and searches for zero-filled huge pages gave back.
    pub bytes_given_back: u64,
    /// Bytes of addresses that the policy wants mapped by huge pages and that are not yet, as of the latest step.
    pub wanted_bytes: u64,
    /// The action that failed last, if any did.
    pub last_failure: Option<LastFailure>,
}

/// An action that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LastFailure {
    /// What was tried.
    pub kind: ActionKind,
    /// Why it failed.
    pub cause: Cause,
    /// How many steps the engine had taken before the one in which it failed.
    pub step: u64,
}

/// The tallies of all processes that something was done to or is wanted for.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    by_process: BTreeMap<ProcessId, Tally>,
}

impl Tallies {
    /// Forgets the processes that are gone, and what the last step wanted.
    pub(super) fn begin_step(&mut self, observation: &Observation) {
        self.by_process.retain(|process, tally| {
            tally.wanted_bytes = 0;
            observation.process(*process).is_some() && *tally != Tally::default()
        });
    }

    /// Notes what the policy wants.
    pub(super) fn want(&mut self, wanted: &[Action]) {
        let mut counts: Vec<(ProcessId, u64)> = Vec::new();
        let mut near = 0;
        let same_process = |a: &Action, b: &Action| a.target.process == b.target.process;
        for run in wanted.chunk_by(same_process) {
            let promotions = run.iter().filter(|action| is_promotion_to_huge(action));
            let process = run[0].target.process;
            *sorted::entry(&mut counts, &mut near, process) += promotions.count() as u64;
        }
        for (process, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.of_mut(process).wanted_bytes += count * HUGE_PAGE_SIZE;
        }
    }

    /// Notes what came of an action in a step; `step` steps were taken before it.
    pub(super) fn record(&mut self, action: &Action, outcome: Outcome, step: u64) {
        let kind = action.kind;
        let tally = self.of_mut(action.target.process);
        let is_huge_now = matches!(outcome, Outcome::Done { .. } | Outcome::AlreadySo);
        if is_promotion_to_huge(action) && is_huge_now {
            tally.wanted_bytes = tally.wanted_bytes.saturating_sub(HUGE_PAGE_SIZE);
        }
        match outcome {
            Outcome::Done {
                resident_before,
                resident_after,
            } => {
                tally.promoted += u64::from(kind == ActionKind::Promote);
                tally.demoted += u64::from(kind == ActionKind::Demote);
                if kind.is_promotion() {
                    tally.bytes_copied += resident_before;
                } else {
                    tally.bytes_given_back += resident_before.saturating_sub(resident_after);
                }
            }
            Outcome::Remapped { copied, .. } => tally.bytes_copied += copied,
            Outcome::Failed(cause) => tally.last_failure = Some(LastFailure { kind, cause, step }),
            Outcome::AlreadySo | Outcome::NotTried => {}
        }
    }

    /// The tally of a process.
    pub(super) fn of(&self, process: ProcessId) -> Tally {
        self.by_process.get(&process).copied().unwrap_or_default()
    }

    fn of_mut(&mut self, process: ProcessId) -> &mut Tally {
        self.by_process.entry(process).or_default()
    }
}

fn is_promotion_to_huge(action: &Action) -> bool {
    action.kind == ActionKind::Promote
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{ProcessObservation, RegionRef};
    use crate::page::Region;

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_time: 1 }
    }

    fn action(kind: ActionKind, pid: u32, region: u64) -> Action {
        let region = Region::containing(region * HUGE_PAGE_SIZE);
        Action {
            kind,
            target: RegionRef {
                process: process(pid),
                region,
            },
        }
    }

    fn observed(pids: &[u32]) -> Observation {
        let processes = pids.iter().map(|&pid| ProcessObservation {
            process: process(pid),
            cpu_time: None,
            regions: Vec::new(),
            accesses_known: true,
            node: None,
            cgroup: None,
        });
        Observation {
            processes: processes.collect(),
            ..Observation::default()
        }
    }

    fn done(resident_before: u64, resident_after: u64) -> Outcome {
        Outcome::Done {
            resident_before,
            resident_after,
        }
    }

    #[test]
    fn each_process_has_its_own() {
        let mut tallies = Tallies::default();
        tallies.record(&action(ActionKind::Promote, 1, 0), done(100, 400), 0);
        tallies.record(&action(ActionKind::Demote, 2, 0), done(400, 100), 0);
        let (one, two) = (tallies.of(process(1)), tallies.of(process(2)));
        assert_eq!((one.promoted, one.bytes_copied), (1, 100));
        assert_eq!((two.demoted, two.bytes_given_back), (1, 300));
        assert_eq!(tallies.of(process(3)), Tally::default());
    }

    #[test]
    fn what_is_wanted_is_what_was_not_done() {
        let mut tallies = Tallies::default();
        let wanted: Vec<Action> = (0..4)
            .map(|region| action(ActionKind::Promote, 1, region))
            .chain([action(ActionKind::Demote, 1, 9)])
            .collect();
        tallies.want(&wanted);
        tallies.record(&wanted[0], done(1, 1), 0);
        tallies.record(&wanted[1], Outcome::AlreadySo, 0);
        tallies.record(&wanted[2], Outcome::Failed(Cause::NoMemory), 0);
        assert_eq!(tallies.of(process(1)).wanted_bytes, 2 * HUGE_PAGE_SIZE);
        tallies.begin_step(&observed(&[1]));
        assert_eq!(tallies.of(process(1)).wanted_bytes, 0);
        assert_eq!(tallies.of(process(1)).promoted, 1);
    }

    #[test]
    fn the_last_failure_stays_until_another_or_the_end() {
        let mut tallies = Tallies::default();
        let promote = action(ActionKind::Promote, 1, 0);
        tallies.record(&promote, Outcome::Failed(Cause::NoMemory), 3);
        tallies.record(&promote, Outcome::Failed(Cause::Busy), 4);
        tallies.record(&promote, done(1, 1), 5);
        let failure = tallies.of(process(1)).last_failure.unwrap();
        assert_eq!((failure.cause, failure.step), (Cause::Busy, 4));
        tallies.begin_step(&observed(&[1, 2]));
        assert!(tallies.of(process(1)).last_failure.is_some());
        tallies.begin_step(&observed(&[2]));
        assert_eq!(tallies.of(process(1)), Tally::default());
    }
}
