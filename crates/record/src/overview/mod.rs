//! What a recording has, added up; and its heat maps ([`heat`]).

mod compaction;
pub mod heat;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mega_core::{
    BASE_PAGE_SIZE, Call, CallKind, Cause, HUGE_PAGE_SIZE, Outcome, ProcessId, ProcessObservation,
    bytes,
};
use serde::Serialize;

use crate::look::{Acted, Look};
pub use compaction::CompactionCounts;
use heat::{HeatMap, Resolution};

/// What a recording has.
#[derive(Debug, Default)]
pub struct Overview {
    /// Looks that were due and were not made.
    pub missed: u64,
    /// Who else used Accessed bits or changed page sizes, at any time.
    pub others: BTreeSet<String>,
    /// What a manager did, if one recorded what it did.
    pub actions: ActionCounts,
    /// What its compaction did.
    pub compaction: CompactionCounts,
    /// What processes did to their mappings, as far as that was seen.
    pub calls: CallCounts,
    /// Its processes.
    pub processes: BTreeMap<ProcessId, Known>,
}

/// How often what was done, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ActionCounts {
    /// Done, by the name of the kind: `promote`, `demote` and so on.
    pub done: BTreeMap<&'static str, u64>,
    /// Failed, by the name of the cause: `no_memory` and so on.
    pub failed: BTreeMap<String, u64>,
    /// The region was so already.
    pub already_so: u64,
    /// A dry run did not try them.
    pub not_tried: u64,
    /// Bytes that the hypervisor exchanged for giant pages instead of a copy.
    pub bytes_exchanged: u64,
}

impl ActionCounts {
    /// Adds one.
    pub fn add(&mut self, acted: &Acted) {
        if let Outcome::Remapped { exchanged, .. } = acted.outcome {
            self.bytes_exchanged = self.bytes_exchanged.saturating_add(exchanged);
        }
        match acted.outcome {
            Outcome::Done { .. } | Outcome::Remapped { .. } => {
                *self.done.entry(acted.action.kind.name()).or_default() += 1;
            }
            Outcome::Failed(cause) => *self.failed.entry(cause_name(cause)).or_default() += 1,
            Outcome::AlreadySo => self.already_so += 1,
            Outcome::NotTried => self.not_tried += 1,
        }
    }

    /// As "done: 12 promote, 1 demote; failed: 3 busy; exchanged by the host instead of a copy: 1 GiB"; `None` without any.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let done = self.done.iter().map(|(name, count)| (*name, *count));
        let failed = self.failed.iter();
        let failed = failed.map(|(name, count)| (name.as_str(), *count));
        let also = [
            ("already so", self.already_so),
            ("not tried", self.not_tried),
        ];
        let parts = [
            ("done: ", counted(done)),
            ("failed: ", counted(failed)),
            (
                "",
                counted(also.into_iter().filter(|(_, count)| *count > 0)),
            ),
            (
                "exchanged by the host instead of a copy: ",
                match self.bytes_exchanged {
                    0 => String::new(),
                    exchanged => bytes::format(exchanged),
                },
            ),
        ];
        let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
        let text: Vec<String> = parts.map(|(name, text)| format!("{name}{text}")).collect();
        (!text.is_empty()).then(|| text.join("; "))
    }
}

/// As "12 promote, 1 promote giant".
fn counted<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> String {
    let counts: Vec<String> = counts
        .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
        .collect();
    counts.join(", ")
}

/// How often processes changed their mappings, and how much of them, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Calls that mapped something.
    pub mapped: u64,
    /// Bytes of that.
    pub mapped_bytes: u64,
    /// Calls that unmapped something.
    pub unmapped: u64,
    /// Bytes of that.
    pub unmapped_bytes: u64,
    /// Calls of `MADV_DONTNEED`.
    pub discarded: u64,
    /// Bytes of that.
    pub discarded_bytes: u64,
    /// Forks.
    pub forked: u64,
    /// Calls of any kind that are not in the recording.
    pub lost: u64,
}

impl CallCounts {
    /// Adds one.
    pub fn add(&mut self, call: &Call) {
        let range = call.kind.range();
        let length = range.map_or(0, |range| range.end.saturating_sub(range.start));
        let (count, sum) = match call.kind {
            CallKind::Mapped(_) => (&mut self.mapped, &mut self.mapped_bytes),
            CallKind::Unmapped(_) => (&mut self.unmapped, &mut self.unmapped_bytes),
            CallKind::Discarded(_) => (&mut self.discarded, &mut self.discarded_bytes),
            CallKind::Forked(_) => {
                self.forked += 1;
                return;
            }
        };
        *count += 1;
        *sum = sum.saturating_add(length);
    }

    /// As "3 mmap (1 GiB), 1 munmap (1 GiB), 2 forks".
    #[must_use]
    pub fn in_words(&self) -> String {
        let listed = [
            ("mmap", self.mapped, self.mapped_bytes),
            ("munmap", self.unmapped, self.unmapped_bytes),
            ("MADV_DONTNEED", self.discarded, self.discarded_bytes),
        ];
        let mut parts: Vec<String> = listed
            .into_iter()
            .filter(|(_, count, _)| *count > 0)
            .map(|(name, count, bytes)| format!("{count} {name} ({})", bytes::format(bytes)))
            .collect();
        let counts = [(self.forked, "fork"), (self.lost, "not recorded")];
        parts.extend(
            counts
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, name)| format!("{count} {name}")),
        );
        match parts.is_empty() {
            true => "none".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// The name of a cause in JSON.
fn cause_name(cause: Cause) -> String {
    let name = serde_json::to_value(cause).ok();
    let name = name.and_then(|name| name.as_str().map(str::to_owned));
    name.unwrap_or_default()
}

/// One process of it.
#[derive(Debug, Default)]
pub struct Known {
    /// Its measures.
    pub overview: ProcessOverview,
    /// Numbers of the regions that had a page at any time.
    pub regions: BTreeSet<u64>,
}

/// One process of a recording. Sizes are in bytes, times in seconds since it began.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessOverview {
    /// Its pid.
    pub pid: u32,
    /// The command's name.
    pub name: String,
    /// When it was seen first.
    pub first: f64,
    /// When it was seen last.
    pub last: f64,
    /// Looks at it.
    pub looks: u64,
    /// The most that was mapped at one look.
    pub peak: u64,
    /// The mean over the looks.
    pub mapped: u64,
    /// The mean of what huge pages mapped.
    pub huge: u64,
    /// The mean over those that knew; `None` where none did.
    pub accessed: Option<u64>,
    /// Touches a second of CPU time, as they were measured last.
    pub touches_per_second: Option<f64>,
    /// Changes of its mappings after the first.
    pub mapping_changes: u64,
    #[serde(skip)]
    sums: Sums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    mapped: u64,
    huge: u64,
    accessed: u64,
    known: u64,
}

impl Overview {
    /// Adds the next look.
    pub fn add(&mut self, look: &Look) {
        self.missed += u64::from(look.missed);
        self.others
            .extend(look.news.others.iter().flatten().cloned());
        for acted in &look.actions {
            self.actions.add(acted);
        }
        for compacted in &look.compacted {
            self.compaction.add(compacted);
        }
        look.calls.iter().for_each(|call| self.calls.add(call));
        self.calls.lost = self.calls.lost.saturating_add(look.calls_lost);
        for seen in &look.observation.processes {
            let known = self.processes.entry(seen.process).or_default();
            known.add(look.at.as_secs_f64(), seen);
            let overview = &mut known.overview;
            if let Some(name) = look.news.names.get(&seen.process) {
                overview.name.clone_from(name);
            }
            if let Some(rate) = look.news.touches.get(&seen.process) {
                overview.touches_per_second = Some(rate.per_cpu_second);
            }
            if overview.looks > 1 && look.news.mappings.contains_key(&seen.process) {
                overview.mapping_changes += 1;
            }
        }
    }

    /// The processes, the one with the most resident first.
    #[must_use]
    pub fn by_size(&self) -> Vec<ProcessId> {
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_by_key(|(_, known)| std::cmp::Reverse(known.overview.peak));
        processes.into_iter().map(|(process, _)| *process).collect()
    }

    /// An empty heat map of one of the processes from the beginning until then. `None` where nothing of it was mapped.
    #[must_use]
    pub fn heat_map(
        &self,
        process: ProcessId,
        until: Duration,
        resolution: Resolution,
    ) -> Option<HeatMap> {
        let regions = &self.processes.get(&process)?.regions;
        HeatMap::new(process.pid, regions, until, resolution)
    }
}

impl Known {
    fn add(&mut self, seconds: f64, seen: &ProcessObservation) {
        let (mut mapped, mut huge, mut accessed) = (0, 0, 0);
        for region in &seen.regions {
            let resident = u64::from(region.mapped) * BASE_PAGE_SIZE;
            mapped += resident;
            huge += if region.is_huge() { resident } else { 0 };
            accessed += u64::from(region.accessed) * BASE_PAGE_SIZE;
            self.regions.insert(region.region.start() / HUGE_PAGE_SIZE);
        }
        let overview = &mut self.overview;
        if overview.looks == 0 {
            overview.pid = seen.process.pid;
            overview.first = seconds;
        }
        overview.looks += 1;
        overview.last = seconds;
        overview.peak = overview.peak.max(mapped);
        let sums = &mut overview.sums;
        sums.mapped += mapped;
        sums.huge += huge;
        if seen.accesses_known {
            sums.accessed += accessed;
            sums.known += 1;
        }
        overview.mapped = sums.mapped / overview.looks;
        overview.huge = sums.huge / overview.looks;
        overview.accessed = sums.accessed.checked_div(sums.known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::{Action, ActionKind, Region, RegionRef};

    #[test]
    fn what_was_exchanged_is_told() {
        let mut counts = ActionCounts::default();
        assert_eq!(counts.in_words(), None);
        let process = ProcessId {
            pid: 7,
            start_time: 1,
        };
        let mut add = |copied, exchanged| {
            counts.add(&Acted {
                at: Duration::ZERO,
                action: Action {
                    kind: ActionKind::PromoteGiant,
                    target: RegionRef {
                        process,
                        region: Region::containing(1 << 30),
                    },
                },
                outcome: Outcome::Remapped { copied, exchanged },
            });
        };
        add(1 << 30, 0);
        add(0, 1 << 30);
        add(6 << 20, 1 << 29);
        assert_eq!(
            counts.in_words().as_deref(),
            Some("done: 3 promote giant; exchanged by the host instead of a copy: 1.50 GiB")
        );
    }
}
