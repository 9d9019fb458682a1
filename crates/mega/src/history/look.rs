//! What the manager's latest snapshot says, for the day: sums over each selection.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use mega_core::engine::ProcessSummary;
use mega_linux::process::Table;
use mega_linux::{observe, process};

use super::day::most_uncovered;
use super::slot::{Counts, Done, Uncovered, zip};
use crate::manager::snapshot::{GroupSnapshot, Snapshot};

/// Selections that are told apart: the first ones of the configuration. The rest is summed.
pub(super) const MOST_SELECTIONS: usize = 32;
/// What that sum is called.
const OTHERS: &str = "(others)";

/// How things are at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// In seconds since 1970.
    pub(super) time: u64,
    /// By a clock that nobody sets.
    pub(super) now: Duration,
    /// Since the daemon's start.
    pub(super) cpu_seconds: f64,
    pub(super) resident: u64,
    pub(super) free: u64,
    pub(super) contiguity: u64,
    /// Since the daemon's start.
    pub(super) blocks_emptied: u64,
    /// Since the daemon's start.
    pub(super) events: Counts,
    pub(super) selections: Vec<SelectionLook>,
}

/// A selection at a moment. Fields as in [`super::SelectionSlot`].
#[derive(Clone, Debug, Default)]
pub(super) struct SelectionLook {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) promised: Option<f64>,
    pub(super) processes: u64,
    pub(super) refused: u64,
    pub(super) short: u64,
    pub(super) mapped: u64,
    pub(super) huge: u64,
    pub(super) giant: u64,
    pub(super) wanted: u64,
    pub(super) rest: Counts,
    pub(super) not_eligible: Counts,
    /// Since the selection's start.
    pub(super) done: Done,
    pub(super) uncovered: Vec<Uncovered>,
}

impl Look {
    /// Takes a look at the time `time`, in seconds since 1970.
    pub(super) fn of(snapshot: &Snapshot, events: &[(&'static str, u64)], time: u64) -> Self {
        let kernel = snapshot.host.kernel().as_ref();
        let memory = observe::memory::observe(kernel).unwrap_or_default();
        let table = snapshot.host.processes();
        let selections = snapshot.groups.iter();
        let selections = selections.map(|group| SelectionLook::of(group, &table));
        Look {
            time,
            now: kernel.now(),
            cpu_seconds: kernel.cpu_time().as_secs_f64(),
            resident: process::stat(kernel, snapshot.own.pid).map_or(0, |stat| stat.resident),
            free: memory.free,
            contiguity: memory.contiguity,
            blocks_emptied: snapshot.compaction.map_or(0, |done| done.emptied),
            events: events
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|&(name, count)| (name.to_owned(), count))
                .collect(),
            selections: bounded(selections.collect()),
        }
    }
}

impl SelectionLook {
    fn of(group: &GroupSnapshot, table: &Table) -> Self {
        let mut look = SelectionLook {
            name: group.name.clone(),
            policy: group.settings.policy.clone(),
            promised: group.settings.coverage,
            refused: group.refused_count,
            short: group.short_of_coverage(),
            done: Done::of(&group.totals, group.saved_in_all),
            ..SelectionLook::default()
        };
        let mut programs: HashMap<&str, Uncovered> = HashMap::new();
        for summary in group.latest.iter().flat_map(|latest| &latest.processes) {
            look.add(summary);
            if summary.huge_bytes < summary.mapped_bytes {
                let name = table
                    .facts(summary.process)
                    .map_or("", |facts| facts.name.as_str());
                programs.entry(name).or_default().add(summary);
            }
        }
        let named = programs.into_iter().map(|(name, program)| Uncovered {
            name: name.to_owned(),
            ..program
        });
        look.uncovered = most_uncovered(named.collect());
        for (reason, bytes) in group.not_eligible.values().flatten() {
            *look.not_eligible.entry(reason.clone()).or_default() += bytes;
        }
        look
    }

    fn add(&mut self, summary: &ProcessSummary) {
        self.processes += 1;
        self.mapped += summary.mapped_bytes;
        self.huge += summary.huge_bytes;
        self.giant += summary.giant_bytes;
        self.wanted += summary.tally.wanted_bytes;
        add_rest(&mut self.rest, summary);
    }

    /// Adds another selection to this one.
    fn merge(&mut self, other: &SelectionLook) {
        self.processes += other.processes;
        self.refused += other.refused;
        self.short += other.short;
        self.mapped += other.mapped;
        self.huge += other.huge;
        self.giant += other.giant;
        self.wanted += other.wanted;
        self.rest = zip(&self.rest, &other.rest, u64::saturating_add);
        self.not_eligible = zip(&self.not_eligible, &other.not_eligible, u64::saturating_add);
        self.done += &other.done;
        self.uncovered.extend(other.uncovered.iter().cloned());
    }
}

impl Uncovered {
    fn add(&mut self, summary: &ProcessSummary) {
        self.mapped += summary.mapped_bytes;
        self.huge += summary.huge_bytes;
        self.wanted += summary.tally.wanted_bytes;
        add_rest(&mut self.rest, summary);
    }
}

fn add_rest(rest: &mut Counts, summary: &ProcessSummary) {
    for (obstacle, bytes) in summary.rest.iter().filter(|(_, bytes)| *bytes > 0) {
        *rest.entry(obstacle.name().to_owned()).or_default() += bytes;
    }
}

/// The first selections as they are, and the sum of the rest.
fn bounded(mut selections: Vec<SelectionLook>) -> Vec<SelectionLook> {
    if selections.len() <= MOST_SELECTIONS {
        return selections;
    }
    let rest = selections.split_off(MOST_SELECTIONS - 1);
    let mut others = SelectionLook {
        name: OTHERS.to_owned(),
        ..SelectionLook::default()
    };
    rest.iter().for_each(|selection| others.merge(selection));
    // One program may be in several of them.
    let mut programs: BTreeMap<String, Uncovered> = BTreeMap::new();
    for program in std::mem::take(&mut others.uncovered) {
        let sum = programs.entry(program.name.clone()).or_default();
        sum.name = program.name;
        sum.mapped += program.mapped;
        sum.huge += program.huge;
        sum.wanted += program.wanted;
        sum.rest = zip(&sum.rest, &program.rest, u64::saturating_add);
    }
    others.uncovered = most_uncovered(programs.into_values().collect());
    selections.push(others);
    selections
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mega_core::ActionKind;

    /// A look at one selection with one program, a part of it in huge pages.
    pub(in crate::history) fn look(selection: &str, mapped: u64, huge: u64) -> Look {
        let rest: Counts = match mapped - huge {
            0 => Counts::new(),
            base => [("none".to_owned(), base)].into(),
        };
        let program = Uncovered {
            name: "server".to_owned(),
            mapped,
            huge,
            wanted: 0,
            rest: rest.clone(),
        };
        Look {
            resident: 8 << 20,
            free: 1 << 30,
            contiguity: 1 << 29,
            selections: vec![SelectionLook {
                name: selection.to_owned(),
                policy: "adaptive".to_owned(),
                processes: 1,
                mapped,
                huge,
                rest,
                uncovered: most_uncovered(vec![program]),
                ..SelectionLook::default()
            }],
            ..Look::default()
        }
    }

    #[test]
    fn selections_beyond_the_bound_are_summed() {
        let one = |number: usize| {
            let mut selection = look(&format!("s{number}"), 10, 4).selections.remove(0);
            selection.done.done[ActionKind::Promote] = 1;
            selection
        };
        let few: Vec<SelectionLook> = (0..MOST_SELECTIONS).map(one).collect();
        assert_eq!(bounded(few).len(), MOST_SELECTIONS);
        let many: Vec<SelectionLook> = (0..MOST_SELECTIONS + 9).map(one).collect();
        let bounded = bounded(many);
        assert_eq!(bounded.len(), MOST_SELECTIONS);
        let others = bounded.last().expect("the sum");
        assert_eq!((others.name.as_str(), others.processes), (OTHERS, 10));
        assert_eq!(
            (others.mapped, others.done.done[ActionKind::Promote]),
            (100, 10)
        );
        assert_eq!(others.uncovered.len(), 1);
        assert_eq!(others.uncovered[0].base(), 60);
    }
}
