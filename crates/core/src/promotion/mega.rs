//! `mega`: the policy of the MEGA paper (SYSTOR '19, sections 3.1 to 3.3).
//!
//! It follows the paper's prose, not its Algorithm 1, which contradicts the prose: there a `return` ends the whole scan
//! at the first region that is no longer a candidate, utilization is not averaged over the last N scans, and only huge
//! pages that are *not* idle can be demoted.
//!
//! Where the prose leaves room:
//!
//! - One scan is one interval (5 s in the paper).
//! - Utilization is "accumulated over the last N scans". So the policy promotes and demotes nothing for its utilization
//!   before it saw N scans. Intervals without known accesses are not scans.
//! - A huge page has one Accessed bit: in a scan its utilization is 0 or 1.
//! - The history begins anew when a region changes its page size. The accesses to the huge page judge a promoted
//!   region, N scans later at the earliest.
//! - Seen from outside the kernel, a huge page is mapped whole. If a program frees a part of one, the kernel splits it,
//!   so what the paper's mapped threshold would demote is demoted already. Zero-filled base pages count as not mapped
//!   if somebody counted them. The policy asks for no such count.

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::observation::{Observation, RegionObservation, RegionRef};
use crate::page::{PAGES_PER_REGION, PageSize};

use super::Policy;
use super::info::PolicyInfo;
use super::tracked::Tracked;
use crate::parameters::{ParameterInfo, Values};

const START_TRACKING: ParameterInfo = ParameterInfo::share(
    "start_tracking",
    "share of a region mapped from which its utilization is tracked (StartUTracking, section 3.1)",
    0.50,
);
const STOP_TRACKING: ParameterInfo = ParameterInfo::share(
    "stop_tracking",
    "share of a region mapped below which its utilization is no longer tracked (StopUTracking, section 3.1)",
    0.25,
);
const PROMOTE_MAPPED: ParameterInfo = ParameterInfo::share(
    "promote_mapped",
    "share of a region mapped from which it may be promoted (MProm, section 3.3)",
    0.90,
);
const PROMOTE_UTILIZATION: ParameterInfo = ParameterInfo::share(
    "promote_utilization",
    "mean utilization from which a region may be promoted (UProm, section 3.3)",
    0.50,
);
const DEMOTE_MAPPED: ParameterInfo = ParameterInfo::share(
    "demote_mapped",
    "share of a huge page mapped below which it is demoted (MDem, section 3.3)",
    0.50,
);
const DEMOTE_UTILIZATION: ParameterInfo = ParameterInfo::share(
    "demote_utilization",
    "mean utilization below which a huge page is demoted (UDem, section 3.3)",
    0.25,
);
const SCANS: ParameterInfo = ParameterInfo {
    name: "scans",
    summary: "scans that utilization is averaged over (N, section 3.2)",
    unit: "intervals",
    default: 10.0,
    min: 1.0,
    max: MAX_SCANS as f64,
};

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "mega",
    summary: "promotes what is mapped and used over the last scans, demotes what no longer is",
    source: "MEGA (SYSTOR '19), sections 3.1 to 3.3",
    parameters: &[
        START_TRACKING,
        STOP_TRACKING,
        PROMOTE_MAPPED,
        PROMOTE_UTILIZATION,
        DEMOTE_MAPPED,
        DEMOTE_UTILIZATION,
        SCANS,
    ],
    for_giant_pages: false,
    asks_for_gains: false,
    settings: &[],
    ordered: &[
        (&STOP_TRACKING, &START_TRACKING),
        (&DEMOTE_MAPPED, &PROMOTE_MAPPED),
        (&DEMOTE_UTILIZATION, &PROMOTE_UTILIZATION),
    ],
    build: |values| Box::new(Mega::new(values)),
};

/// The largest N: what the history of one region has room for.
const MAX_SCANS: usize = 32;

/// Base pages accessed in each of the last scans of one region.
#[derive(Clone, Copy, Debug)]
struct History {
    page_size: PageSize,
    scans: u8,
    next: u8,
    accessed: [u16; MAX_SCANS],
}

impl History {
    fn new(page_size: PageSize) -> Self {
        History {
            page_size,
            scans: 0,
            next: 0,
            accessed: [0; MAX_SCANS],
        }
    }

    fn push(&mut self, accessed: u16, scans: u8) {
        if let Some(slot) = self.accessed.get_mut(usize::from(self.next)) {
            *slot = accessed;
        }
        self.next = (self.next + 1) % scans;
        self.scans = (self.scans + 1).min(scans);
    }

    /// Mean utilization, 0 to 1, once all `scans` are there.
    fn utilization(&self, scans: u8) -> Option<f64> {
        if self.scans < scans {
            return None;
        }
        let sum: u32 = self
            .accessed
            .iter()
            .take(usize::from(scans))
            .map(|pages| u32::from(*pages))
            .sum();
        Some(f64::from(sum) / (f64::from(scans) * f64::from(PAGES_PER_REGION)))
    }
}

/// The paper's thresholds and the histories of the tracked regions.
struct Mega {
    start_tracking: f64,
    stop_tracking: f64,
    promote_mapped: f64,
    promote_utilization: f64,
    demote_mapped: f64,
    demote_utilization: f64,
    scans: u8,
    histories: Tracked<History>,
}

impl Mega {
    fn new(values: Values<'_>) -> Self {
        Mega {
            start_tracking: values.get(&START_TRACKING),
            stop_tracking: values.get(&STOP_TRACKING),
            promote_mapped: values.get(&PROMOTE_MAPPED),
            promote_utilization: values.get(&PROMOTE_UTILIZATION),
            demote_mapped: values.get(&DEMOTE_MAPPED),
            demote_utilization: values.get(&DEMOTE_UTILIZATION),
            scans: u8::try_from(values.count(&SCANS)).unwrap_or(1).max(1),
            histories: Tracked::default(),
        }
    }

    /// Brings the histories up to the observation.
    fn scan(&mut self, observation: &Observation) {
        let (start, stop, scans) = (self.start_tracking, self.stop_tracking, self.scans);
        self.histories
            .merge(observation, |process, region, history| {
                let mapped = share_mapped(region);
                let history = history.filter(|history| history.page_size == region.page_size);
                let tracked = match history {
                    _ if region.is_huge() => true,
                    Some(_) => mapped >= stop,
                    None => mapped >= start,
                };
                let mut history = history.unwrap_or_else(|| History::new(region.page_size));
                if process.accesses_known {
                    history.push(region.accessed, scans);
                }
                tracked.then_some(history)
            });
    }

    fn judge(&self, region: &RegionObservation, history: &History) -> Option<ActionKind> {
        let mapped = share_mapped(region);
        let utilization = history.utilization(self.scans);
        match region.page_size {
            PageSize::Base => (mapped >= self.promote_mapped
                && utilization.is_some_and(|mean| mean >= self.promote_utilization))
            .then_some(ActionKind::Promote),
            PageSize::Huge => (mapped < self.demote_mapped
                || utilization.is_some_and(|mean| mean < self.demote_utilization))
            .then_some(ActionKind::Demote),
            PageSize::Giant => None,
        }
    }
}

/// The part of a region that is mapped, 0 to 1; of a huge page, the part not known to be zero-filled.
fn share_mapped(region: &RegionObservation) -> f64 {
    let zero_filled = if region.is_huge() {
        region.zero_filled.unwrap_or(0)
    } else {
        0
    };
    f64::from(region.mapped.saturating_sub(zero_filled)) / f64::from(PAGES_PER_REGION)
}

impl Policy for Mega {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn decide(&mut self, observation: &Observation, _failures: &FailureMemory) -> Vec<Action> {
        self.scan(observation);
        let mut actions = Vec::new();
        for process in &observation.processes {
            for (region, history) in self.histories.join(process) {
                if let Some(kind) = self.judge(region, history) {
                    let target = RegionRef {
                        process: process.process,
                        region: region.region,
                    };
                    actions.push(Action { kind, target });
                }
            }
        }
        actions
    }

    fn settling_intervals(&self) -> usize {
        usize::from(self.scans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Region;

    #[test]
    fn a_history_stays_small() {
        assert!(size_of::<(Region, History)>() <= 80);
    }
}
