//! What is followed of each process of a group, so that a change is told once. Pure: it reads no clock and no process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mega_core::engine::ProcessSummary;
use mega_core::{MemoryObservation, ProcessId};

use super::change::{Change, Fulfilment, Who};
use crate::report::free_blocks;

/// How long a process has to be short of what is promised before that is told. A program that maps more memory is short
/// until mega has promoted it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The processes of a group.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    processes: BTreeMap<ProcessId, Known>,
}

#[derive(Debug, Default)]
struct Known {
    name: String,
    /// Whether it was told last that the promise is kept, or that it is broken; `None` where neither was.
    told_kept: Option<bool>,
    /// Since when it is short of the promise, if it is.
    short_since: Option<Duration>,
}

impl Followed {
    /// Takes note of the processes of the group `selection`, as they are now. `name` names a process. Returns who has come
    /// and who has left.
    pub(crate) fn update(
        &mut self,
        selection: &str,
        now: &BTreeSet<ProcessId>,
        name: impl Fn(ProcessId) -> String,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        self.processes.retain(|process, known| {
            let stays = now.contains(process);
            if !stays {
                let who = Who::new(selection, *process, std::mem::take(&mut known.name));
                changes.push(Change::ProcessLeft { who });
            }
            stays
        });
        for &process in now {
            if self.processes.contains_key(&process) {
                continue;
            }
            let name = name(process);
            let who = Who::new(selection, process, name.clone());
            changes.push(Change::ProcessManaged { who });
            let known = Known {
                name,
                ..Known::default()
            };
            self.processes.insert(process, known);
        }
        changes
    }

    /// Takes note of what a step saw at the time `now`. Returns whose promise is kept again, or broken. Where nothing is
    /// `promised`, what was told before is forgotten.
    pub(crate) fn look(
        &mut self,
        selection: &str,
        promised: Option<f64>,
        seen: &[ProcessSummary],
        memory: &MemoryObservation,
        now: Duration,
    ) -> Vec<Change> {
        let Some(promised) = promised else {
            for known in self.processes.values_mut() {
                (known.told_kept, known.short_since) = (None, None);
            }
            return Vec::new();
        };
        let mut changes = Vec::new();
        for summary in seen {
            let Some(known) = self.processes.get_mut(&summary.process) else {
                continue;
            };
            let Some(kept) = known.verdict(summary.reaches(promised), now) else {
                continue;
            };
            let who = Who::new(selection, summary.process, known.name.clone());
            let fulfilment = fulfilment(promised, summary, memory);
            changes.push(match kept {
                true => Change::CoverageKept { who, fulfilment },
                false => Change::CoverageBroken { who, fulfilment },
            });
        }
        changes
    }
}

impl Known {
    /// Whether the promise is kept, if that is to be told now.
    fn verdict(&mut self, reaches: bool, now: Duration) -> Option<bool> {
        let kept = if reaches {
            self.short_since = None;
            true
        } else {
            let since = *self.short_since.get_or_insert(now);
            if now.saturating_sub(since) < PATIENCE {
                return None;
            }
            false
        };
        let is_news = self.told_kept.replace(kept) != Some(kept);
        is_news.then_some(kept)
    }
}

#[allow(clippy::cast_precision_loss)]
fn fulfilment(promised: f64, summary: &ProcessSummary, memory: &MemoryObservation) -> Fulfilment {
    let counted = &summary.counted;
    let named = counted.rest.iter().filter(|(_, size)| *size > 0);
    Fulfilment {
        promised,
        coverage: summary.coverage().unwrap_or(1.0),
        mapped: counted.mapped,
        huge: counted.huge,
        rest: named
            .map(|(obstacle, size)| (obstacle.name().to_owned(), size))
            .collect(),
        last_failure: summary
            .tally
            .last_failure
            .map(|failure| failure.cause.name().to_owned()),
        free_blocks: free_blocks(memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::engine::Tally;
    use proptest::prelude::*;

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_time: 1 }
    }

    fn summary(pid: u32, huge: u64) -> ProcessSummary {
        let rest = mega_core::engine::Rest {
            free: (100 - huge) << 21,
            ..Default::default()
        };
        ProcessSummary {
            process: process(pid),
            regions: 100,
            mapped_bytes: 100 << 21,
            accessed_bytes: 0,
            huge_bytes: huge << 21,
            giant_bytes: 0,
            bloat_bytes: None,
            accesses_known: true,
            rest,
            counted: mega_core::engine::Covered {
                mapped: 100 << 21,
                huge: huge << 21,
                rest,
            },
            tally: Tally::default(),
            gain: None,
        }
    }

    fn update(followed: &mut Followed, pids: &[u32]) -> Vec<String> {
        let now = pids.iter().map(|&pid| process(pid)).collect();
        let changes = followed.update("mine", &now, |process| format!("p{}", process.pid));
        changes.iter().map(Change::in_words).collect()
    }

    fn look(followed: &mut Followed, huge: u64, second: u64) -> Vec<&'static str> {
        let changes = followed.look(
            "mine",
            Some(0.95),
            &[summary(1, huge)],
            &MemoryObservation::default(),
            Duration::from_secs(second),
        );
        changes.iter().map(Change::name).collect()
    }

    #[test]
    fn who_comes_and_leaves_is_told_once_by_the_name_it_had() {
        let mut followed = Followed::default();
        assert_eq!(
            update(&mut followed, &[1, 2]),
            ["mine: p1 (pid 1) is managed", "mine: p2 (pid 2) is managed"]
        );
        assert!(update(&mut followed, &[1, 2]).is_empty());
        assert_eq!(
            update(&mut followed, &[2, 3]),
            [
                "mine: p1 (pid 1) is managed no longer",
                "mine: p3 (pid 3) is managed"
            ]
        );
    }

    #[test]
    fn a_promise_is_broken_after_a_while_and_kept_at_once() {
        let mut followed = Followed::default();
        update(&mut followed, &[1]);
        assert!(look(&mut followed, 10, 0).is_empty());
        assert!(look(&mut followed, 50, 4).is_empty());
        assert_eq!(look(&mut followed, 60, 5), ["coverage_broken"]);
        assert!(look(&mut followed, 70, 50).is_empty());
        assert_eq!(look(&mut followed, 95, 51), ["coverage_kept"]);
        assert!(look(&mut followed, 100, 52).is_empty());
        // Short for a moment only.
        assert!(look(&mut followed, 90, 53).is_empty());
        assert!(look(&mut followed, 95, 54).is_empty());
        assert!(look(&mut followed, 90, 55).is_empty());
        assert_eq!(look(&mut followed, 90, 60), ["coverage_broken"]);
    }

    #[test]
    fn a_promise_that_is_withdrawn_is_forgotten() {
        let mut followed = Followed::default();
        update(&mut followed, &[1]);
        assert_eq!(look(&mut followed, 100, 0), ["coverage_kept"]);
        let memory = MemoryObservation::default();
        let nothing = followed.look("mine", None, &[summary(1, 0)], &memory, Duration::ZERO);
        assert!(nothing.is_empty());
        assert_eq!(look(&mut followed, 100, 1), ["coverage_kept"]);
    }

    proptest! {
        #[test]
        fn kept_and_broken_alternate(huge in prop::collection::vec(0..=100_u64, 0..200)) {
            let mut followed = Followed::default();
            update(&mut followed, &[1]);
            let told: Vec<&str> = (0..)
                .zip(huge)
                .flat_map(|(second, huge)| look(&mut followed, huge, second * 2))
                .collect();
            prop_assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "{told:?}");
        }
    }
}
