//! A machine in a few lines: regions whose truth is known, memory that runs out, a clock that only the
//! test moves, and failures on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use mega_core::engine::Interval;
use mega_core::worth::Estimate;
use mega_core::{
    Action, ActionKind, BASE_PAGE_SIZE, Cause, CgroupMemory, Counted, GIANT_PAGE_SIZE, Gain,
    Glance, HUGE_PAGE_SIZE, Machine, MemoryObservation, NodeMemory, Observation, Outcome,
    PAGES_PER_REGION, PageSize, ProcessId, ProcessObservation, Region, RegionObservation,
    RegionRef, Span,
};

/// What is true of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    /// Base pages that hold more than zeros.
    pub(crate) filled: u16,
    /// Base pages resident: all while it is huge.
    pub(crate) resident: u16,
    /// Base pages that its program uses in every interval.
    pub(crate) used: u16,
    pub(crate) huge: bool,
}

impl Truth {
    pub(crate) fn base(mapped: u16, used: u16) -> Self {
        Truth {
            filled: mapped,
            resident: mapped,
            used,
            huge: false,
        }
    }

    pub(crate) fn huge(filled: u16, used: u16) -> Self {
        Truth {
            filled,
            resident: PAGES_PER_REGION,
            used,
            huge: true,
        }
    }
}

/// A gain that is known for sure: that share of the time of so many CPUs.
pub(crate) fn certain(share: f64, cpus: f64) -> Gain {
    Gain {
        saved_share: Estimate::exact(share),
        cpus,
        cost_cpu_seconds: 1.0,
        payback_seconds: (share > 0.0).then(|| 1.0 / (share * cpus)),
        saved_by_giant_share: None,
        working_set: 0,
    }
}

/// Seconds of CPU that things cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) observe: f64,
    pub(crate) inspect: f64,
    pub(crate) act: f64,
    /// Seconds on the clock, for each action, that the manager waits for a CPU.
    pub(crate) wait: f64,
    /// Seconds to have a block backed.
    pub(crate) block: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct TinyMachine {
    pub(crate) regions: BTreeMap<RegionRef, Truth>,
    pub(crate) total: u64,
    /// Bytes in use by others.
    pub(crate) others: u64,
    pub(crate) free_blocks: u64,
    /// Whether it has giant pages.
    pub(crate) giant_pages: bool,
    /// Whether it gives back the zero-filled huge pages of spans.
    pub(crate) free_zero: bool,
    /// What counts for a promise.
    pub(crate) counted: BTreeMap<ProcessId, Counted>,
    /// Spans that a giant page maps, by their first region.
    pub(crate) giants: BTreeSet<RegionRef>,
    /// Giant pages that can still be made.
    pub(crate) free_chunks: u64,
    /// Bytes that have to be moved for one.
    pub(crate) giant_copies: u64,
    pub(crate) costs: Costs,
    pub(crate) failures: BTreeMap<RegionRef, Cause>,
    /// Base pages of regions that are swapped out.
    pub(crate) swapped: BTreeMap<RegionRef, u16>,
    /// The nodes, where they are told apart, and the one that each process allocates on.
    pub(crate) nodes: Vec<NodeMemory>,
    pub(crate) node_of: BTreeMap<u32, u32>,
    /// The processes that share a memory cgroup, and its limit in bytes.
    pub(crate) cgroup: Option<(Vec<u32>, u64)>,
    /// Processes whose memory is shared: a demotion unmaps it, and all of it comes back by base pages.
    pub(crate) shared: BTreeSet<ProcessId>,
    /// What each process would gain from huge pages that has none, where that can be measured.
    pub(crate) gains: Option<BTreeMap<u32, Option<Gain>>>,
    /// For how long each process is known to have lived.
    pub(crate) age: Duration,
    /// CPU time of processes, where it is known.
    pub(crate) cpu_times: BTreeMap<u32, Duration>,
    /// How often that was measured.
    pub(crate) measured: usize,
    /// Processes whose accesses nobody wants to know, and those whose bits were not cleared at the last observation for that.
    pub(crate) unwatched: BTreeSet<ProcessId>,
    pub(crate) uncleared: BTreeSet<ProcessId>,
    /// Base pages of regions that are accessed in a moment, where it can look for that; of others none are.
    pub(crate) in_moment: Option<BTreeMap<RegionRef, u16>>,
    /// How often it looked for that.
    pub(crate) glances: usize,
    /// Processes that do not run.
    pub(crate) resting: BTreeSet<ProcessId>,
    pub(crate) idle_cpus: Option<f64>,
    pub(crate) dry_run: bool,
    /// Outcomes left out of every answer.
    pub(crate) swallowed: usize,
    /// Everything that was tried: when, what, and what came of it.
    pub(crate) log: Vec<(Duration, Action, Outcome)>,
    /// How many actions came at once.
    pub(crate) batches: Vec<Vec<Action>>,
    pub(crate) clock: Duration,
    observed: Option<Duration>,
    cpu: Duration,
}

impl TinyMachine {
    /// A machine with 64 GiB, enough free blocks, and costs as on a small virtual machine.
    pub(crate) fn new(regions: impl IntoIterator<Item = (RegionRef, Truth)>) -> Self {
        TinyMachine {
            regions: regions.into_iter().collect(),
            total: 64 << 30,
            others: 0,
            free_blocks: 1 << 15,
            giant_pages: false,
            free_zero: false,
            counted: BTreeMap::new(),
            in_moment: None,
            glances: 0,
            giants: BTreeSet::new(),
            free_chunks: 16,
            giant_copies: GIANT_PAGE_SIZE,
            costs: Costs {
                observe: 1e-3,
                inspect: 0.2e-3,
                act: 1e-3,
                wait: 0.0,
                block: 0.0,
            },
            failures: BTreeMap::new(),
            swapped: BTreeMap::new(),
            nodes: Vec::new(),
            node_of: BTreeMap::new(),
            cgroup: None,
            shared: BTreeSet::new(),
            gains: None,
            age: Duration::ZERO,
            cpu_times: BTreeMap::new(),
            resting: BTreeSet::new(),
            measured: 0,
            unwatched: BTreeSet::new(),
            uncleared: BTreeSet::new(),
            idle_cpus: None,
            dry_run: false,
            swallowed: 0,
            log: Vec::new(),
            batches: Vec::new(),
            clock: Duration::from_secs(1000),
            observed: None,
            cpu: Duration::ZERO,
        }
    }

    /// Bytes of its base pages that a process keeps touching while it is measured.
    fn working_set(&self, process: ProcessId) -> u64 {
        let all = self.regions.iter();
        let base = all.filter(|(target, truth)| target.process == process && !truth.huge);
        let used = |(target, truth): (&RegionRef, &Truth)| match &self.in_moment {
            Some(in_moment) => in_moment.get(target).copied().unwrap_or(0),
            None => truth.used.min(truth.resident),
        };
        base.map(|region| u64::from(used(region)) * BASE_PAGE_SIZE)
            .sum()
    }

    fn spend(&mut self, seconds: f64) {
        self.cpu += Duration::from_secs_f64(seconds);
        self.clock += Duration::from_secs_f64(seconds);
    }

    pub(crate) fn available(&self) -> u64 {
        let resident: u64 = self
            .regions
            .values()
            .map(|truth| u64::from(truth.resident))
            .sum();
        self.total
            .saturating_sub(self.others + resident * BASE_PAGE_SIZE)
    }

    fn cgroup_of(&self, pid: u32) -> Option<CgroupMemory> {
        let (members, limit) = self.cgroup.as_ref()?;
        let of_members = |target: &RegionRef| members.contains(&target.process.pid);
        let resident: u64 = self
            .regions
            .iter()
            .filter(|(target, _)| of_members(target))
            .map(|(_, truth)| u64::from(truth.resident) * BASE_PAGE_SIZE)
            .sum();
        members.contains(&pid).then_some(CgroupMemory {
            limit: *limit,
            available: limit.saturating_sub(resident),
        })
    }

    fn perform(&mut self, action: &Action) -> Outcome {
        let available = self.available();
        if self.dry_run {
            return Outcome::NotTried;
        }
        if let Some(cause) = self.failures.get(&action.target) {
            return Outcome::Failed(*cause);
        }
        match action.kind {
            ActionKind::PromoteGiant => return self.promote_giant(action.target),
            ActionKind::DemoteGiant => {
                return match self.giants.remove(&action.target) {
                    true => Outcome::Remapped {
                        copied: 0,
                        exchanged: 0,
                    },
                    false => Outcome::AlreadySo,
                };
            }
            ActionKind::FreeZero => return self.free_zero(action.target),
            // As the kernel has it, a giant page does not survive a change inside.
            ActionKind::Demote => {
                self.giants.remove(&span_of(action.target));
            }
            ActionKind::Promote => {}
        }
        let Some(truth) = self.regions.get_mut(&action.target) else {
            return Outcome::Failed(Cause::Gone);
        };
        let resident_before = u64::from(truth.resident) * BASE_PAGE_SIZE;
        match (action.kind.is_promotion(), truth.huge) {
            (true, true) | (false, false) => return Outcome::AlreadySo,
            (true, false) => {
                if self.free_blocks == 0 || available < HUGE_PAGE_SIZE {
                    return Outcome::Failed(Cause::NoMemory);
                }
                self.free_blocks -= 1;
                *truth = Truth {
                    huge: true,
                    resident: PAGES_PER_REGION,
                    ..*truth
                };
            }
            (false, true) => {
                let is_shared = self.shared.contains(&action.target.process);
                *truth = Truth {
                    huge: false,
                    resident: if is_shared {
                        truth.resident
                    } else {
                        truth.filled
                    },
                    ..*truth
                };
            }
        }
        Outcome::Done {
            resident_before,
            resident_after: u64::from(truth.resident) * BASE_PAGE_SIZE,
        }
    }

    fn promote_giant(&mut self, first: RegionRef) -> Outcome {
        let span = Span::of(first.region);
        let is_huge = |region| {
            let target = RegionRef { region, ..first };
            self.regions.get(&target).is_some_and(|truth| truth.huge)
        };
        if self.giants.contains(&first) {
            return Outcome::AlreadySo;
        }
        if !self.giant_pages || first.region != span.first_region() {
            return Outcome::Failed(Cause::NotEligible);
        }
        if !Region::wholly_inside(span.start(), span.end()).all(is_huge) {
            return Outcome::Failed(Cause::NotHuge);
        }
        if self.free_chunks == 0 {
            return Outcome::Failed(Cause::NoMemory);
        }
        self.free_chunks -= 1;
        self.giants.insert(first);
        Outcome::Remapped {
            copied: self.giant_copies,
            exchanged: 0,
        }
    }

    fn free_zero(&mut self, first: RegionRef) -> Outcome {
        if !self.free_zero {
            return Outcome::Failed(Cause::NotEligible);
        }
        let in_span = |target: &RegionRef| span_of(*target) == first;
        let huge = |(target, truth): (&RegionRef, &Truth)| in_span(target) && truth.huge;
        let before = self.regions.iter().filter(|entry| huge(*entry)).count();
        self.regions
            .retain(|target, truth| !(in_span(target) && truth.huge && truth.filled == 0));
        let after = self.regions.iter().filter(|entry| huge(*entry)).count();
        if before == after {
            return Outcome::AlreadySo;
        }
        self.giants.remove(&first);
        Outcome::Done {
            resident_before: before as u64 * HUGE_PAGE_SIZE,
            resident_after: after as u64 * HUGE_PAGE_SIZE,
        }
    }

    /// How often each region's page size was changed, and each span's by its first region.
    pub(crate) fn changes(&self) -> BTreeMap<(RegionRef, PageSize), usize> {
        let mut changes = BTreeMap::new();
        for (_, action, outcome) in &self.log {
            if matches!(outcome, Outcome::Done { .. } | Outcome::Remapped { .. }) {
                let page = (action.target, action.kind.page_size());
                *changes.entry(page).or_default() += 1;
            }
        }
        changes
    }

    pub(crate) fn huge_pages(&self, pid: u32) -> usize {
        let of = |target: &RegionRef| target.process.pid == pid;
        self.regions
            .iter()
            .filter(|(target, truth)| of(target) && truth.huge)
            .count()
    }

    /// The part of a process's regions that huge pages map.
    #[allow(clippy::cast_precision_loss)]
    fn share_huge(&self, pid: u32) -> f64 {
        let all = self
            .regions
            .keys()
            .filter(|target| target.process.pid == pid);
        self.huge_pages(pid) as f64 / all.count().max(1) as f64
    }
}

/// The span that a region lies in, by its first region.
fn span_of(target: RegionRef) -> RegionRef {
    RegionRef {
        region: Span::of(target.region).first_region(),
        ..target
    }
}

impl Machine for TinyMachine {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.clock
    }

    fn cpu_time(&self) -> Duration {
        self.cpu
    }

    fn watch(&mut self, wanted: &dyn Fn(ProcessId) -> bool) {
        let all = self.regions.keys().map(|target| target.process);
        self.unwatched = all.filter(|process| !wanted(*process)).collect();
    }

    fn observe(&mut self) -> Result<Observation, Infallible> {
        self.spend(self.costs.observe);
        let before = self.observed.replace(self.clock).unwrap_or(self.clock);
        let interval = self.clock - before;
        let mut uncleared = std::mem::replace(&mut self.uncleared, self.unwatched.clone());
        // What rests accesses nothing, whoever watches it.
        uncleared.retain(|process| !self.resting.contains(process));
        let mut processes: Vec<ProcessObservation> = Vec::new();
        for (target, truth) in &self.regions {
            if processes
                .last()
                .is_none_or(|process| process.process != target.process)
            {
                let regions = Vec::new();
                processes.push(ProcessObservation {
                    process: target.process,
                    cpu_time: self.cpu_times.get(&target.process.pid).copied(),
                    regions,
                    accesses_known: !uncleared.contains(&target.process),
                    node: self.node_of.get(&target.process.pid).copied(),
                    cgroup: self.cgroup_of(target.process.pid),
                });
            }
            let accessed = match (truth.huge, truth.used) {
                _ if self.resting.contains(&target.process) => 0,
                // Everything, at some time.
                _ if uncleared.contains(&target.process) => truth.resident,
                (true, 0) => 0,
                (true, _) => PAGES_PER_REGION,
                (false, used) => used.min(truth.resident),
            };
            let page_size = if self.giants.contains(&span_of(*target)) {
                PageSize::Giant
            } else if truth.huge {
                PageSize::Huge
            } else {
                PageSize::Base
            };
            let region = RegionObservation {
                region: target.region,
                mapped: truth.resident,
                accessed,
                page_size,
                zero_filled: None,
                swapped: self.swapped.get(target).copied().unwrap_or(0),
            };
            if let Some(process) = processes.last_mut() {
                process.regions.push(region);
            }
        }
        let available = self.available();
        let contiguity = self.free_blocks * HUGE_PAGE_SIZE;
        let memory = MemoryObservation {
            total: self.total,
            available,
            free: available,
            contiguity,
            nodes: self.nodes.clone(),
        };
        Ok(Observation {
            interval,
            processes,
            memory,
            idle_cpus: self.idle_cpus,
            giant_pages: self.giant_pages,
            free_zero: self.free_zero,
            counted: self.counted.clone(),
            glances: Vec::new(),
        })
    }

    fn can_glance(&self) -> bool {
        self.in_moment.is_some()
    }

    fn glance(&mut self) -> Vec<Glance> {
        self.glances += 1;
        let in_moment = self.in_moment.clone().unwrap_or_default();
        let mut glances: Vec<Glance> = Vec::new();
        let is_seen = |target: &RegionRef| !self.unwatched.contains(&target.process);
        let seen = self.regions.iter();
        let seen = seen.filter(|(target, truth)| !truth.huge && is_seen(target));
        for (target, truth) in seen {
            if glances
                .last()
                .is_none_or(|last| last.process != target.process)
            {
                glances.push(Glance {
                    process: target.process,
                    length: Interval::SHORTEST,
                    worked: None,
                    regions: Vec::new(),
                });
            }
            if let Some(glance) = glances.last_mut() {
                glance.regions.push(RegionObservation {
                    region: target.region,
                    mapped: truth.resident,
                    accessed: in_moment.get(target).copied().unwrap_or(0),
                    page_size: PageSize::Base,
                    zero_filled: None,
                    swapped: 0,
                });
            }
        }
        glances
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        self.spend(self.costs.inspect);
        self.regions
            .get(&target)
            .map(|truth| truth.resident - truth.filled)
    }

    fn measures(&self) -> bool {
        self.gains.is_some()
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        self.measured += 1;
        self.clock += Duration::from_millis(300);
        let whole = self.gains.as_ref()?.get(&process.pid).copied().flatten()?;
        Some(Gain {
            saved_share: whole.saved_share.scaled(1.0 - self.share_huge(process.pid)),
            working_set: self.working_set(process),
            ..whole
        })
    }

    fn age(&self, _process: ProcessId) -> Duration {
        self.age
    }

    fn promotion_seconds(&self) -> Option<f64> {
        None
    }

    fn prepare(&mut self, promotions: usize) {
        self.spend(self.costs.block * promotions as f64);
    }

    fn rest(&mut self, time: Duration) {
        self.clock += time;
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.batches.push(actions.to_vec());
        let mut outcomes = Vec::new();
        for action in actions {
            self.spend(self.costs.act);
            self.clock += Duration::from_secs_f64(self.costs.wait);
            let outcome = self.perform(action);
            self.log.push((self.clock, *action, outcome));
            outcomes.push(outcome);
        }
        outcomes.truncate(actions.len().saturating_sub(self.swallowed));
        outcomes
    }
}
