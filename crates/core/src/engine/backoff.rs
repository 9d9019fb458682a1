//! Patience after failure, so that nothing is tried again and again in vain.
//!
//! A region whose action failed waits 1 step, then 2, 4 and so on. A process for which memory could not
//! be had waits in the same way with all its promotions: the cause is either the machine's memory or the
//! process's memory cgroup, and only the second concerns it alone, so each process finds out for itself.
//! Promotions to giant pages wait apart from those to huge pages: chunks run out long before blocks do.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::observation::{Observation, RegionRef};
use crate::page::PageSize;
use crate::process::ProcessId;

/// The most steps that anything waits: over five minutes at 5 s a step.
pub(super) const LONGEST_WAIT: u64 = 64;

/// How often something failed in a row, and the step from which it may be tried again.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    failures: u8,
    until: u64,
}

impl Wait {
    fn longer(self, now: u64) -> Self {
        let steps = (1_u64 << self.failures.min(63)).min(LONGEST_WAIT);
        Wait {
            failures: self.failures.saturating_add(1),
            until: now + 1 + steps,
        }
    }

    fn longest(now: u64) -> Self {
        Wait {
            failures: u8::MAX,
            until: now + 1 + LONGEST_WAIT,
        }
    }
}

/// What waits, and until when.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    step: u64,
    /// Regions, and spans by their first region, with what failed last.
    regions: BTreeMap<(RegionRef, PageSize), (ActionKind, Wait)>,
    /// Processes for which no memory could be had for a page of this size: their promotions to it wait.
    short_of_memory: BTreeMap<(ProcessId, PageSize), Wait>,
    /// Processes that may not be changed: all their actions wait.
    not_permitted: BTreeMap<ProcessId, Wait>,
    /// What a dry run left out.
    left_out: BTreeSet<Action>,
}

impl Backoff {
    /// Begins a step: forgets the regions and processes that are gone.
    pub(super) fn begin_step(&mut self, observation: &Observation) {
        self.step += 1;
        let alive = |process: &ProcessId| {
            observation
                .processes
                .binary_search_by_key(process, |observed| observed.process)
                .is_ok()
        };
        self.regions
            .retain(|(target, _), _| observation.region(*target).is_some());
        self.left_out
            .retain(|action| observation.region(action.target).is_some());
        self.short_of_memory
            .retain(|(process, _), _| alive(process));
        self.not_permitted.retain(|process, _| alive(process));
    }

    /// Whether a dry run left this action out before: it was counted once, that is enough.
    pub(super) fn was_left_out(&self, action: &Action) -> bool {
        self.left_out.contains(action)
    }

    /// Whether this action has to wait.
    pub(super) fn holds(&self, action: &Action) -> bool {
        let waits = |wait: &Wait| wait.until > self.step;
        let process = &action.target.process;
        self.not_permitted.get(process).is_some_and(waits)
            || (action.kind.is_promotion()
                && self.short_of_memory.get(&supply(action)).is_some_and(waits))
            || self
                .regions
                .get(&page(action))
                .is_some_and(|(kind, wait)| *kind == action.kind && waits(wait))
    }

    /// Whether there was no memory for such a page when it was last tried, so that trying little is wise.
    pub(super) fn is_doubtful(&self, action: &Action) -> bool {
        self.short_of_memory.contains_key(&supply(action))
    }

    /// Notes what came of an action; `None` when the machine did not say.
    pub(super) fn record(&mut self, action: &Action, outcome: Option<Outcome>) {
        match outcome {
            Some(Outcome::Done { .. } | Outcome::Remapped { .. }) => {
                self.regions.remove(&page(action));
                self.memory_was_had(action);
            }
            Some(Outcome::AlreadySo | Outcome::Failed(Cause::Gone)) => {
                self.regions.remove(&page(action));
            }
            Some(Outcome::NotTried) => {
                self.left_out.insert(*action);
            }
            Some(Outcome::Failed(Cause::NoMemory)) => {
                self.hold_region(action, Wait::longer);
                self.memory_was_short(action);
            }
            Some(Outcome::Failed(Cause::NotEligible)) => {
                self.hold_region(action, |_, now| Wait::longest(now));
            }
            Some(Outcome::Failed(Cause::NotPermitted)) => {
                self.not_permitted
                    .insert(action.target.process, Wait::longest(self.step));
            }
            Some(Outcome::Failed(Cause::Busy | Cause::NotHuge)) | None => {
                self.hold_region(action, Wait::longer)
            }
        }
    }

    fn hold_region(&mut self, action: &Action, wait: impl FnOnce(Wait, u64) -> Wait) {
        let (kind, before) = self
            .regions
            .get(&page(action))
            .copied()
            .unwrap_or((action.kind, Wait::default()));
        let before = if kind == action.kind {
            before
        } else {
            Wait::default()
        };
        self.regions
            .insert(page(action), (action.kind, wait(before, self.step)));
    }

    fn memory_was_short(&mut self, action: &Action) {
        let wait = self.short_of_memory.entry(supply(action)).or_default();
        // Failures of one step count once.
        if wait.until <= self.step {
            *wait = wait.longer(self.step);
        }
    }

    /// A promotion after the wait shows that there is memory again. One in the step of the failure
    /// itself shows nothing.
    fn memory_was_had(&mut self, action: &Action) {
        let waited = |wait: &Wait| wait.until <= self.step;
        let supply = supply(action);
        if action.kind.is_promotion() && self.short_of_memory.get(&supply).is_some_and(waited) {
            self.short_of_memory.remove(&supply);
        }
    }
}

/// The page that an action makes or breaks up.
fn page(action: &Action) -> (RegionRef, PageSize) {
    (action.target, action.kind.page_size())
}

/// Whose memory for pages of which size an action draws on.
fn supply(action: &Action) -> (ProcessId, PageSize) {
    (action.target.process, action.kind.page_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{ProcessObservation, RegionObservation};
    use crate::page::{HUGE_PAGE_SIZE, PageSize, Region};

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_time: 1 }
    }

    fn promote(pid: u32, region: u64) -> Action {
        let region = Region::containing(region * HUGE_PAGE_SIZE);
        Action {
            kind: ActionKind::Promote,
            target: RegionRef {
                process: process(pid),
                region,
            },
        }
    }

    fn observation(processes: u32, regions: u64) -> Observation {
        let region = |index| RegionObservation {
            region: Region::containing(index * HUGE_PAGE_SIZE),
            mapped: 512,
            accessed: 512,
            page_size: PageSize::Base,
            zero_filled: None,
            swapped: 0,
        };
        let processes = (1..=processes)
            .map(|pid| ProcessObservation {
                process: process(pid),
                regions: (0..regions).map(region).collect(),
                accesses_known: true,
                node: None,
                cgroup: None,
            })
            .collect();
        Observation {
            processes,
            ..Observation::default()
        }
    }

    /// The steps, of the first `steps`, in which `action` was tried when it always ends with `outcome`.
    fn tries(action: Action, outcome: Option<Outcome>, steps: u64) -> Vec<u64> {
        let observed = observation(1, 4);
        let mut backoff = Backoff::default();
        (0..steps)
            .filter(|_| {
                backoff.begin_step(&observed);
                let tried = !backoff.holds(&action);
                if tried {
                    backoff.record(&action, outcome);
                }
                tried
            })
            .collect()
    }

    #[test]
    fn a_busy_region_waits_twice_as_long_each_time_up_to_a_bound() {
        let expected = [0, 2, 5, 10, 19, 36, 69, 134, 199, 264];
        let busy = Some(Outcome::Failed(Cause::Busy));
        assert_eq!(tries(promote(1, 0), busy, 300), expected);
        assert_eq!(
            tries(promote(1, 0), None, 300),
            expected,
            "an outcome not reported is no success"
        );
    }

    #[test]
    fn what_can_never_work_is_tried_rarely_from_the_start() {
        for cause in [Cause::NotEligible, Cause::NotPermitted] {
            assert_eq!(
                tries(promote(1, 0), Some(Outcome::Failed(cause)), 140),
                [0, 65, 130]
            );
        }
    }

    #[test]
    fn no_memory_holds_the_whole_process_but_no_other() {
        let mut backoff = Backoff::default();
        backoff.begin_step(&observation(2, 4));
        backoff.record(&promote(1, 0), Some(Outcome::Failed(Cause::NoMemory)));
        assert!(backoff.holds(&promote(1, 3)));
        assert!(!backoff.holds(&promote(2, 3)));
        let demote = Action {
            kind: ActionKind::Demote,
            ..promote(1, 3)
        };
        assert!(!backoff.holds(&demote), "demoting needs no memory");
    }

    #[test]
    fn the_process_waits_longer_each_time_until_a_promotion_works() {
        let observed = observation(1, 64);
        let mut backoff = Backoff::default();
        let mut tried = Vec::new();
        for step in 0..40 {
            backoff.begin_step(&observed);
            // Another region each time: only the process's own wait counts.
            let action = promote(1, step);
            if !backoff.holds(&action) {
                tried.push(step);
                backoff.record(&action, Some(Outcome::Failed(Cause::NoMemory)));
            }
        }
        assert_eq!(tried, [0, 2, 5, 10, 19, 36]);
    }

    #[test]
    fn a_lack_of_chunks_holds_giant_pages_only() {
        let giant = |pid, region| Action {
            kind: ActionKind::PromoteGiant,
            ..promote(pid, region)
        };
        let mut backoff = Backoff::default();
        backoff.begin_step(&observation(1, 4));
        backoff.record(&giant(1, 0), Some(Outcome::Failed(Cause::NoMemory)));
        assert!(backoff.holds(&giant(1, 3)));
        assert!(
            !backoff.holds(&promote(1, 0)),
            "the region by which the span is named is not the span"
        );
        assert!(!backoff.holds(&promote(1, 3)));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut backoff = Backoff::default();
        backoff.begin_step(&observation(1, 4));
        backoff.record(&promote(1, 3), Some(Outcome::Failed(Cause::Busy)));
        backoff.record(&promote(1, 2), Some(Outcome::Failed(Cause::Gone)));
        assert!(backoff.holds(&promote(1, 3)));
        assert!(!backoff.holds(&promote(1, 2)));
        backoff.begin_step(&observation(1, 3));
        assert!(backoff.regions.is_empty());
    }
}
