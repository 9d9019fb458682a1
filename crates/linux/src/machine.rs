//! The live machine that the engine drives: observes, clears, promotes, demotes, and looks again.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mega_core::worth::Touches;
use mega_core::{
    Action, Counted, Gain, Glance, HUGE_PAGE_SIZE, Machine, Observation, Outcome, ProcessId,
    ProcessObservation, Region, RegionObservation, RegionRef, Span,
};

use mega_core::worth::{Calibration, predict};

use crate::act::perform;
use crate::act::warm::Warmer;
use crate::calibrate;
use crate::observe::cgroups::{self, Cgroups};
use crate::observe::idle::IdleCpus;
use crate::observe::larger_folios::LargerFolios;
use crate::observe::memory;
use crate::observe::nodes::ProcessorNodes;
use crate::observe::tracker::{FolioSizes, folios};
use crate::observe::zero_filled::ZeroCounter;
use crate::process::eligible;
use crate::process::not_eligible::NotEligible;
use crate::process::sharing::{Share, SharedRange};
use crate::process::statm;
use crate::process::{self, Chosen};
use crate::target::{Held, Target};
use crate::touches::{self, Effort};
use crate::{Error, Host};

/// At most one free block in this many is touched ahead, so that the hypervisor backs it.
const SPARED_SHARE: u64 = 4;

/// How many times as long a process is measured once more that ran too little the first time to tell anything: where all CPUs are busy
/// each sleep of the meter ends late, and few rounds fit the time.
const WHERE_IT_RAN_TOO_LITTLE: u32 = 3;

/// How a [`LinuxMachine`] treats its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineOptions {
    /// How long a target's mmap lock may be held in one go, as far as a call can be cut. The collapse of a single
    /// region (0.4 to 4.6 ms, its copy) and the split of one (0.1 ms) cannot; nor can what a giant page takes, of which
    /// the kernel copies each huge page under locks of its own.
    pub lock_bound: Duration,
    /// Whether a region with pages in swap is promoted: a collapse reads them from there. Only where somebody asks for
    /// it by hand; what is in swap is not in use.
    pub swap_in: bool,
}

impl Default for MachineOptions {
    fn default() -> Self {
        MachineOptions {
            lock_bound: Duration::from_millis(10),
            swap_in: false,
        }
    }
}

/// Some processes of a host, observed and acted on. Several machines may share a host.
pub struct LinuxMachine {
    host: Arc<Host>,
    options: MachineOptions,
    wanted: Vec<ProcessId>,
    /// Those of which nobody wants to know what they access.
    unwatched: BTreeSet<ProcessId>,
    /// Boxed: a map's nodes have room for more than they hold, and each look takes a target out and puts it back.
    targets: BTreeMap<ProcessId, Box<Target>>,
    departed: Vec<ProcessId>,
    refused: Vec<(ProcessId, Error)>,
    last_observation: Option<Duration>,
    /// The processes that were looked at then, and when.
    looked_at: Vec<(ProcessId, Duration)>,
    share: Share,
    nodes: ProcessorNodes,
    cgroup_mount: Option<PathBuf>,
    zero_counter: ZeroCounter,
    warmer: Warmer,
    idle: IdleCpus,
    larger_folios: LargerFolios,
    /// Bytes of contiguity at the last observation.
    contiguity: u64,
    /// What counts for a promise of coverage; `None` for all memory.
    chosen: Option<Chosen>,
    /// What touches cost on this machine, where that is known. Read when a policy first asks: most machines only look or
    /// act.
    calibration: OnceCell<Option<Calibration>>,
}

impl LinuxMachine {
    /// A machine with no targets yet.
    #[must_use]
    pub fn new(host: Arc<Host>, options: MachineOptions) -> Self {
        let kernel = host.kernel().as_ref();
        LinuxMachine {
            share: Share::new(host.sharing()),
            nodes: ProcessorNodes::read(kernel),
            cgroup_mount: cgroups::mount_point(kernel),
            host,
            options,
            wanted: Vec::new(),
            unwatched: BTreeSet::new(),
            targets: BTreeMap::new(),
            departed: Vec::new(),
            refused: Vec::new(),
            last_observation: None,
            looked_at: Vec::new(),
            zero_counter: ZeroCounter::default(),
            warmer: Warmer::default(),
            idle: IdleCpus::default(),
            larger_folios: LargerFolios::default(),
            contiguity: 0,
            chosen: None,
            calibration: OnceCell::new(),
        }
    }

    /// Whether so many free blocks may be taken for a moment. Where there are few the kernel would have to make some.
    fn may_take_blocks(&self, count: usize) -> bool {
        let wanted = count as u64 * HUGE_PAGE_SIZE;
        !self.host.is_dry_run() && self.contiguity / SPARED_SHARE >= wanted
    }

    fn calibration(&self) -> Option<&Calibration> {
        let kept = || calibrate::kept(self.host.kernel().as_ref());
        self.calibration.get_or_init(kept).as_ref()
    }

    /// Looks for this machine's calibration anew when it is needed next.
    pub fn forget_calibration(&mut self) {
        self.calibration.take();
    }

    /// The host it is on.
    #[must_use]
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// How it treats its targets.
    #[must_use]
    pub fn options(&self) -> MachineOptions {
        self.options
    }

    /// Treats its targets differently from now on.
    pub fn set_options(&mut self, options: MachineOptions) {
        self.options = options;
    }

    /// From the next observation on, only this memory of each process counts for a promise of coverage; `None` for all of it.
    pub fn set_chosen(&mut self, chosen: Option<Chosen>) {
        if self.chosen != chosen {
            self.chosen = chosen;
            self.targets
                .values_mut()
                .for_each(|target| target.count_anew());
        }
    }

    /// Manages these processes and no others from the next observation on. What is known of those that were
    /// managed already is kept.
    pub fn set_targets(&mut self, targets: Vec<ProcessId>) {
        let wanted: BTreeSet<ProcessId> = targets.into_iter().collect();
        self.targets.retain(|process, _| wanted.contains(process));
        self.wanted = wanted.into_iter().collect();
    }

    /// The processes managed, by pid.
    #[must_use]
    pub fn targets(&self) -> &[ProcessId] {
        &self.wanted
    }

    /// The targets found gone since this was last called. They are targets no more.
    pub fn take_departed(&mut self) -> Vec<ProcessId> {
        std::mem::take(&mut self.departed)
    }

    /// The targets that the latest observation could not see though they run, and why. They remain targets.
    pub fn take_refused(&mut self) -> Vec<(ProcessId, Error)> {
        std::mem::take(&mut self.refused)
    }

    /// The longest that one call which can be cut, clearing or splitting, has taken for any present target.
    #[must_use]
    pub fn longest_hold(&self) -> Duration {
        let holds = self.targets.values().map(|target| target.longest_hold);
        holds.max().unwrap_or_default()
    }

    /// The addresses of a process that huge pages may map, as it was observed last: ascending, disjoint, in whole regions.
    #[must_use]
    pub fn eligible(&self, process: ProcessId) -> &[Range<u64>] {
        self.targets
            .get(&process)
            .map_or(&[], |target| &target.ranges)
    }

    /// What of a process counts for a promise of coverage, as it was observed last; `None` for all of it.
    #[must_use]
    pub fn counted(&self, process: ProcessId) -> Option<&Counted> {
        self.targets.get(&process)?.counted.as_ref()
    }

    /// The memory of a process that huge pages would be of use in and cannot map, as it was observed last.
    #[must_use]
    pub fn not_eligible(&self, process: ProcessId) -> &[NotEligible] {
        self.targets
            .get(&process)
            .map_or(&[], |target| &target.not_eligible)
    }

    /// The same of every target that has such memory.
    pub fn all_not_eligible(&self) -> impl Iterator<Item = (ProcessId, &[NotEligible])> {
        let some = self
            .targets
            .values()
            .filter(|target| !target.not_eligible.is_empty());
        some.map(|target| (target.process, target.not_eligible.as_slice()))
    }

    /// The eligible regions of a process, in address order: those in `range`, or all.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::NotPermitted`]; with a range [`Error::NotMapped`] and [`Error::NotEligible`].
    pub fn eligible_regions(
        &mut self,
        process: ProcessId,
        range: Option<Range<u64>>,
    ) -> Result<Vec<Region>, Error> {
        let ranges = self.eligible_ranges(process, range)?;
        Ok(ranges
            .iter()
            .flat_map(|range| Region::wholly_inside(range.start, range.end))
            .collect())
    }

    /// The spans of a process that lie wholly in eligible memory, in address order: those in `range`, or all.
    ///
    /// # Errors
    /// As [`LinuxMachine::eligible_regions`], and with a range [`Error::NoSpan`].
    pub fn eligible_spans(
        &mut self,
        process: ProcessId,
        range: Option<Range<u64>>,
    ) -> Result<Vec<Span>, Error> {
        let ranges = self.eligible_ranges(process, range.clone())?;
        let spans: Vec<Span> = ranges
            .iter()
            .flat_map(|range| Span::wholly_inside(range.start, range.end))
            .collect();
        match range {
            Some(range) if spans.is_empty() => Err(Error::NoSpan {
                pid: process.pid,
                range,
            }),
            _ => Ok(spans),
        }
    }

    fn eligible_ranges(
        &mut self,
        process: ProcessId,
        range: Option<Range<u64>>,
    ) -> Result<Vec<Range<u64>>, Error> {
        let target = Target::refreshed(process, &self.host)?;
        match range {
            None => Ok(target.ranges),
            Some(range) => {
                let maps = target.mappings(&self.host)?;
                if !maps.iter().any(|mapping| {
                    mapping.range.start < range.end && range.start < mapping.range.end
                }) {
                    return Err(Error::NotMapped {
                        pid: process.pid,
                        range,
                    });
                }
                let ranges = eligible::within(&target.ranges, &range);
                if ranges.is_empty() {
                    return Err(Error::NotEligible {
                        pid: process.pid,
                        range,
                    });
                }
                Ok(ranges)
            }
        }
    }

    /// Finds out where a target may be acted on now. False where it is gone.
    fn refresh_target(&mut self, process: ProcessId) -> Result<bool, Error> {
        let activity = self.host.processes().activity(process);
        let target = self
            .targets
            .entry(process)
            .or_insert_with(|| Box::new(Target::new(process)));
        match target.refresh(&self.host, activity, self.chosen.as_ref()) {
            Ok(()) => Ok(true),
            Err(Error::Gone { .. }) => {
                self.targets.remove(&process);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Leaves each part of shared memory to one of these targets, which have just been refreshed.
    fn share_out(&mut self, present: &[ProcessId]) {
        let mapped: BTreeMap<ProcessId, Vec<SharedRange>> = present
            .iter()
            .filter_map(|process| Some((*process, self.targets.get(process)?.shared())))
            .filter(|(_, shared)| !shared.is_empty())
            .map(|(process, shared)| (process, shared.to_vec()))
            .collect();
        let kernel = self.host.kernel().as_ref();
        let resident = |process: ProcessId| {
            statm::resident(kernel, process.pid).map_or(0, |resident| resident.shared)
        };
        let mut left = self.share.divide(mapped, resident);
        for (process, target) in &mut self.targets {
            target.leave_alone(left.remove(process).unwrap_or_default());
        }
    }

    /// Observes one target, which has just been refreshed. `None` where it is gone.
    fn observe_target(
        &mut self,
        process: ProcessId,
        interval: Duration,
    ) -> Result<Option<ProcessObservation>, Error> {
        let Some(target) = self.targets.remove(&process) else {
            return Ok(None);
        };
        let cpu_time = Some(target.cpu_time);
        // The limits of cgroups are read for all processes together.
        let observed = |regions, accesses_known, node| ProcessObservation {
            process,
            cpu_time,
            regions,
            accesses_known,
            node,
            cgroup: None,
        };
        let is_wanted = !self.unwatched.contains(&process);
        if let Some(regions) = target.at_rest() {
            // What did not run accessed nothing, though nobody cleared its bits before.
            let accesses_known = target.accesses_known(&self.host)
                || (!is_wanted && self.host.tracker_kind().knows_accesses());
            let node = self.nodes.of(target.processor);
            self.targets.insert(process, target);
            return Ok(Some(observed(regions, accesses_known, node)));
        }
        let mut target = match target.hold(&self.host) {
            Ok(target) => target,
            Err(Error::Gone { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Of before it is cleared anew.
        let accesses_known = target.accesses_known(&self.host);
        target.watch(is_wanted, interval);
        let mut regions = Vec::new();
        match target.observe(&self.host, interval, self.options.lock_bound, &mut regions) {
            Ok(()) => {}
            Err(Error::Gone { .. }) => {
                // Gone, or another program was started in the middle: that one is looked at next time.
                let alive = crate::process::is_alive(self.host.kernel().as_ref(), process);
                return Ok(alive.then(|| observed(Vec::new(), false, None)));
            }
            Err(error) => return Err(error),
        }
        target.may_rest(&regions);
        self.looked_at.push((process, self.host.kernel().now()));
        let node = self.nodes.of(target.processor);
        self.targets.insert(process, target.release());
        Ok(Some(observed(regions, accesses_known, node)))
    }

    /// Does something with a process while it is held, one that was not observed before too (an action by hand).
    fn with_held<T>(
        &mut self,
        process: ProcessId,
        work: impl FnOnce(&Host, &mut Held) -> T,
    ) -> Result<T, Error> {
        let known = match self.targets.remove(&process) {
            Some(known) => known,
            None => Target::refreshed(process, &self.host)?,
        };
        let mut held = known.hold(&self.host)?;
        let done = work(&self.host, &mut held);
        self.targets.insert(process, held.release());
        Ok(done)
    }

    /// Measures how often a process touches pages. It takes as long as the effort allows, with the process held.
    ///
    /// # Errors
    /// [`Error::Missing`] where the tracker cannot read single pages' Accessed bits, or nothing may be written;
    /// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`].
    pub fn measure_touches(
        &mut self,
        process: ProcessId,
        effort: Effort,
    ) -> Result<Touches, Error> {
        self.with_held(process, |host, held| touches::measure(host, held, effort))?
    }

    /// How often a process touches pages, and what huge pages would gain it: as a manager measures it, which takes some tenths of a
    /// second. `None` where that cannot be measured now, or this machine is not calibrated.
    pub fn measured_gain(&mut self, process: ProcessId) -> Option<(Touches, Gain)> {
        let effort = Effort::of_a_manager(process.start_time);
        let mut touches = self.measure_touches(process, effort).ok()?;
        if !touches.tell_how_often() {
            let longer = Effort {
                at_most: effort.at_most * WHERE_IT_RAN_TOO_LITTLE,
                ..effort
            };
            touches = self.measure_touches(process, longer).ok()?;
        }
        let gain = Gain::from(&predict(&touches, self.calibration()?));
        Some((touches, gain))
    }

    /// Looks at regions without clearing anything: what was accessed is still there for the next observation.
    ///
    /// # Errors
    /// As [`LinuxMachine::eligible_regions`].
    pub fn look(
        &mut self,
        process: ProcessId,
        regions: &[Region],
    ) -> Result<Vec<RegionObservation>, Error> {
        self.with_held(process, |host, target| target.look(host, regions))?
    }

    /// Looks at the folios that base page table entries map in `regions`, which ascend. `looked` is called after each region.
    /// `None` where the kernel hides frames or what is in them (for want of `CAP_SYS_ADMIN`), or the process ended.
    pub fn folio_sizes(
        &mut self,
        process: ProcessId,
        regions: &[Region],
        looked: impl FnMut(),
    ) -> Option<BTreeMap<Region, FolioSizes>> {
        self.look_at_folios(process, regions, looked).ok()?.ok()
    }

    fn look_at_folios(
        &mut self,
        process: ProcessId,
        regions: &[Region],
        looked: impl FnMut(),
    ) -> Result<io::Result<BTreeMap<Region, FolioSizes>>, Error> {
        self.with_held(process, |host, _| {
            folios::look(host.kernel().as_ref(), process.pid, regions, looked)
        })
    }

    /// What is known of larger folios that base page table entries of the targets map.
    #[must_use]
    pub fn larger_folios(&self) -> &LargerFolios {
        &self.larger_folios
    }

    /// Looks into a few regions, for what [`LinuxMachine::larger_folios`] estimates.
    fn look_for_larger_folios(&mut self, observation: &Observation) {
        let kernel = self.host.kernel().as_ref();
        let turns = self.larger_folios.turns(kernel, kernel.now(), observation);
        for turn in turns {
            match self.look_at_folios(turn.process, &turn.regions, || {}) {
                Ok(Ok(seen)) => self.larger_folios.saw(&turn, &seen),
                Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.larger_folios.are_hidden();
                    return;
                }
                // It ended, or what it maps changed meanwhile.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}

impl Machine for LinuxMachine {
    type Error = Error;

    fn now(&self) -> Duration {
        self.host.kernel().now()
    }

    fn cpu_time(&self) -> Duration {
        self.host.kernel().cpu_time()
    }

    fn watch(&mut self, wanted: &dyn Fn(ProcessId) -> bool) {
        let all = self.wanted.iter().copied();
        self.unwatched = all.filter(|process| !wanted(*process)).collect();
    }

    fn observe(&mut self) -> Result<Observation, Error> {
        let memory = memory::observe(self.host.kernel().as_ref())?;
        self.contiguity = memory.contiguity;
        let now = self.now();
        let mut observation = Observation {
            interval: self
                .last_observation
                .map_or(Duration::ZERO, |last| now.saturating_sub(last)),
            processes: Vec::with_capacity(self.wanted.len()),
            memory,
            idle_cpus: self.idle.since_last(self.host.kernel().as_ref()),
            giant_pages: self.host.has_giant_pages(),
            free_zero: self.host.can_free_zero(),
            counted: BTreeMap::new(),
            glances: Vec::new(),
        };
        let mut departed = BTreeSet::new();
        let mut failures = Vec::new();
        let mut present = Vec::with_capacity(self.wanted.len());
        for process in self.wanted.clone() {
            match self.refresh_target(process) {
                Ok(true) => present.push(process),
                Ok(false) => departed.extend([process]),
                Err(error) => failures.push((process, error)),
            }
        }
        self.share_out(&present);
        self.looked_at.clear();
        for process in present {
            match self.observe_target(process, observation.interval) {
                Ok(Some(process)) => observation.processes.push(process),
                Ok(None) => departed.extend([process]),
                Err(error) => failures.push((process, error)),
            }
        }
        let kernel = self.host.kernel().as_ref();
        let mut cgroups = Cgroups::new(kernel, self.cgroup_mount.as_deref());
        let table = self.host.processes();
        for observed in &mut observation.processes {
            observed.cgroup = match table.facts(observed.process) {
                Some(facts) => facts
                    .cgroup
                    .as_deref()
                    .and_then(|cgroup| cgroups.limit_in(cgroup)),
                None => cgroups.limit_of(observed.process.pid),
            };
        }
        drop(table);
        for process in &observation.processes {
            let target = self.targets.get(&process.process);
            if let Some(counted) = target.and_then(|target| target.counted.clone()) {
                observation.counted.insert(process.process, counted);
            }
        }
        self.wanted.retain(|process| !departed.contains(process));
        self.departed.extend(departed);
        self.last_observation = Some(now);
        // Nobody took those of an earlier step: they are no longer wanted.
        self.refused = failures;
        self.look_for_larger_folios(&observation);
        Ok(observation)
    }

    fn can_glance(&self) -> bool {
        self.host.tracker_kind().knows_accesses()
    }

    fn glance(&mut self) -> Vec<Glance> {
        let looked_at = std::mem::take(&mut self.looked_at);
        let glances = looked_at.into_iter().filter_map(|(process, at)| {
            let glance = |host: &Host, held: &mut Held| held.glance(host, at);
            self.with_held(process, glance).ok()?
        });
        glances.collect()
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        let mut counter = std::mem::take(&mut self.zero_counter);
        let counted = self.with_held(target.process, |host, held| {
            held.count_zero_filled(host, &mut counter, target.region)
        });
        self.zero_counter = counter;
        counted.ok().flatten()
    }

    fn measures(&self) -> bool {
        !self.host.is_dry_run() && self.calibration().is_some()
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        self.measured_gain(process).map(|(_, gain)| gain)
    }

    fn age(&self, process: ProcessId) -> Duration {
        process::age(self.host.kernel().as_ref(), process)
    }

    fn promotion_seconds(&self) -> Option<f64> {
        Some(self.calibration()?.copy.value)
    }

    fn prepare(&mut self, promotions: usize) {
        if self.may_take_blocks(promotions) {
            self.warmer.prepare(self.host.kernel().as_ref(), promotions);
        }
    }

    fn rest(&mut self, time: Duration) {
        self.host.kernel().sleep(time);
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        if self.host.is_dry_run() {
            return vec![Outcome::NotTried; actions.len()];
        }
        let options = self.options;
        let mut outcomes = Vec::with_capacity(actions.len());
        for run in perform::runs(actions) {
            let process = run[0].target.process;
            let performed = self.with_held(process, |host, target| {
                target.disturb();
                perform::perform(host, target, run, options)
            });
            match performed {
                Ok(performed) => outcomes.extend(performed),
                Err(error) => {
                    let cause = perform::cause_of(&error);
                    outcomes.extend(run.iter().map(|_| Outcome::Failed(cause)));
                }
            }
        }
        outcomes
    }
}
