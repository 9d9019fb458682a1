//! How long each process has been seen, and what huge pages would gain it as far as somebody measured that.
//!
//! The machine measures it ([`crate::Policy::unmeasured`]) once a process has something to promote, and again when it is
//! twice as old or uses twice as much. Where it cannot measure, what the process was seen to use stands for it: a program that
//! spends one CPU on touching that memory at random, on a machine that touches cost what they typically do.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::gain::Gain;
use crate::observation::Observation;
use crate::page::BASE_PAGE_SIZE;
use crate::process::ProcessId;
use crate::worth::typical;

use super::sums::Sums;

/// How many times as old, or as large, as at its last measurement a process must be to be measured again.
const MEASURE_AGAIN: f64 = 2.0;
/// A process that has lived for less is taken to have lived so long, in seconds, so that it is not measured again at once.
const SHORTEST: f64 = 1.0;
/// The share of its time that giant pages save a program of which no huge page is in the TLB: 18 % faster than with
/// huge pages in the mean (Trident, MICRO 2021, abstract).
const SAVED_BY_GIANT: f64 = 0.15;

/// What a page in use gains its process, in seconds of CPU time a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageGain {
    /// A base page, by becoming part of a huge one.
    pub(super) base: f64,
    /// A huge page, by becoming part of a giant one.
    pub(super) huge: f64,
    /// CPUs that the process uses.
    pub(super) cpus: f64,
}

/// What is known of the processes that were seen.
#[derive(Debug, Default)]
pub(super) struct Lives {
    lives: BTreeMap<ProcessId, Life>,
    /// Those of which something should be measured, as of the last decision, with the base pages that each uses.
    unmeasured: Vec<(ProcessId, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Seconds since it was first observed.
    lived: f64,
    /// Base pages in use, outside huge ones.
    pages: f64,
    measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    /// How long it had lived then, in seconds.
    at: f64,
    /// Base pages in use then.
    pages: f64,
    /// `None` where it could not be measured.
    gain: Option<Gain>,
}

impl Lives {
    /// Brings it up to an observation, whose processes add up so.
    pub(super) fn update(&mut self, observation: &Observation, sums: &[Sums]) {
        let before = std::mem::take(&mut self.lives);
        let interval = observation.interval.as_secs_f64();
        let seen = observation.processes.iter().zip(sums);
        self.lives = seen
            .map(|(process, sums)| {
                let known = before.get(&process.process).copied();
                let life = Life {
                    lived: known.map_or(0.0, |life| life.lived + interval),
                    pages: sums.base_pages,
                    measured: known.and_then(|life| life.measured),
                };
                (process.process, life)
            })
            .collect();
        self.unmeasured.clear();
    }

    /// What pages gain a process that adds up so. `None` until it is measured, where the machine `measures`: then, and where
    /// what is known is old, it is noted as to be measured.
    pub(super) fn gain(
        &mut self,
        process: ProcessId,
        sums: &Sums,
        tlb_entries: f64,
        measures: bool,
    ) -> Option<PageGain> {
        if measures && self.is_unmeasured(process) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            self.unmeasured.push((process, sums.base_pages as u64));
        }
        let was_tried = self
            .lives
            .get(&process)
            .is_some_and(|life| life.measured.is_some());
        (was_tried || !measures).then(|| self.gain_as_known(process, sums, tlb_entries))
    }

    /// What pages gain a process that adds up so: as measured, or else as thought.
    pub(super) fn gain_as_known(
        &self,
        process: ProcessId,
        sums: &Sums,
        tlb_entries: f64,
    ) -> PageGain {
        match self.lives.get(&process).and_then(|life| life.measured) {
            Some(Measured {
                gain: Some(gain),
                pages,
                ..
            }) => measured(&gain, pages, sums, tlb_entries),
            _ => assumed(sums, tlb_entries),
        }
    }

    fn is_unmeasured(&self, process: ProcessId) -> bool {
        self.lives.get(&process).is_some_and(|life| {
            life.measured.is_none_or(|then| {
                life.lived >= then.at * MEASURE_AGAIN || life.pages >= then.pages * MEASURE_AGAIN
            })
        })
    }

    /// Those to measure, the largest first.
    pub(super) fn unmeasured(&self) -> Vec<ProcessId> {
        let mut unmeasured = self.unmeasured.clone();
        unmeasured.sort_by_key(|(process, pages)| (Reverse(*pages), *process));
        unmeasured.into_iter().map(|(process, _)| process).collect()
    }

    pub(super) fn learn(&mut self, process: ProcessId, gain: Option<Gain>) {
        if let Some(life) = self.lives.get_mut(&process) {
            life.measured = Some(Measured {
                at: life.lived.max(SHORTEST),
                pages: life.pages.max(1.0),
                gain,
            });
        }
    }
}

/// By a measurement at which so many base pages were in use. More pages now, or pages seen over a longer interval, gain no
/// more together.
fn measured(gain: &Gain, pages: f64, sums: &Sums, tlb_entries: f64) -> PageGain {
    let by_giant = gain
        .saved_by_giant
        .unwrap_or_else(|| assumed_by_giant(sums, tlb_entries));
    PageGain {
        base: each(gain.saved, pages.max(sums.base_pages)),
        huge: each(by_giant, sums.huge_in_use),
        cpus: gain.cpus,
    }
}

fn assumed(sums: &Sums, tlb_entries: f64) -> PageGain {
    let pages = sums.pages_in_use();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let working_set = pages as u64 * BASE_PAGE_SIZE;
    PageGain {
        base: each(typical::saved_share(working_set), pages),
        huge: each(assumed_by_giant(sums, tlb_entries), sums.huge_in_use),
        cpus: 1.0,
    }
}

/// What giant pages save where nobody measured it: as far as the huge pages in use do not fit the TLB.
fn assumed_by_giant(sums: &Sums, tlb_entries: f64) -> f64 {
    SAVED_BY_GIANT * (1.0 - (tlb_entries / sums.huge_in_use.max(1.0)).min(1.0))
}

fn each(together: f64, pages: f64) -> f64 {
    if pages > 0.0 { together / pages } else { 0.0 }
}
