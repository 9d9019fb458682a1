//! What `adaptive` inspects and demotes while memory is short.

use std::cmp::Reverse;

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::observation::{
    CgroupMemory, MemoryObservation, Observation, ProcessObservation, RegionRef,
};
use crate::page::{BASE_PAGE_SIZE, PageSize, Span};
use crate::process::ProcessId;
use crate::promotion::tracked::Tracked;

use super::deal::Terms;
use super::pressure::{self, Pressure};
use super::settings::Settings;
use super::state::State;

/// Huge pages whose zero-filled base pages are worth counting, those idle longest first.
pub(super) fn worth_inspecting(
    states: &Tracked<State>,
    pressure: &Pressure,
    observation: &Observation,
) -> Vec<RegionRef> {
    let mut targets = Vec::new();
    for process in short_processes(pressure, observation) {
        for (region, state) in states.join(process) {
            if region.page_size == PageSize::Huge && state.may_be_inspected() {
                let target = RegionRef {
                    process: process.process,
                    region: region.region,
                };
                let idle = if region.accessed > 0 { 0 } else { state.idle() };
                targets.push((Reverse(idle), target));
            }
        }
    }
    targets.sort_unstable();
    targets.into_iter().map(|(_, target)| target).collect()
}

/// What to do to giant pages that are cold. First they are searched for zero-filled huge pages, which they lose
/// nothing by if there are none. Then they are demoted, so that what is in them can be looked into and demoted by
/// itself: while it is in a giant page, looking into one huge page would mark them all accessed.
pub(super) fn of_giant_pages(
    states: &Tracked<State>,
    pressure: &Pressure,
    observation: &Observation,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for process in short_processes(pressure, observation) {
        for (region, state) in states.join(process) {
            let is_first = Span::of(region.region).first_region() == region.region;
            if region.page_size == PageSize::Giant && is_first && state.is_cold() {
                let is_to_search = observation.free_zero && !state.was_searched();
                actions.push(Action {
                    kind: if is_to_search {
                        ActionKind::FreeZero
                    } else {
                        ActionKind::DemoteGiant
                    },
                    target: RegionRef {
                        process: process.process,
                        region: region.region,
                    },
                });
            }
        }
    }
    actions
}

/// Huge pages to demote where that pays on the `terms` of their process, those that give back most first, as many as end the shortage.
pub(super) fn demotions(
    settings: &Settings,
    states: &Tracked<State>,
    pressure: &Pressure,
    observation: &Observation,
    failures: &FailureMemory,
    terms: impl Fn(ProcessId) -> Terms,
) -> Vec<Action> {
    let mut shortage = Shortage::new(settings, pressure, &observation.memory);
    let mut bloated = Vec::new();
    for process in short_processes(pressure, observation) {
        let own = process
            .cgroup
            .filter(|_| pressure.is_own(process.process))
            .map(|cgroup| shortage.open(settings, cgroup));
        let terms = terms(process.process);
        for (region, state) in states.join(process) {
            let zero_filled = state.zero_filled().unwrap_or(0);
            let deal = terms.demotion(zero_filled, !state.is_cold());
            if region.page_size == PageSize::Huge && zero_filled > 0 && deal.pays() {
                let target = RegionRef {
                    process: process.process,
                    region: region.region,
                };
                bloated.push((Reverse(zero_filled), target, own));
            }
        }
    }
    bloated.sort_unstable();
    let mut actions = Vec::new();
    for (Reverse(zero_filled), target, own) in bloated {
        let kind = ActionKind::Demote;
        let action = Action { kind, target };
        // What is held back gives nothing now: others have to.
        if shortage.lasts_for(own) && failures.holds(&action).is_none() {
            shortage.give_back(own, u64::from(zero_filled) * BASE_PAGE_SIZE);
            actions.push(action);
        }
    }
    actions
}

/// The processes that are short of memory.
fn short_processes<'a>(
    pressure: &Pressure,
    observation: &'a Observation,
) -> impl Iterator<Item = &'a ProcessObservation> {
    let processes = observation.processes.iter();
    processes.filter(|process| pressure.is_on(process.process))
}

/// Bytes that must become available: on the machine, and in each cgroup that is short. Processes that see the same limit and
/// the same room are taken for members of one cgroup.
struct Shortage {
    machine: u64,
    cgroups: Vec<(CgroupMemory, u64)>,
}

impl Shortage {
    fn new(settings: &Settings, pressure: &Pressure, memory: &MemoryObservation) -> Self {
        let machine = if pressure.is_on_machine() {
            bytes_wanted(settings, memory.total, memory.available)
        } else {
            0
        };
        Shortage {
            machine,
            cgroups: Vec::new(),
        }
    }

    fn open(&mut self, settings: &Settings, cgroup: CgroupMemory) -> usize {
        let known = self.cgroups.iter().position(|(known, _)| *known == cgroup);
        known.unwrap_or_else(|| {
            let wanted = bytes_wanted(settings, cgroup.limit, cgroup.available);
            self.cgroups.push((cgroup, wanted));
            self.cgroups.len() - 1
        })
    }

    /// Whether more has to be given back, by the machine's shortage or that of its own cgroup.
    fn lasts_for(&self, own: Option<usize>) -> bool {
        self.machine > 0 || own.is_some_and(|own| self.cgroups[own].1 > 0)
    }

    fn give_back(&mut self, own: Option<usize>, bytes: u64) {
        self.machine = self.machine.saturating_sub(bytes);
        if let Some(own) = own {
            self.cgroups[own].1 = self.cgroups[own].1.saturating_sub(bytes);
        }
    }
}

/// Bytes that must become available to end the shortage.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn bytes_wanted(settings: &Settings, total: u64, available: u64) -> u64 {
    let enough = (total as f64 * pressure::enough(settings)).round() as u64;
    enough.saturating_sub(available)
}
