//! The memory of each cgroup, and a bound on how many cgroups are told apart.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::report::Observed;

/// The name of a sum of cgroups. A cgroup's path begins with `/`, so none has this name.
pub(super) const OTHER: &str = "other";

/// What the managed processes of one cgroup have together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// Which selection, by its place.
    pub(super) selection: usize,
    /// The path in the cgroup v2 tree; empty where there is no such tree.
    pub(super) name: String,
    pub(super) processes: u64,
    pub(super) observed: Observed,
}

/// Adds up processes by selection and cgroup.
#[derive(Debug, Default)]
pub(super) struct Sums<'a>(HashMap<(usize, &'a str), (u64, Observed)>);

impl<'a> Sums<'a> {
    /// Adds a process.
    pub(super) fn add(&mut self, selection: usize, cgroup: &'a str, observed: Observed) {
        let together = |(processes, sum): &mut (u64, Observed)| {
            *processes += 1;
            *sum = [*sum, observed].into_iter().sum();
        };
        self.0
            .entry((selection, cgroup))
            .and_modify(together)
            .or_insert((1, observed));
    }

    /// The cgroups by selection and name. No more than `limit` are told apart, those with the most memory mapped. The rest
    /// of each selection is summed. Also says how many of each selection that are, by its place.
    pub(super) fn bounded(self, limit: usize) -> (Vec<Cgroup>, HashMap<usize, u64>) {
        let mut all: Vec<Cgroup> = self
            .0
            .into_iter()
            .map(|((selection, name), (processes, observed))| Cgroup {
                selection,
                name: name.to_owned(),
                processes,
                observed,
            })
            .collect();
        // Of equals the same ones each time: a series should not come and go.
        all.sort_by(|a, b| {
            let rank = |cgroup: &Cgroup| Reverse(cgroup.observed.mapped);
            (rank(a), a.selection, &a.name).cmp(&(rank(b), b.selection, &b.name))
        });
        let rest = all.split_off(limit.min(all.len()));
        let mut summed = HashMap::new();
        for cgroup in &rest {
            *summed.entry(cgroup.selection).or_default() += 1;
        }
        all.extend(sums_of(rest));
        all.sort_by(|a, b| (a.selection, &a.name).cmp(&(b.selection, &b.name)));
        (all, summed)
    }
}

/// One sum for each selection that has some of these.
fn sums_of(cgroups: Vec<Cgroup>) -> impl Iterator<Item = Cgroup> {
    let mut sums: HashMap<usize, Cgroup> = HashMap::new();
    for cgroup in cgroups {
        if let Some(sum) = sums.get_mut(&cgroup.selection) {
            sum.processes += cgroup.processes;
            sum.observed = [sum.observed, cgroup.observed].into_iter().sum();
        } else {
            let name = OTHER.to_owned();
            sums.insert(cgroup.selection, Cgroup { name, ..cgroup });
        }
    }
    sums.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn observed(mapped: u64) -> Observed {
        Observed {
            regions: 1,
            mapped,
            accessed: Some(mapped / 2),
            huge: mapped / 4,
            ..Observed::default()
        }
    }

    #[test]
    fn the_largest_are_told_apart() {
        let mut sums = Sums::default();
        for (selection, cgroup, mapped) in [
            (0, "/small", 1),
            (0, "/large", 5),
            (1, "/large", 9),
            (0, "/large", 5),
            (0, "/tiny", 1),
        ] {
            sums.add(selection, cgroup, observed(mapped));
        }
        let (shown, summed) = sums.bounded(2);
        let found: Vec<_> = shown
            .iter()
            .map(|cgroup| {
                let name = cgroup.name.as_str();
                (
                    cgroup.selection,
                    name,
                    cgroup.processes,
                    cgroup.observed.mapped,
                )
            })
            .collect();
        assert_eq!(
            found,
            [(0, "/large", 2, 10), (0, OTHER, 2, 2), (1, "/large", 1, 9)]
        );
        assert_eq!(summed, HashMap::from([(0, 2)]));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_the_number_is_bounded(
            processes in prop::collection::vec((0..3_usize, 0..40_u8, 0..1000_u64), 0..200),
            limit in 0..50_usize,
        ) {
            let names: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
            let mut sums = Sums::default();
            for (selection, name, mapped) in &processes {
                sums.add(*selection, &names[usize::from(*name)], observed(*mapped));
            }
            let (shown, summed) = sums.bounded(limit);
            for selection in 0..3 {
                let of_it = || processes.iter().filter(|process| process.0 == selection);
                let shown = || shown.iter().filter(|cgroup| cgroup.selection == selection);
                let mapped: u64 = shown().map(|cgroup| cgroup.observed.mapped).sum();
                prop_assert_eq!(mapped, of_it().map(|process| process.2).sum::<u64>());
                let count: u64 = shown().map(|cgroup| cgroup.processes).sum();
                prop_assert_eq!(count, of_it().count() as u64);
                let others = shown().filter(|cgroup| cgroup.name == OTHER).count();
                prop_assert_eq!(others == 1, summed.contains_key(&selection));
            }
            let told_apart = shown.iter().filter(|cgroup| cgroup.name != OTHER).count();
            prop_assert!(told_apart <= limit);
        }
    }
}
