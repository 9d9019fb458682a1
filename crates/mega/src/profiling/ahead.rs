//! Makes huge pages ready ahead of a program whose profile says so, and gives back what was wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use mega_core::profile::{Ahead, MappingKind, Verdict, WASTE_ALLOWED};
use mega_core::{
    Action, ActionKind, Machine, Outcome, PAGES_PER_REGION, ProcessId, Region, RegionRef,
};
use mega_linux::profile::{self, Look};
use mega_linux::settings::fault::FaultMode;

use super::subject::{Followed, Subject};
use super::watcher::Watcher;

/// How long making ready may take in one turn: the program must not get far ahead meanwhile.
const A_TURN: Duration = Duration::from_millis(15);
/// Regions made ready in one turn at most, and in the first; and promoted in one turn.
const AT_ONCE: u32 = 64;
const AT_ONCE_FIRST: u32 = 8;
const PROMOTED_AT_ONCE: usize = 16;
/// Regions promoted before it is known what one takes.
const PROMOTED_FIRST: usize = 4;
/// Zero-filled base pages of a region, as a share, from which on the program counts as not having come to it: its Accessed bit tells
/// that less surely.
const NEARLY_ALL: f64 = 0.9;
/// Memory that stays available on the machine, in parts of all of it, and in a cgroup with a limit.
const KEPT_AVAILABLE: u64 = 16;

impl Watcher {
    /// Gives back what was made huge where the program turns out not to use it, and goes ahead no more.
    pub(super) fn give_up_where_wrong(&mut self, process: ProcessId, subject: &mut Subject) {
        let summary = subject.learner.summary();
        let Some(mut profile) = subject.profile.clone() else {
            return;
        };
        if subject.followed.is_empty() || profile.learn(&summary).is_empty() {
            return;
        }
        let followed = std::mem::take(&mut subject.followed);
        let made = followed.into_values().flat_map(|one| one.made);
        let made: Vec<Region> = made.collect();
        // The others are as they should be: to break them up would gain nothing.
        subject.done.given_back += self.give_back(process, &made, WASTE_ALLOWED);
        subject.found_wrong = Some(summary);
    }

    fn act(&mut self, process: ProcessId, kind: ActionKind, regions: &[Region]) -> Vec<Outcome> {
        let actions: Vec<Action> = regions
            .iter()
            .map(|&region| Action {
                kind,
                target: RegionRef { process, region },
            })
            .collect();
        // Its mappings are read anew: they change all the time while it is young.
        self.machine.set_targets(Vec::new());
        self.machine.act(&actions)
    }

    /// Makes huge pages ready where the profile says so. Returns whether any were: the program goes on meanwhile.
    pub(super) fn go_ahead(
        &mut self,
        process: ProcessId,
        subject: &mut Subject,
        look: &Look,
    ) -> bool {
        let leave_alone = self.faults == FaultMode::Inherit || !subject.is_ours;
        if leave_alone || subject.found_wrong.is_some() {
            return false;
        }
        let Some(profile) = &subject.profile else {
            return false;
        };
        let there = |start: &u64| look.mappings.iter().any(|part| part.range.start == *start);
        subject.followed.retain(|start, _| there(start));
        let with_accesses = self.host.tracker_kind().knows_accesses();
        let now = self.host.kernel().now();
        let mut acted = false;
        for part in &look.mappings {
            if profile.verdict(part.class) != Verdict::Huge {
                continue;
            }
            let followed = subject.followed.entry(part.range.start);
            let followed = followed.or_insert_with(|| Followed {
                ahead: Ahead::new(profile.touched(part.class)),
                made: BTreeSet::new(),
                at_once: AT_ONCE_FIRST,
                may: None,
            });
            let private = part.class.kind != MappingKind::Shared;
            let may = private && with_accesses && followed.may != Some(false);
            let plan = followed.ahead.plan(now, &part.range, &part.regions, may);
            let age = now.saturating_sub(subject.began);
            let took = subject.promotion.unwrap_or_default();
            // As with `adaptive`: where nobody can measure what it gains, it is taken to gain.
            let pays = !self.machine.measures()
                || profile.promotion_pays(age.as_secs_f64(), took.as_secs_f64());
            let made = self.make_ready(process, followed, plan.ready);
            subject.done.ready += made.unwrap_or_default();
            // What it has begun can wait, what it comes to next cannot.
            if made.is_none() && pays {
                subject.done.promoted +=
                    self.promote(process, followed, plan.promote, &mut subject.promotion);
            }
            subject.done.given_back += self.give_back(process, &plan.give_back, NEARLY_ALL);
            acted |= made.is_some();
        }
        acted
    }

    /// Makes the first ones of these regions ready. Returns how many are; `None` where none was tried.
    fn make_ready(
        &mut self,
        process: ProcessId,
        followed: &mut Followed,
        mut regions: Vec<Region>,
    ) -> Option<u64> {
        let first = regions.first()?;
        let may = *followed
            .may
            .get_or_insert_with(|| profile::may_be_made_ready(&self.host, process, first.start()));
        if !may || !self.has_memory(process) {
            return None;
        }
        regions.truncate(usize::try_from(followed.at_once).unwrap_or(1));
        regions.sort_unstable();
        let began = self.host.kernel().now();
        let ready = profile::make_ready(&self.host, process, &regions).unwrap_or_default();
        let took = self.host.kernel().now().saturating_sub(began);
        followed.at_once = fitting(A_TURN, regions.len(), took);
        // What comes after the first one that was refused may not have been tried.
        let refused = regions.iter().find(|region| !ready.contains(region));
        followed.ahead.refused(refused.copied());
        followed.made.extend(&ready);
        let made = ready.len() as u64;
        followed.ahead.made_ready(ready);
        Some(made)
    }

    /// Promotes regions that the program has begun, and notes what one takes. Returns how many are huge now.
    fn promote(
        &mut self,
        process: ProcessId,
        followed: &mut Followed,
        mut regions: Vec<Region>,
        each: &mut Option<Duration>,
    ) -> u64 {
        regions.truncate(if each.is_some() {
            PROMOTED_AT_ONCE
        } else {
            PROMOTED_FIRST
        });
        let tried = u32::try_from(regions.len()).unwrap_or(u32::MAX);
        if tried == 0 {
            return 0;
        }
        let began = self.host.kernel().now();
        let outcomes = self.act(process, ActionKind::Promote, &regions);
        let took = self.host.kernel().now().saturating_sub(began);
        *each = Some(took / tried);
        let mut promoted = 0;
        for (region, outcome) in regions.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Failed(_) => followed.ahead.refused([region]),
                _ => {
                    followed.made.insert(region);
                    promoted += 1;
                }
            }
        }
        promoted
    }

    /// Gives back those of which more than a share of the base pages are zero-filled. Returns how many these were.
    fn give_back(&mut self, process: ProcessId, regions: &[Region], share: f64) -> u64 {
        let is_unused = |region: &Region| {
            let target = RegionRef {
                process,
                region: *region,
            };
            let zeros = self.machine.count_zero_filled(target);
            zeros.is_some_and(|zeros| f64::from(zeros) > share * f64::from(PAGES_PER_REGION))
        };
        let unused: Vec<Region> = regions.iter().copied().filter(is_unused).collect();
        let outcomes = self.act(process, ActionKind::Demote, &unused);
        count_done(&outcomes)
    }

    /// Whether there is memory to make ready.
    fn has_memory(&self, process: ProcessId) -> bool {
        let available = profile::available(self.host.kernel().as_ref(), process);
        available.is_ok_and(|left| {
            left.iter()
                .all(|&(available, of)| available >= of / KEPT_AVAILABLE)
        })
    }
}

/// How many regions fit into `turn` when `regions` took `took`: at most twice as many as were tried.
fn fitting(turn: Duration, regions: usize, took: Duration) -> u32 {
    let regions = u32::try_from(regions).unwrap_or(AT_ONCE).max(1);
    let each = (took / regions).max(Duration::from_micros(1));
    let fit = turn.as_micros() / each.as_micros();
    let most = (regions * 2).min(AT_ONCE);
    u32::try_from(fit).unwrap_or(most).clamp(1, most)
}

fn count_done(outcomes: &[Outcome]) -> u64 {
    let is_done = |outcome: &&Outcome| matches!(outcome, Outcome::Done { .. });
    outcomes.iter().filter(is_done).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_stays_short() {
        let ms = Duration::from_millis;
        assert_eq!(fitting(ms(15), 8, ms(8)), 15);
        assert_eq!(fitting(ms(15), 8, ms(1)), 16);
        assert_eq!(fitting(ms(15), 64, ms(2200)), 1);
        assert_eq!(fitting(ms(15), 64, Duration::ZERO), AT_ONCE);
        assert_eq!(fitting(ms(15), 0, ms(20)), 1);
    }
}
