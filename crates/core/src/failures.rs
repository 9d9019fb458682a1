//! The one memory of what failed: why, how often in a row, and how long it is held back.
//!
//! A region, or a span by its first region, is remembered by what was to be done to it. What it waits, in steps:
//!
//! | what came of it | the region waits | and its process |
//! |---|---|---|
//! | busy, not huge, no answer | 1, then 2, 4 and so on | - |
//! | no memory | the same; a span without a chunk 8 at first | all promotions to pages of that size: 1, 2, 4 and so on |
//! | not eligible for a huge page | 8, then 16 and so on | - |
//! | not eligible for another action | [`LONGEST_WAIT`] | - |
//! | not permitted | - | all actions: [`LONGEST_WAIT`] |
//! | a demotion in vain: nothing was given back | [`LONGEST_WAIT`], also while it is not mapped | demotions: 1, 2, 4 and so on |
//! | left out by a dry run | for good: it was counted, once is enough | - |
//!
//! What is not eligible for good (`MADV_NOHUGEPAGE`) is not observed, so one that was refused may be eligible soon: QEMU
//! forbids huge pages only while a guest's memory comes page by page. And after a fork, 6.1 and 6.12 refuse a region whose
//! pages are all write-protected, until the program writes to it; 6.18 does not.
//!
//! No wait is longer than [`LONGEST_WAIT`]. A success ends the wait of its region. A promotion that finds memory after the
//! wait ends that of its process, and a demotion that gives something back ends that of its process's demotions. The cause of a lack is either the machine's memory or the process's memory
//! cgroup, and only the second concerns it alone, so each process finds out for itself. Promotions to giant pages wait
//! apart from those to huge pages: chunks run out long before blocks do.
//!
//! Whether a demotion was in vain depends on what it was for ([`crate::Policy::demotes_to_give_back`]). It is so for shared
//! memory, and for all memory before 6.12, where the kernel keeps zero-filled base pages when it splits a huge page.
//!
//! A step costs O(failures), a question O(log failures of the process), or less where questions come in address order.

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::{PageSize, Region};
use crate::process::ProcessId;
use crate::sorted;

/// The most steps that anything waits: over five minutes at 5 s a step.
pub const LONGEST_WAIT: u32 = 64;
/// What a span without a chunk waits at first, as a power of two: 8 steps, most of a minute at 5 s. To search one costs
/// the kernel a compaction, and chunks come back slowly.
const FIRST_WAIT_FOR_A_CHUNK: u8 = 3;
/// What a region waits at first that is not eligible for a huge page, likewise: to be refused costs microseconds, but each region may be.
const FIRST_WAIT_OF_THE_REFUSED: u8 = 3;

/// Why an action is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It failed with this cause when it was last tried, or something alike of its process did.
    Failed(Cause),
    /// The machine did not say what came of it.
    Unreported,
    /// It was done and gave nothing back, or something alike of its process did.
    InVain,
    /// A dry run left it out.
    LeftOut,
}

/// How often something failed in a row, and the step from which it may be tried again.
///
/// There may be one for each of a million regions, so it is small. Steps that count are a second apart at least: 32 bits last for
/// 136 years.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    failures: u8,
    until: u32,
}

impl Wait {
    /// Twice as long as the last time.
    fn longer(self, now: u32) -> Self {
        let steps = (1_u32 << self.failures.min(31)).min(LONGEST_WAIT);
        Wait {
            failures: self.failures.saturating_add(1),
            until: now.saturating_add(1 + steps),
        }
    }

    fn at_least(self, failures: u8) -> Self {
        Wait {
            failures: self.failures.max(failures),
            ..self
        }
    }

    fn longest(now: u32) -> Self {
        Wait {
            failures: u8::MAX,
            until: now.saturating_add(1 + LONGEST_WAIT),
        }
    }

    fn for_good() -> Self {
        Wait {
            failures: u8::MAX,
            until: u32::MAX,
        }
    }

    /// Whether it goes on at this step.
    fn lasts(self, now: u32) -> bool {
        self.until > now
    }
}

/// What failed at one region.
#[derive(Clone, Copy, Debug)]
struct Failure {
    region: Region,
    kind: ActionKind,
    why: Why,
    wait: Wait,
}

impl Failure {
    fn key(&self) -> (Region, ActionKind) {
        (self.region, self.kind)
    }
}

/// What failed in one process.
#[derive(Debug)]
struct OfProcess {
    process: ProcessId,
    /// All its actions wait.
    permission: Wait,
    /// Its promotions to huge pages wait.
    blocks: Wait,
    /// Its promotions to giant pages wait.
    chunks: Wait,
    /// Its demotions wait.
    giving_back: Wait,
    /// By region and kind of action.
    regions: Vec<Failure>,
    /// What was learnt in this step and is not in `regions` yet: no action is tried twice in a step. `None` is to be
    /// forgotten.
    news: Vec<((Region, ActionKind), Option<Failure>)>,
}

impl OfProcess {
    fn new(process: ProcessId) -> Self {
        OfProcess {
            process,
            permission: Wait::default(),
            blocks: Wait::default(),
            chunks: Wait::default(),
            giving_back: Wait::default(),
            regions: Vec::new(),
            news: Vec::new(),
        }
    }

    /// The wait for memory for pages of that size.
    fn memory(&self, size: PageSize) -> Wait {
        match size {
            PageSize::Base | PageSize::Huge => self.blocks,
            PageSize::Giant => self.chunks,
        }
    }

    fn memory_mut(&mut self, size: PageSize) -> &mut Wait {
        match size {
            PageSize::Base | PageSize::Huge => &mut self.blocks,
            PageSize::Giant => &mut self.chunks,
        }
    }

    /// Why all actions of this kind wait.
    fn holds_all(&self, kind: ActionKind, now: u32) -> Option<Why> {
        if self.permission.lasts(now) {
            Some(Why::Failed(Cause::NotPermitted))
        } else if kind.is_promotion() && self.memory(kind.page_size()).lasts(now) {
            Some(Why::Failed(Cause::NoMemory))
        } else if kind == ActionKind::Demote && self.giving_back.lasts(now) {
            Some(Why::InVain)
        } else {
            None
        }
    }

    fn at(&self, action: &Action, near: &mut usize) -> Option<&Failure> {
        let key = (action.target.region, action.kind);
        // Where all of a mapping failed, one is as many places on as it is regions on.
        let by_distance = self.regions.get(*near).and_then(|last| {
            let distance = key.0.distance_from(last.region);
            near.checked_add_signed(isize::try_from(distance).ok()?)
        });
        if let Some(place) = by_distance
            && let Some(failure) = self.regions.get(place)
            && failure.key() == key
        {
            *near = place;
            return Some(failure);
        }
        let place = sorted::find(&self.regions, near, &key, Failure::key)?;
        self.regions.get(place)
    }

    /// Merges the news, and drops the regions that are gone. What was in vain is remembered for its time: the kernel
    /// unmaps shared memory when it splits a page of it, which then comes back.
    fn settle(&mut self, observed: &ProcessObservation, now: u32) {
        if !self.news.is_empty() {
            self.merge_news();
        }
        let mut near = 0;
        self.regions.retain(|failure| {
            let waits_in_vain = failure.why == Why::InVain && failure.wait.lasts(now);
            let key = |seen: &RegionObservation| seen.region;
            waits_in_vain
                || sorted::find(&observed.regions, &mut near, &failure.region, key).is_some()
        });
    }

    fn merge_news(&mut self) {
        let mut news = std::mem::take(&mut self.news);
        news.sort_by_key(|(key, _)| *key);
        let mut news = news.into_iter().peekable();
        let mut merged = Vec::with_capacity(self.regions.len() + news.len());
        for old in self.regions.drain(..) {
            while let Some((_, new)) = news.next_if(|(key, _)| *key < old.key()) {
                merged.extend(new);
            }
            let mut kept = Some(old);
            while let Some((_, new)) = news.next_if(|(key, _)| *key == old.key()) {
                kept = new;
            }
            merged.extend(kept);
        }
        merged.extend(news.filter_map(|(_, new)| new));
        self.regions = merged;
    }

    fn is_empty(&self) -> bool {
        let waits = [self.permission, self.blocks, self.chunks, self.giving_back];
        self.regions.is_empty() && waits.iter().all(|wait| wait.failures == 0)
    }
}

/// What failed, and how long it is held back.
#[derive(Debug, Default)]
pub struct FailureMemory {
    step: u32,
    /// By process.
    processes: Vec<OfProcess>,
}

impl FailureMemory {
    /// Begins a step: forgets the regions and processes that are gone. Where it does not count it belongs to the step before,
    /// so that waits last no shorter where steps follow each other fast.
    pub(crate) fn begin_step(&mut self, observation: &Observation, counts: bool) {
        self.step = self.step.saturating_add(u32::from(counts));
        let step = self.step;
        self.processes.retain_mut(|failed| {
            let key = |seen: &ProcessObservation| seen.process;
            let place = observation
                .processes
                .binary_search_by_key(&failed.process, key);
            let Some(observed) = place
                .ok()
                .and_then(|place| observation.processes.get(place))
            else {
                return false;
            };
            failed.settle(observed, step);
            !failed.is_empty()
        });
    }

    /// Why this action has to wait, if it has to.
    #[must_use]
    pub fn holds(&self, action: &Action) -> Option<Why> {
        self.asker().holds(action)
    }

    /// Whether no chunk was found for this span, named by its first region, when it was last tried to map it by a giant
    /// page, and it is not time to try again.
    #[must_use]
    pub fn lacks_a_chunk(&self, span: RegionRef) -> bool {
        let action = Action {
            kind: ActionKind::PromoteGiant,
            target: span,
        };
        let failed = self.of(span.process);
        let failure = failed.and_then(|failed| failed.at(&action, &mut 0));
        failure.is_some_and(|failure| {
            failure.wait.lasts(self.step) && failure.why == Why::Failed(Cause::NoMemory)
        })
    }

    /// Why all actions of this kind on this process have to wait, if they have to.
    pub(crate) fn holds_all(&self, process: ProcessId, kind: ActionKind) -> Option<Why> {
        self.of(process)?.holds_all(kind, self.step)
    }

    /// Somebody with many questions, most of them in address order.
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            memory: self,
            near: vec![0; self.processes.len()],
            last: 0,
        }
    }

    /// Whether something alike failed when it was last tried, so that trying little is wise: there was no memory for
    /// such a page, or a demotion gave nothing back.
    pub(crate) fn is_doubtful(&self, action: &Action) -> bool {
        let Some(failed) = self.of(action.target.process) else {
            return false;
        };
        let wait = match action.kind {
            ActionKind::Promote | ActionKind::PromoteGiant => {
                failed.memory(action.kind.page_size())
            }
            ActionKind::Demote => failed.giving_back,
            ActionKind::DemoteGiant | ActionKind::FreeZero => Wait::default(),
        };
        wait.failures > 0
    }

    /// Notes that a demotion was done, and gave something back or was in vain.
    pub(crate) fn record_demotion(&mut self, action: &Action, in_vain: bool) {
        let (now, process) = (self.step, action.target.process);
        if in_vain {
            self.hold(action, Why::InVain, |_| Wait::longest(now));
            let wait = &mut self.of_mut(process).giving_back;
            // What is in vain in one step counts once.
            if !wait.lasts(now) {
                *wait = wait.longer(now);
            }
        } else if self.of(process).is_some() {
            self.of_mut(process).giving_back = Wait::default();
        }
    }

    /// Notes what came of an action; `None` when the machine did not say.
    pub(crate) fn record(&mut self, action: &Action, outcome: Option<Outcome>) {
        let now = self.step;
        match outcome {
            Some(Outcome::Done { .. } | Outcome::Remapped { .. }) => {
                self.forget(action);
                self.memory_was_had(action);
            }
            Some(Outcome::AlreadySo | Outcome::Failed(Cause::Gone)) => self.forget(action),
            Some(Outcome::NotTried) => self.hold(action, Why::LeftOut, |_| Wait::for_good()),
            Some(Outcome::Failed(cause)) => {
                let why = Why::Failed(cause);
                match cause {
                    Cause::NoMemory => {
                        let first = match action.kind {
                            ActionKind::PromoteGiant => FIRST_WAIT_FOR_A_CHUNK,
                            _ => 0,
                        };
                        self.hold(action, why, |wait| wait.at_least(first).longer(now));
                        self.memory_was_short(action);
                    }
                    Cause::NotEligible => self.hold(action, why, |wait| match action.kind {
                        ActionKind::Promote => wait.at_least(FIRST_WAIT_OF_THE_REFUSED).longer(now),
                        _ => Wait::longest(now),
                    }),
                    Cause::NotPermitted => {
                        self.of_mut(action.target.process).permission = Wait::longest(now);
                    }
                    Cause::Busy | Cause::NotHuge | Cause::Gone => {
                        self.hold(action, why, |wait| wait.longer(now));
                    }
                }
            }
            None => self.hold(action, Why::Unreported, |wait| wait.longer(now)),
        }
    }

    fn of(&self, process: ProcessId) -> Option<&OfProcess> {
        let place = self
            .processes
            .binary_search_by_key(&process, |failed| failed.process);
        self.processes.get(place.ok()?)
    }

    fn of_mut(&mut self, process: ProcessId) -> &mut OfProcess {
        let key = |failed: &OfProcess| failed.process;
        let place = match self.processes.binary_search_by_key(&process, key) {
            Ok(known) => known,
            Err(place) => {
                self.processes.insert(place, OfProcess::new(process));
                place
            }
        };
        &mut self.processes[place]
    }

    fn hold(&mut self, action: &Action, why: Why, wait: impl FnOnce(Wait) -> Wait) {
        let failed = self.of_mut(action.target.process);
        let before = failed.at(action, &mut 0).map(|failure| failure.wait);
        let failure = Failure {
            region: action.target.region,
            kind: action.kind,
            why,
            wait: wait(before.unwrap_or_default()),
        };
        failed.news.push((failure.key(), Some(failure)));
    }

    fn forget(&mut self, action: &Action) {
        let process = action.target.process;
        if self.of(process).is_some() {
            let key = (action.target.region, action.kind);
            self.of_mut(process).news.push((key, None));
        }
    }

    fn memory_was_short(&mut self, action: &Action) {
        let now = self.step;
        let failed = self.of_mut(action.target.process);
        let wait = failed.memory_mut(action.kind.page_size());
        // Failures of one step count once.
        if !wait.lasts(now) {
            *wait = wait.longer(now);
        }
    }

    /// A promotion after the wait shows that there is memory again. One in the step of the failure itself shows
    /// nothing.
    fn memory_was_had(&mut self, action: &Action) {
        let (now, process) = (self.step, action.target.process);
        if action.kind.is_promotion() && self.of(process).is_some() {
            let wait = self.of_mut(process).memory_mut(action.kind.page_size());
            if !wait.lasts(now) {
                *wait = Wait::default();
            }
        }
    }
}

/// Asks a [`FailureMemory`], and remembers where it found the last answer.
pub(crate) struct Asker<'a> {
    memory: &'a FailureMemory,
    /// Of each process, where the last search ended.
    near: Vec<usize>,
    /// The process asked about last.
    last: usize,
}

impl Asker<'_> {
    /// As [`FailureMemory::holds`].
    pub(crate) fn holds(&mut self, action: &Action) -> Option<Why> {
        let (process, now) = (action.target.process, self.memory.step);
        let key = |failed: &OfProcess| failed.process;
        let place = sorted::find(&self.memory.processes, &mut self.last, &process, key)?;
        let failed = self.memory.processes.get(place)?;
        failed.holds_all(action.kind, now).or_else(|| {
            let failure = failed.at(action, self.near.get_mut(place)?)?;
            failure.wait.lasts(now).then_some(failure.why)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::HUGE_PAGE_SIZE;
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
                cpu_time: None,
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
        let mut memory = FailureMemory::default();
        (0..steps)
            .filter(|_| {
                memory.begin_step(&observed, true);
                let tried = memory.holds(&action).is_none();
                if tried {
                    memory.record(&action, outcome);
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
    fn what_is_not_permitted_is_tried_rarely_from_the_start() {
        let refused = Some(Outcome::Failed(Cause::NotPermitted));
        assert_eq!(tries(promote(1, 0), refused, 140), [0, 65, 130]);
    }

    #[test]
    fn what_is_not_eligible_may_be_so_soon() {
        let refused = Some(Outcome::Failed(Cause::NotEligible));
        assert_eq!(tries(promote(1, 0), refused, 130), [0, 9, 26, 59, 124]);
        let giant = Action {
            kind: ActionKind::PromoteGiant,
            ..promote(1, 0)
        };
        assert_eq!(tries(giant, refused, 140), [0, 65, 130]);
    }

    #[test]
    fn no_memory_holds_the_whole_process_but_no_other() {
        let mut memory = FailureMemory::default();
        memory.begin_step(&observation(2, 4), true);
        memory.record(&promote(1, 0), Some(Outcome::Failed(Cause::NoMemory)));
        assert!(memory.holds(&promote(1, 3)).is_some());
        assert_eq!(memory.holds(&promote(2, 3)), None);
        let demote = Action {
            kind: ActionKind::Demote,
            ..promote(1, 3)
        };
        assert_eq!(memory.holds(&demote), None, "demoting needs no memory");
    }

    #[test]
    fn the_process_waits_longer_each_time_until_a_promotion_works() {
        let observed = observation(1, 64);
        let mut memory = FailureMemory::default();
        let mut tried = Vec::new();
        for step in 0..40 {
            memory.begin_step(&observed, true);
            // Another region each time: only the process's own wait counts.
            let action = promote(1, step);
            if memory.holds(&action).is_none() {
                tried.push(step);
                memory.record(&action, Some(Outcome::Failed(Cause::NoMemory)));
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
        let mut memory = FailureMemory::default();
        memory.begin_step(&observation(1, 4), true);
        memory.record(&giant(1, 0), Some(Outcome::Failed(Cause::NoMemory)));
        assert!(memory.holds(&giant(1, 3)).is_some());
        assert_eq!(
            memory.holds(&promote(1, 0)),
            None,
            "the region by which the span is named is not the span"
        );
        assert_eq!(memory.holds(&promote(1, 3)), None);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut memory = FailureMemory::default();
        memory.begin_step(&observation(1, 4), true);
        memory.record(&promote(1, 3), Some(Outcome::Failed(Cause::Busy)));
        memory.record(&promote(1, 2), Some(Outcome::Failed(Cause::Gone)));
        memory.begin_step(&observation(1, 4), true);
        assert_eq!(memory.holds(&promote(1, 3)), Some(Why::Failed(Cause::Busy)));
        assert_eq!(memory.holds(&promote(1, 2)), None);
        memory.begin_step(&observation(1, 3), true);
        assert!(memory.processes.is_empty());
    }

    #[test]
    fn a_span_without_a_chunk_waits_longer_from_the_start() {
        let giant = Action {
            kind: ActionKind::PromoteGiant,
            ..promote(1, 0)
        };
        let none = Some(Outcome::Failed(Cause::NoMemory));
        assert_eq!(tries(giant, none, 130), [0, 9, 26, 59, 124]);
    }

    #[test]
    fn another_kind_of_action_waits_apart() {
        let mut memory = FailureMemory::default();
        let demote = Action {
            kind: ActionKind::Demote,
            ..promote(1, 1)
        };
        memory.begin_step(&observation(1, 4), true);
        memory.record(&promote(1, 1), Some(Outcome::Failed(Cause::NotEligible)));
        memory.begin_step(&observation(1, 4), true);
        assert!(memory.holds(&promote(1, 1)).is_some());
        assert_eq!(memory.holds(&demote), None);
    }

    #[test]
    fn a_success_ends_the_wait() {
        let mut memory = FailureMemory::default();
        memory.begin_step(&observation(1, 4), true);
        memory.record(&promote(1, 1), Some(Outcome::Failed(Cause::Busy)));
        memory.begin_step(&observation(1, 4), true);
        memory.record(&promote(1, 1), Some(Outcome::AlreadySo));
        memory.begin_step(&observation(1, 4), true);
        assert_eq!(memory.holds(&promote(1, 1)), None);
        assert!(memory.processes.is_empty());
    }

    #[test]
    fn what_is_in_vain_waits_by_region_and_process_and_comes_to_an_end() {
        let demote = |pid, region| Action {
            kind: ActionKind::Demote,
            ..promote(pid, region)
        };
        let mut memory = FailureMemory::default();
        let mut tried = Vec::new();
        for step in 0..140 {
            // Shared memory is not mapped for a while after it was split.
            memory.begin_step(&observation(2, if step % 2 == 0 { 4 } else { 200 }), true);
            assert_eq!(memory.holds(&demote(2, step)), None, "nobody else's");
            assert_eq!(memory.holds(&promote(1, step)), None);
            if memory.holds(&demote(1, step)).is_none() {
                tried.push(step);
                memory.record_demotion(&demote(1, step), true);
            }
            if step == 100 {
                assert_eq!(memory.holds(&demote(1, 69)), Some(Why::InVain));
            }
        }
        assert_eq!(tried, [0, 2, 5, 10, 19, 36, 69, 134]);
        memory.record_demotion(&demote(1, 150), false);
        assert_eq!(memory.holds(&demote(1, 160)), None, "it gives back again");
    }
}
