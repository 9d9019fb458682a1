//! Counts of what the engine did.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use crate::action::{ActionKind, Cause, Outcome};
use crate::per_kind::{self, PerKind};

/// What was done, in one step or since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Steps taken.
    pub steps: u64,
    /// Regions promoted or demoted, and spans promoted to a giant page, demoted to huge pages, or relieved of zero-filled
    /// huge pages; each verified.
    #[serde(flatten, serialize_with = "per_kind::done::serialize")]
    pub done: PerKind<u64>,
    /// Actions whose region was as wanted before anything was done.
    pub already_so: u64,
    /// Failed actions by cause. Of a search for zero-filled huge pages: spans that kept all of them.
    pub failures: PerKind<BTreeMap<Cause, u64>>,
    /// Actions whose outcome the machine did not report.
    pub unreported: u64,
    /// What a dry run left out, each region or span once.
    #[serde(flatten, serialize_with = "per_kind::left_out::serialize")]
    pub left_out: PerKind<u64>,
    /// Bytes that promotions copied: what was resident before; for a giant page what had to be moved.
    pub bytes_copied: u64,
    /// Bytes that giant pages needed moved and that the hypervisor exchanged instead of a copy.
    pub bytes_exchanged: u64,
    /// Bytes that demotions gave back, and searches for zero-filled huge pages.
    pub bytes_given_back: u64,
    /// Bytes that promotions added to what is resident.
    pub bloat_bytes_added: u64,
    /// Regions whose zero-filled base pages were counted.
    pub inspected: u64,
    /// Bytes of the zero-filled base pages that were counted.
    pub bytes_zero_filled: u64,
    /// Actions that the policy wanted and a budget put off, each time anew.
    pub deferred_by_budget: u64,
    /// Actions that the policy wanted and that were held back because they failed before, each time anew.
    pub backed_off: u64,
    /// Promotions that the policy wanted and that were held back because a part of the region is swapped out, each time
    /// anew.
    pub held_for_swap: u64,
}

impl Totals {
    /// Failed actions of all kinds and every cause.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().flat_map(BTreeMap::values).sum()
    }

    /// Counts what came of one action.
    pub fn record(&mut self, kind: ActionKind, outcome: Outcome) {
        match outcome {
            Outcome::Done {
                resident_before,
                resident_after,
            } => {
                self.done[kind] += 1;
                if kind.is_promotion() {
                    self.bytes_copied += resident_before;
                    self.bloat_bytes_added += resident_after.saturating_sub(resident_before);
                } else {
                    self.bytes_given_back += resident_before.saturating_sub(resident_after);
                }
            }
            Outcome::Remapped { copied, exchanged } => {
                self.done[kind] += 1;
                self.bytes_copied += copied;
                self.bytes_exchanged += exchanged;
            }
            Outcome::AlreadySo => self.already_so += 1,
            Outcome::Failed(cause) => *self.failures[kind].entry(cause).or_default() += 1,
            Outcome::NotTried => self.left_out[kind] += 1,
        }
    }
}

impl AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Totals) {
        // Taken apart so that a new field cannot be forgotten here.
        let Totals {
            steps,
            done,
            already_so,
            failures,
            unreported,
            left_out,
            bytes_copied,
            bytes_exchanged,
            bytes_given_back,
            bloat_bytes_added,
            inspected,
            bytes_zero_filled,
            deferred_by_budget,
            backed_off,
            held_for_swap,
        } = other;
        self.steps += steps;
        self.done += done;
        self.already_so += already_so;
        for (kind, causes) in failures.iter() {
            for (cause, count) in causes {
                *self.failures[kind].entry(*cause).or_default() += count;
            }
        }
        self.unreported += unreported;
        self.left_out += left_out;
        self.bytes_copied += bytes_copied;
        self.bytes_exchanged += bytes_exchanged;
        self.bytes_given_back += bytes_given_back;
        self.bloat_bytes_added += bloat_bytes_added;
        self.inspected += inspected;
        self.bytes_zero_filled += bytes_zero_filled;
        self.deferred_by_budget += deferred_by_budget;
        self.backed_off += backed_off;
        self.held_for_swap += held_for_swap;
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
            (
                totals.done[ActionKind::Promote],
                totals.done[ActionKind::Demote],
                totals.bytes_copied
            ),
            (0, 0, 0)
        );
        assert_eq!((totals.already_so, totals.failed()), (2, 2));
        assert_eq!(
            (
                totals.left_out[ActionKind::Promote],
                totals.left_out[ActionKind::Demote]
            ),
            (1, 1)
        );
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
        totals.record(
            ActionKind::PromoteGiant,
            Outcome::Remapped {
                copied: 3,
                exchanged: 5,
            },
        );
        totals.record(
            ActionKind::DemoteGiant,
            Outcome::Remapped {
                copied: 0,
                exchanged: 0,
            },
        );
        totals.record(ActionKind::PromoteGiant, Outcome::Failed(Cause::NotHuge));
        totals.record(ActionKind::PromoteGiant, Outcome::NotTried);
        totals += &totals.clone();
        assert_eq!(
            (
                totals.done[ActionKind::Promote],
                totals.done[ActionKind::Demote]
            ),
            (0, 0)
        );
        assert_eq!(
            (
                totals.done[ActionKind::PromoteGiant],
                totals.done[ActionKind::DemoteGiant]
            ),
            (2, 2)
        );
        assert_eq!(
            (
                totals.bytes_copied,
                totals.bytes_exchanged,
                totals.left_out[ActionKind::PromoteGiant]
            ),
            (6, 10, 2)
        );
        assert_eq!(
            totals.failures[ActionKind::PromoteGiant][&Cause::NotHuge],
            2
        );
        assert_eq!(totals.failed(), 2);
    }

    #[test]
    fn what_is_given_back_of_spans_is_counted() {
        let mut totals = Totals::default();
        totals.record(ActionKind::FreeZero, done(9000, 2000));
        totals.record(ActionKind::FreeZero, Outcome::AlreadySo);
        totals.record(ActionKind::FreeZero, Outcome::Failed(Cause::Busy));
        totals.record(ActionKind::FreeZero, Outcome::NotTried);
        totals += &totals.clone();
        assert_eq!(
            (
                totals.done[ActionKind::FreeZero],
                totals.left_out[ActionKind::FreeZero]
            ),
            (2, 2)
        );
        assert_eq!((totals.bytes_given_back, totals.already_so), (14000, 2));
        assert_eq!(totals.failures[ActionKind::FreeZero][&Cause::Busy], 2);
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
        let mut names: Vec<String> = json.as_object().unwrap().keys().cloned().collect();
        names.sort_unstable();
        let mut documented = [
            "steps",
            "promoted",
            "demoted",
            "promoted_giant",
            "demoted_giant",
            "freed_zero",
            "already_so",
            "failures",
            "unreported",
            "would_promote",
            "would_demote",
            "would_promote_giant",
            "would_demote_giant",
            "would_free_zero",
            "bytes_copied",
            "bytes_exchanged",
            "bytes_given_back",
            "bloat_bytes_added",
            "inspected",
            "bytes_zero_filled",
            "deferred_by_budget",
            "backed_off",
            "held_for_swap",
        ];
        documented.sort_unstable();
        assert_eq!(names, documented);
        assert_eq!(
            (&json["promoted"], &json["would_free_zero"]),
            (&0.into(), &0.into())
        );
    }
}
