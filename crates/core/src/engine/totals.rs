//! Counts of what the engine did.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use crate::action::{ActionKind, Cause, Outcome};

/// What was done, in one step or since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Steps taken.
    pub steps: u64,
    /// Regions promoted, each verified.
    pub promoted: u64,
    /// Huge pages demoted, each verified.
    pub demoted: u64,
    /// Spans promoted to a giant page, each verified.
    pub promoted_giant: u64,
    /// Giant pages demoted to huge pages, each verified.
    pub demoted_giant: u64,
    /// Spans of which zero-filled huge pages were given back, each verified.
    pub freed_zero: u64,
    /// Actions whose region was as wanted before anything was done.
    pub already_so: u64,
    /// Failed actions.
    pub failures: Failures,
    /// Actions of which the machine did not say what came.
    pub unreported: u64,
    /// Promotions that a dry run left out, each region once.
    pub would_promote: u64,
    /// Demotions that a dry run left out, each region once.
    pub would_demote: u64,
    /// Promotions to giant pages that a dry run left out, each span once.
    pub would_promote_giant: u64,
    /// Demotions of giant pages that a dry run left out, each span once.
    pub would_demote_giant: u64,
    /// Spans that a dry run did not search for zero-filled huge pages, each once.
    pub would_free_zero: u64,
    /// Bytes that promotions copied: what was resident before; for a giant page what had to be moved.
    pub bytes_copied: u64,
    /// Bytes that demotions gave back, and searches for zero-filled huge pages.
    pub bytes_given_back: u64,
    /// Bytes that promotions added to what is resident.
    pub bloat_bytes_added: u64,
    /// Regions whose zero-filled base pages were counted.
    pub inspected: u64,
    /// Actions that the policy wanted and a budget put off, each time anew.
    pub deferred_by_budget: u64,
    /// Actions that the policy wanted and that were held back because they failed before, each time anew.
    pub backed_off: u64,
    /// Promotions that the policy wanted and that were held back because a part of the region is swapped out, each time
    /// anew.
    pub held_for_swap: u64,
}

/// Failed actions by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// Failed promotions.
    pub promote: BTreeMap<Cause, u64>,
    /// Failed demotions.
    pub demote: BTreeMap<Cause, u64>,
    /// Failed promotions to giant pages.
    pub promote_giant: BTreeMap<Cause, u64>,
    /// Failed demotions of giant pages.
    pub demote_giant: BTreeMap<Cause, u64>,
    /// Spans that kept all their zero-filled huge pages.
    pub free_zero: BTreeMap<Cause, u64>,
}

impl Failures {
    /// Failed actions of all kinds and every cause.
    #[must_use]
    pub fn count(&self) -> u64 {
        let Failures {
            promote,
            demote,
            promote_giant,
            demote_giant,
            free_zero,
        } = self;
        let kinds = [promote, demote, promote_giant, demote_giant, free_zero];
        kinds.into_iter().flat_map(BTreeMap::values).sum()
    }

    fn of(&mut self, kind: ActionKind) -> &mut BTreeMap<Cause, u64> {
        match kind {
            ActionKind::Promote => &mut self.promote,
            ActionKind::Demote => &mut self.demote,
            ActionKind::PromoteGiant => &mut self.promote_giant,
            ActionKind::DemoteGiant => &mut self.demote_giant,
            ActionKind::FreeZero => &mut self.free_zero,
        }
    }
}

impl Totals {
    /// Counts what came of one action.
    pub(super) fn record(&mut self, kind: ActionKind, outcome: Outcome) {
        match outcome {
            Outcome::Done {
                resident_before,
                resident_after,
            } => {
                *self.done(kind) += 1;
                if kind.is_promotion() {
                    self.bytes_copied += resident_before;
                    self.bloat_bytes_added += resident_after.saturating_sub(resident_before);
                } else {
                    self.bytes_given_back += resident_before.saturating_sub(resident_after);
                }
            }
            Outcome::Remapped { copied } => {
                *self.done(kind) += 1;
                self.bytes_copied += copied;
            }
            Outcome::AlreadySo => self.already_so += 1,
            Outcome::Failed(cause) => *self.failures.of(kind).entry(cause).or_default() += 1,
            Outcome::NotTried => *self.would(kind) += 1,
        }
    }

    fn done(&mut self, kind: ActionKind) -> &mut u64 {
        match kind {
            ActionKind::Promote => &mut self.promoted,
            ActionKind::Demote => &mut self.demoted,
            ActionKind::PromoteGiant => &mut self.promoted_giant,
            ActionKind::DemoteGiant => &mut self.demoted_giant,
            ActionKind::FreeZero => &mut self.freed_zero,
        }
    }

    fn would(&mut self, kind: ActionKind) -> &mut u64 {
        match kind {
            ActionKind::Promote => &mut self.would_promote,
            ActionKind::Demote => &mut self.would_demote,
            ActionKind::PromoteGiant => &mut self.would_promote_giant,
            ActionKind::DemoteGiant => &mut self.would_demote_giant,
            ActionKind::FreeZero => &mut self.would_free_zero,
        }
    }
}

impl AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Totals) {
        // Taken apart so that a new field cannot be forgotten here.
        let Totals {
            steps,
            promoted,
            demoted,
            promoted_giant,
            demoted_giant,
            freed_zero,
            already_so,
            failures,
            unreported,
            would_promote,
            would_demote,
            would_promote_giant,
            would_demote_giant,
            would_free_zero,
            bytes_copied,
            bytes_given_back,
            bloat_bytes_added,
            inspected,
            deferred_by_budget,
            backed_off,
            held_for_swap,
        } = other;
        self.steps += steps;
        self.promoted += promoted;
        self.demoted += demoted;
        self.promoted_giant += promoted_giant;
        self.demoted_giant += demoted_giant;
        self.freed_zero += freed_zero;
        self.already_so += already_so;
        self.failures += failures;
        self.unreported += unreported;
        self.would_promote += would_promote;
        self.would_demote += would_demote;
        self.would_promote_giant += would_promote_giant;
        self.would_demote_giant += would_demote_giant;
        self.would_free_zero += would_free_zero;
        self.bytes_copied += bytes_copied;
        self.bytes_given_back += bytes_given_back;
        self.bloat_bytes_added += bloat_bytes_added;
        self.inspected += inspected;
        self.deferred_by_budget += deferred_by_budget;
        self.backed_off += backed_off;
        self.held_for_swap += held_for_swap;
    }
}

impl AddAssign<&Failures> for Failures {
    fn add_assign(&mut self, other: &Failures) {
        let Failures {
            promote,
            demote,
            promote_giant,
            demote_giant,
            free_zero,
        } = other;
        for (sum, more) in [
            (&mut self.promote, promote),
            (&mut self.demote, demote),
            (&mut self.promote_giant, promote_giant),
            (&mut self.demote_giant, demote_giant),
            (&mut self.free_zero, free_zero),
        ] {
            for (cause, count) in more {
                *sum.entry(*cause).or_default() += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(resident_before: u64, resident_after: u64) -> Outcome {
        Outcome::Done {
            resident_before,
            resident_after,
        }
    }

    #[test]
    fn only_what_was_verified_counts_as_done() {
        let mut totals = Totals::default();
        for outcome in [
            Outcome::AlreadySo,
            Outcome::NotTried,
            Outcome::Failed(Cause::Busy),
        ] {
            totals.record(ActionKind::Promote, outcome);
            totals.record(ActionKind::Demote, outcome);
        }
        assert_eq!(
            (totals.promoted, totals.demoted, totals.bytes_copied),
            (0, 0, 0)
        );
        assert_eq!((totals.already_so, totals.failures.count()), (2, 2));
        assert_eq!((totals.would_promote, totals.would_demote), (1, 1));
    }

    #[test]
    fn bytes_are_those_resident_before_and_after() {
        let mut totals = Totals::default();
        totals.record(ActionKind::Promote, done(1000, 4000));
        totals.record(ActionKind::Demote, done(4000, 500));
        assert_eq!(
            (
                totals.bytes_copied,
                totals.bloat_bytes_added,
                totals.bytes_given_back
            ),
            (1000, 3000, 3500)
        );
    }

    #[test]
    fn giant_pages_are_counted_apart() {
        let mut totals = Totals::default();
        totals.record(ActionKind::PromoteGiant, Outcome::Remapped { copied: 3 });
        totals.record(ActionKind::DemoteGiant, Outcome::Remapped { copied: 0 });
        totals.record(ActionKind::PromoteGiant, Outcome::Failed(Cause::NotHuge));
        totals.record(ActionKind::PromoteGiant, Outcome::NotTried);
        totals += &totals.clone();
        assert_eq!((totals.promoted, totals.demoted), (0, 0));
        assert_eq!((totals.promoted_giant, totals.demoted_giant), (2, 2));
        assert_eq!((totals.bytes_copied, totals.would_promote_giant), (6, 2));
        assert_eq!(totals.failures.promote_giant[&Cause::NotHuge], 2);
        assert_eq!(totals.failures.count(), 2);
    }

    #[test]
    fn what_is_given_back_of_spans_is_counted() {
        let mut totals = Totals::default();
        totals.record(ActionKind::FreeZero, done(9000, 2000));
        totals.record(ActionKind::FreeZero, Outcome::AlreadySo);
        totals.record(ActionKind::FreeZero, Outcome::Failed(Cause::Busy));
        totals.record(ActionKind::FreeZero, Outcome::NotTried);
        totals += &totals.clone();
        assert_eq!((totals.freed_zero, totals.would_free_zero), (2, 2));
        assert_eq!((totals.bytes_given_back, totals.already_so), (14000, 2));
        assert_eq!(totals.failures.free_zero[&Cause::Busy], 2);
    }

    #[test]
    fn the_json_names_the_causes() {
        let mut totals = Totals::default();
        totals.record(ActionKind::Promote, Outcome::Failed(Cause::NoMemory));
        totals += &totals.clone();
        let json = serde_json::to_value(&totals).unwrap();
        assert_eq!(
            json["failures"],
            serde_json::json!({
                "promote": {"no_memory": 2}, "demote": {}, "promote_giant": {}, "demote_giant": {},
                "free_zero": {}
            })
        );
        assert_eq!(json["promoted"], 0);
    }
}
