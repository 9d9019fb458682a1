//! Performs actions on one process, and looks again to see what came of each.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::{Action, ActionKind, Cause, Outcome, PageSize, Region, RegionObservation, Span};

use crate::act::demote;
use crate::act::giant::{self, GiantPages};
use crate::act::promote::{self, Answer};
use crate::kernel::{Kernel, ProcessHandle};
use crate::observe::shared_pages::SharedPages;
use crate::observe::swapped_pages;
use crate::process::eligible::Mapping;
use crate::target::Held;
use crate::{Error, Host, MachineOptions};

/// Actions looked at together. Within them neighbouring regions share a call, so their order is by address; across
/// them it is the caller's.
const TOGETHER: usize = 256;

type Outcomes = BTreeMap<Region, Outcome>;

/// Cuts `actions` into runs of one kind on one process, in order.
pub(crate) fn runs(actions: &[Action]) -> impl Iterator<Item = &[Action]> {
    actions
        .chunk_by(|a, b| a.kind == b.kind && a.target.process == b.target.process)
        .flat_map(|run| run.chunks(TOGETHER))
}

/// Why nothing can be done to a process at all.
pub(crate) fn cause_of(error: &Error) -> Cause {
    match error {
        Error::Gone { .. } | Error::NotMapped { .. } => Cause::Gone,
        Error::NotPermitted { .. } | Error::Missing { .. } | Error::OtherModule { .. } => {
            Cause::NotPermitted
        }
        Error::KernelThread { .. } | Error::NotEligible { .. } | Error::NoSpan { .. } => {
            Cause::NotEligible
        }
        Error::Io { .. } | Error::Malformed { .. } | Error::Track(_) => Cause::Busy,
    }
}

/// Performs a run, and reports one outcome for each action in the order given.
pub(crate) fn perform(
    host: &Host,
    target: &mut Held,
    run: &[Action],
    options: MachineOptions,
) -> Vec<Outcome> {
    let Some(first) = run.first() else {
        return Vec::new();
    };
    let mut regions: Vec<Region> = run.iter().map(|action| action.target.region).collect();
    regions.sort_unstable();
    regions.dedup();
    // Of a span the kernel is asked, which clears no Accessed bit of it.
    let looked_at: &[Region] = match first.kind.page_size() {
        PageSize::Giant => &[],
        PageSize::Base | PageSize::Huge => &regions,
    };
    let mut work = match Work::begin(host, target, looked_at) {
        Ok(work) => work,
        Err(error) => return vec![Outcome::Failed(cause_of(&error)); run.len()],
    };
    match first.kind {
        ActionKind::Promote => work.promote(&regions, options.swap_in),
        ActionKind::Demote => work.demote(&regions, options.lock_bound),
        ActionKind::PromoteGiant | ActionKind::DemoteGiant => {
            let promotes = first.kind.is_promotion();
            regions
                .iter()
                .for_each(|&region| work.remap(region, promotes, options.swap_in));
        }
        ActionKind::FreeZero => regions.iter().for_each(|&region| work.free_zero(region)),
    }
    let outcomes = work.outcomes;
    run.iter()
        .map(|action| {
            // Every region has been given an outcome; one that has not was left for lack of an answer.
            let outcome = outcomes.get(&action.target.region).copied();
            outcome.unwrap_or(Outcome::Failed(Cause::Busy))
        })
        .collect()
}

/// A run under way.
struct Work<'a> {
    host: &'a Host,
    target: &'a mut Held,
    before: BTreeMap<Region, RegionObservation>,
    outcomes: Outcomes,
}

impl<'a> Work<'a> {
    fn begin(host: &'a Host, target: &'a mut Held, regions: &[Region]) -> Result<Self, Error> {
        let before = by_region(target.look(host, regions)?);
        Ok(Work {
            host,
            target,
            before,
            outcomes: BTreeMap::new(),
        })
    }

    fn promote(&mut self, regions: &[Region], swap_in: bool) {
        let kernel = self.host.kernel().as_ref();
        if !swap_in && !self.host.tracker_kind().counts_swapped() {
            swapped_pages::count(kernel, self.target.process.pid, self.before.values_mut());
        }
        let shared = SharedPages::of(kernel, self.target.process.pid);
        let mut candidates = Vec::new();
        for &region in regions {
            match self.before.get(&region) {
                _ if !self.is_eligible(region) => self.fail(region, Cause::NotEligible),
                None => self.fail(region, Cause::Gone),
                Some(seen) if seen.is_huge() => self.settle(region, Outcome::AlreadySo),
                Some(seen) if seen.swapped > 0 && !swap_in => self.fail(region, Cause::Busy),
                Some(seen) if shared.too_many_in(kernel, seen) => self.fail(region, Cause::Busy),
                Some(_) => candidates.push(region),
            }
        }
        let mut calls = candidates
            .chunk_by(|a, b| a.end() == b.start())
            .flat_map(|neighbours| neighbours.chunks(promote::LONGEST_CALL));
        while let Some(call) = calls.next() {
            if let Some(cause) = self.promote_neighbours(call) {
                // Another attempt now would cost the machine a compaction, or the same refusal.
                for &region in calls.by_ref().flatten() {
                    self.fail(region, cause);
                }
            }
        }
    }

    /// Promotes neighbouring regions. Returns why it is of no use to try more of this process, if so.
    fn promote_neighbours(&mut self, mut rest: &[Region]) -> Option<Cause> {
        let kernel = self.host.kernel().as_ref();
        while let Some(&first) = rest.first() {
            let answer = promote::promote(kernel, &self.target.handle, first, rest.len());
            let after = match self.target.look(self.host, rest) {
                Ok(after) => by_region(after),
                Err(error) => {
                    let cause = cause_of(&error);
                    rest.iter().for_each(|&region| self.fail(region, cause));
                    return (cause == Cause::Gone).then_some(cause);
                }
            };
            let is_huge =
                |region: &Region| after.get(region).is_some_and(RegionObservation::is_huge);
            match answer {
                Answer::All | Answer::SomeNot(_) => {
                    let cause = match answer {
                        Answer::SomeNot(cause) => cause,
                        // It was promoted, and is so no more: something else had its hands on it.
                        _ => Cause::Busy,
                    };
                    for &region in rest {
                        self.settle_promotion(region, &after, cause);
                    }
                    return None;
                }
                Answer::Stopped(cause) => {
                    let stopped_at = rest.iter().position(|region| !is_huge(region));
                    let Some(stopped_at) = stopped_at else {
                        // A region that failed was promoted by somebody else meanwhile.
                        rest.iter()
                            .for_each(|&region| self.settle_promotion(region, &after, cause));
                        return None;
                    };
                    let cause = self.refine(rest[stopped_at], cause);
                    let (tried, untried) = rest.split_at(stopped_at + 1);
                    for &region in tried {
                        self.settle_promotion(region, &after, cause);
                    }
                    let hopeless = match cause {
                        Cause::NoMemory | Cause::NotPermitted => true,
                        Cause::Gone => !crate::process::is_alive(kernel, self.target.process),
                        Cause::Busy | Cause::NotEligible | Cause::NotHuge => false,
                    };
                    if hopeless {
                        for &region in untried {
                            self.settle_promotion(region, &after, cause);
                        }
                        return Some(cause);
                    }
                    rest = untried;
                }
            }
        }
        None
    }

    fn settle_promotion(
        &mut self,
        region: Region,
        after: &BTreeMap<Region, RegionObservation>,
        cause: Cause,
    ) {
        match after.get(&region) {
            Some(seen) if seen.is_huge() => self.done(region, seen.resident_bytes()),
            Some(_) => self.fail(region, cause),
            None => self.fail(region, Cause::Gone),
        }
    }

    /// The kernel gives the same error for a mapping that is no longer there as for one that cannot be promoted, or
    /// for lack of memory: tells them apart.
    fn refine(&self, region: Region, cause: Cause) -> Cause {
        match cause {
            Cause::NoMemory | Cause::NotEligible => match self.mapping(region) {
                Ok(Some(_)) => cause,
                Ok(None) => Cause::Gone,
                Err(error) => cause_of(&error),
            },
            other => other,
        }
    }

    fn demote(&mut self, regions: &[Region], lock_bound: Duration) {
        let mut candidates = Vec::new();
        for &region in regions {
            match self.before.get(&region).map(|seen| seen.page_size) {
                _ if !self.is_eligible(region) => self.fail(region, Cause::NotEligible),
                None => self.fail(region, Cause::Gone),
                Some(PageSize::Base) => self.settle(region, Outcome::AlreadySo),
                // The kernel breaks up a giant page first where a part of it is split.
                Some(PageSize::Huge | PageSize::Giant) => candidates.push(region),
            }
        }
        let mut rest = candidates.as_slice();
        while !rest.is_empty() {
            let started = self.host.kernel().now();
            let mut per_split = self.target.per_split;
            let kernel = self.host.kernel().as_ref();
            let handle = &self.target.handle;
            let answer = demote::demote(kernel, handle, rest, lock_bound, &mut per_split);
            self.target.per_split = per_split;
            let took = self.host.kernel().now().saturating_sub(started);
            self.target.longest_hold = self.target.longest_hold.max(took);
            let (tried, untried) = rest.split_at(answer.tried.clamp(1, rest.len()));
            rest = untried;
            match self.target.look(self.host, tried) {
                Ok(after) => {
                    let after = by_region(after);
                    for &region in tried {
                        self.settle_demotion(region, &after, answer.refused);
                    }
                }
                Err(error) => {
                    let cause = cause_of(&error);
                    tried.iter().for_each(|&region| self.fail(region, cause));
                }
            }
        }
    }

    fn settle_demotion(
        &mut self,
        region: Region,
        after: &BTreeMap<Region, RegionObservation>,
        refused: Option<Cause>,
    ) {
        match after.get(&region) {
            // Success without effect: shared after fork, or pinned.
            Some(seen) if seen.is_huge() => self.fail(region, refused.unwrap_or(Cause::Busy)),
            Some(seen) => self.done(region, seen.resident_bytes()),
            None => match self.mapping(region) {
                // Shared memory is unmapped by its split and comes back by base pages; nothing is given back.
                Ok(Some(mapping)) if mapping.shared => {
                    self.done(region, self.resident_before(region))
                }
                // Every base page was filled with zeros.
                Ok(Some(_)) => self.done(region, 0),
                Ok(None) => self.fail(region, Cause::Gone),
                Err(error) => self.fail(region, cause_of(&error)),
            },
        }
    }

    /// Maps the span of a region by a giant page, or no longer by one, and looks. A giant page may be made of base pages where
    /// what is swapped out may be read.
    fn remap(&mut self, region: Region, to_giant: bool, swap_in: bool) {
        let span = Span::of(region);
        let eligible = self.holds(span.start(), span.end());
        let Some(mut giant_pages) = self.host.giant_pages().filter(|_| eligible) else {
            return self.fail(region, Cause::NotEligible);
        };
        let handle = &self.target.handle;
        let answer = if !to_giant {
            giant_pages.demote(handle, span)
        } else if swap_in && giant_pages.can_collapse() {
            collapse(self.host.kernel().as_ref(), &mut giant_pages, handle, span)
        } else {
            giant_pages.promote(handle, span, false)
        };
        let outcome = match (answer, giant_pages.is_giant(handle, span)) {
            (giant::Answer::Refused(cause), _) | (_, Err(cause)) => Outcome::Failed(cause),
            // Something else had its hands on it.
            (_, Ok(is_giant)) if is_giant != to_giant => Outcome::Failed(Cause::Busy),
            (giant::Answer::AlreadySo, Ok(_)) => Outcome::AlreadySo,
            (giant::Answer::Done { copied, exchanged }, Ok(_)) => {
                Outcome::Remapped { copied, exchanged }
            }
        };
        drop(giant_pages);
        self.settle(region, outcome);
    }

    /// Gives back the zero-filled huge pages of a region's span, and looks how much less is resident.
    fn free_zero(&mut self, region: Region) {
        let span = Span::of(region);
        let eligible = self.holds(span.start(), span.end());
        let Some(mut giant_pages) = self
            .host
            .giant_pages()
            .filter(|giant_pages| eligible && giant_pages.can_free_zero())
        else {
            return self.fail(region, Cause::NotEligible);
        };
        let outcome = freed(&mut giant_pages, &self.target.handle, span);
        drop(giant_pages);
        self.settle(region, outcome.unwrap_or_else(Outcome::Failed));
    }

    fn is_eligible(&self, region: Region) -> bool {
        self.holds(region.start(), region.end())
    }

    /// Whether one eligible range holds all of these addresses.
    fn holds(&self, start: u64, end: u64) -> bool {
        self.target
            .ranges
            .iter()
            .any(|range| range.start <= start && end <= range.end)
    }

    /// The one mapping that holds the whole region now, if there is one.
    fn mapping(&self, region: Region) -> Result<Option<Mapping>, Error> {
        let mappings = self.target.mappings(self.host)?;
        Ok(mappings.into_iter().find(|mapping| {
            mapping.range.start <= region.start() && region.end() <= mapping.range.end
        }))
    }

    fn resident_before(&self, region: Region) -> u64 {
        self.before
            .get(&region)
            .map_or(0, RegionObservation::resident_bytes)
    }

    fn done(&mut self, region: Region, resident_after: u64) {
        let resident_before = self.resident_before(region);
        self.settle(
            region,
            Outcome::Done {
                resident_before,
                resident_after,
            },
        );
    }

    fn fail(&mut self, region: Region, cause: Cause) {
        self.settle(region, Outcome::Failed(cause));
    }

    fn settle(&mut self, region: Region, outcome: Outcome) {
        self.outcomes.insert(region, outcome);
    }
}

/// Maps a span by a giant page, of which base pages may map some, unless a fork left too many of these shared: the kernel
/// does not check that, as for `MADV_COLLAPSE`.
fn collapse(
    kernel: &dyn Kernel,
    giant_pages: &mut GiantPages,
    process: &ProcessHandle,
    span: Span,
) -> giant::Answer {
    let shared = SharedPages::of(kernel, process.pid());
    match giant_pages.of_base_pages(process, span) {
        Err(cause) => giant::Answer::Refused(cause),
        Ok(regions) if regions.iter().any(|seen| shared.too_many_in(kernel, seen)) => {
            giant::Answer::Refused(Cause::Busy)
        }
        Ok(_) => giant_pages.promote(process, span, true),
    }
}

/// What came of giving back the zero-filled huge pages of a span.
fn freed(
    giant_pages: &mut GiantPages,
    process: &ProcessHandle,
    span: Span,
) -> Result<Outcome, Cause> {
    let resident_before = giant_pages.resident(process, span)?;
    let freed = giant_pages.free_zero(process, span)?;
    let resident_after = giant_pages.resident(process, span)?;
    Ok(if freed.looked_at == 0 {
        // No huge page, or memory that is locked, read-only or somebody else's to supply.
        Outcome::Failed(Cause::NotEligible)
    } else if resident_after < resident_before {
        Outcome::Done {
            resident_before,
            resident_after,
        }
    } else if freed.freed + freed.busy > 0 {
        Outcome::Failed(Cause::Busy)
    } else {
        Outcome::AlreadySo
    })
}

fn by_region(observations: Vec<RegionObservation>) -> BTreeMap<Region, RegionObservation> {
    observations
        .into_iter()
        .map(|seen| (seen.region, seen))
        .collect()
}
