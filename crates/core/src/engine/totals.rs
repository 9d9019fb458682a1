//! What was done, counted.

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
    /// Bytes that promotions copied: what was resident before.
    pub bytes_copied: u64,
    /// Bytes that demotions gave back.
    pub bytes_given_back: u64,
    /// Bytes that promotions added to what is resident.
    pub bloat_bytes_added: u64,
    /// Regions whose zero-filled base pages were counted.
    pub inspected: u64,
    /// Actions that the policy wanted and a budget put off, each time anew.
    pub deferred_by_budget: u64,
    /// Actions that the policy wanted and that were held back because they failed before, each time anew.
    pub backed_off: u64,
}

/// Failed actions by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// Failed promotions.
    pub promote: BTreeMap<Cause, u64>,
    /// Failed demotions.
    pub demote: BTreeMap<Cause, u64>,
}

impl Failures {
    /// Failed actions of both kinds and every cause.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.promote.values().chain(self.demote.values()).sum()
    }

    fn of(&mut self, kind: ActionKind) -> &mut BTreeMap<Cause, u64> {
        match kind {
            ActionKind::Promote => &mut self.promote,
            ActionKind::Demote => &mut self.demote,
        }
    }
}

impl Totals {
    /// Counts what came of one action.
    pub(super) fn record(&mut self, kind: ActionKind, outcome: Outcome) {
        match (kind, outcome) {
            (
                ActionKind::Promote,
                Outcome::Done {
                    resident_before,
                    resident_after,
                },
            ) => {
                self.promoted += 1;
                self.bytes_copied += resident_before;
                self.bloat_bytes_added += resident_after.saturating_sub(resident_before);
            }
            (
                ActionKind::Demote,
                Outcome::Done {
                    resident_before,
                    resident_after,
                },
            ) => {
                self.demoted += 1;
                self.bytes_given_back += resident_before.saturating_sub(resident_after);
            }
            (_, Outcome::AlreadySo) => self.already_so += 1,
            (_, Outcome::Failed(cause)) => *self.failures.of(kind).entry(cause).or_default() += 1,
            (ActionKind::Promote, Outcome::NotTried) => self.would_promote += 1,
            (ActionKind::Demote, Outcome::NotTried) => self.would_demote += 1,
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
            already_so,
            failures,
            unreported,
            would_promote,
            would_demote,
            bytes_copied,
            bytes_given_back,
            bloat_bytes_added,
            inspected,
            deferred_by_budget,
            backed_off,
        } = other;
        self.steps += steps;
        self.promoted += promoted;
        self.demoted += demoted;
        self.already_so += already_so;
        for (cause, count) in &failures.promote {
            *self.failures.promote.entry(*cause).or_default() += count;
        }
        for (cause, count) in &failures.demote {
            *self.failures.demote.entry(*cause).or_default() += count;
        }
        self.unreported += unreported;
        self.would_promote += would_promote;
        self.would_demote += would_demote;
        self.bytes_copied += bytes_copied;
        self.bytes_given_back += bytes_given_back;
        self.bloat_bytes_added += bloat_bytes_added;
        self.inspected += inspected;
        self.deferred_by_budget += deferred_by_budget;
        self.backed_off += backed_off;
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
    fn the_json_names_the_causes() {
        let mut totals = Totals::default();
        totals.record(ActionKind::Promote, Outcome::Failed(Cause::NoMemory));
        totals += &totals.clone();
        let json = serde_json::to_value(&totals).unwrap();
        assert_eq!(
            json["failures"],
            serde_json::json!({"promote": {"no_memory": 2}, "demote": {}})
        );
        assert_eq!(json["promoted"], 0);
    }
}
