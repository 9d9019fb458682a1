//! A day added up. Sizes are in bytes and means over the time that was looked at.

use std::collections::BTreeMap;

use crate::history::{Counts, Done, SelectionSlot, Slot, Uncovered, zip};

/// What slots say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// The time that was looked at.
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// The most of the daemon.
    pub(super) resident: u64,
    pub(super) blocks_emptied: u64,
    pub(super) events: Counts,
    /// In the order in which they came.
    pub(super) selections: Vec<SelectionSlot>,
}

impl Summary {
    pub(super) fn of<'a>(slots: impl IntoIterator<Item = &'a Slot>) -> Self {
        let mut summary = Summary::default();
        for slot in slots {
            summary.seconds += slot.seconds;
            summary.cpu_seconds += slot.cpu_seconds;
            summary.resident = summary.resident.max(slot.resident);
            summary.blocks_emptied += slot.blocks_emptied;
            summary.events = zip(&summary.events, &slot.events, u64::saturating_add);
            for selection in &slot.selections {
                let mut known = summary.selections.iter_mut();
                match known.find(|known| known.name == selection.name) {
                    Some(known) => add(known, selection),
                    None => summary.selections.push(selection.clone()),
                }
            }
        }
        summary
    }

    /// A sum over the selections.
    pub(super) fn sum(&self, of: impl Fn(&SelectionSlot) -> u64) -> u64 {
        self.selections.iter().map(of).sum()
    }

    /// What was done for all selections.
    pub(super) fn done(&self) -> Done {
        let mut all = Done::default();
        for selection in &self.selections {
            all += &selection.done;
        }
        all
    }
}

/// Adds a later time of a selection to an earlier one.
fn add(sum: &mut SelectionSlot, later: &SelectionSlot) {
    let whole = sum.seconds + later.seconds;
    let mean = |one: u64, other: u64| mean((one, sum.seconds), (other, later.seconds));
    sum.mapped = mean(sum.mapped, later.mapped);
    sum.huge = mean(sum.huge, later.huge);
    sum.giant = mean(sum.giant, later.giant);
    sum.wanted = mean(sum.wanted, later.wanted);
    sum.rest = zip(&sum.rest, &later.rest, mean);
    sum.not_eligible = zip(&sum.not_eligible, &later.not_eligible, mean);
    sum.uncovered = programs(&sum.uncovered, &later.uncovered, mean);
    sum.policy.clone_from(&later.policy);
    sum.promised = later.promised;
    sum.processes = sum.processes.max(later.processes);
    sum.refused = sum.refused.max(later.refused);
    sum.short = sum.short.max(later.short);
    sum.short_seconds += later.short_seconds;
    sum.lowest = match (sum.lowest, later.lowest) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    sum.done += &later.done;
    sum.seconds = whole;
}

/// The programs of both times; one that was not named in one of them had nothing in base pages that mattered then.
fn programs(
    sum: &[Uncovered],
    later: &[Uncovered],
    mean: impl Fn(u64, u64) -> u64 + Copy,
) -> Vec<Uncovered> {
    let mut both: BTreeMap<&str, (Uncovered, Uncovered)> = BTreeMap::new();
    for one in sum {
        both.entry(&one.name).or_default().0 = one.clone();
    }
    for one in later {
        both.entry(&one.name).or_default().1 = one.clone();
    }
    let averaged = both.into_iter().map(|(name, (sum, later))| Uncovered {
        name: name.to_owned(),
        mapped: mean(sum.mapped, later.mapped),
        huge: mean(sum.huge, later.huge),
        wanted: mean(sum.wanted, later.wanted),
        rest: zip(&sum.rest, &later.rest, mean),
    });
    averaged.collect()
}

/// The mean of two values, each with the time for which it held.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of sizes lies between them"
)]
fn mean((one, for_one): (u64, f64), (other, for_other): (u64, f64)) -> u64 {
    let whole = for_one + for_other;
    if whole <= 0.0 {
        return other;
    }
    ((one as f64 * for_one + other as f64 * for_other) / whole).round() as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use mega_core::ActionKind;

    /// A slot of one selection, a part of its memory in huge pages.
    pub(in crate::command::report) fn slot(start: u64, mapped: u64, huge: u64) -> Slot {
        let rest: Counts = [("none".to_owned(), mapped - huge)].into();
        Slot {
            start,
            seconds: 300.0,
            cpu_seconds: 3.0,
            resident: 9 << 20,
            free: 4 << 30,
            contiguity: 3 << 30,
            blocks_emptied: 1,
            events: [("coverage_broken".to_owned(), 1)].into(),
            selections: vec![SelectionSlot {
                name: "web <1>".to_owned(),
                policy: "adaptive".to_owned(),
                promised: Some(0.9),
                seconds: 300.0,
                processes: 2,
                short: 1,
                short_seconds: 30.0,
                mapped,
                huge,
                lowest: Some(0.25),
                rest: rest.clone(),
                done: Done {
                    done: [(ActionKind::Promote, 10)].into(),
                    failures: [("no_memory".to_owned(), 2)].into(),
                    ..Done::default()
                },
                uncovered: vec![Uncovered {
                    name: "a&b".to_owned(),
                    mapped,
                    huge,
                    wanted: 0,
                    rest,
                }],
                ..SelectionSlot::default()
            }],
        }
    }

    #[test]
    fn states_are_averaged_over_the_time_and_counts_are_added() {
        let mut short = slot(300, 8 << 30, 8 << 30);
        short.selections[0].seconds = 100.0;
        short.selections[0].lowest = Some(0.1);
        let summary = Summary::of(&[slot(0, 4 << 30, 0), short]);
        assert_eq!((summary.cpu_seconds, summary.blocks_emptied), (6.0, 2));
        assert_eq!(summary.events["coverage_broken"], 2);
        let web = &summary.selections[0];
        assert_eq!((web.mapped, web.huge), (5 << 30, 2 << 30));
        assert_eq!((web.seconds, web.lowest), (400.0, Some(0.1)));
        assert_eq!(
            (web.done.done[ActionKind::Promote], web.short_seconds),
            (20, 60.0)
        );
        assert_eq!(web.uncovered[0].base(), 3 << 30);
        assert_eq!(summary.done().failures["no_memory"], 4);
    }

    #[test]
    fn a_program_counts_for_the_time_in_which_it_was_named() {
        let mut without = slot(300, 4 << 30, 0);
        without.selections[0].uncovered.clear();
        let summary = Summary::of(&[slot(0, 4 << 30, 0), without]);
        assert_eq!(summary.selections[0].uncovered[0].base(), 2 << 30);
    }
}
