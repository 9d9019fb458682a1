//! One managed process: where mega may act on it and what mega has learnt of it; and the same process held, to look at it
//! or to act on it. Between two observations nothing is held: a manager of ten thousand processes has no file open for
//! any of them.

use std::ops::{Deref, DerefMut, Range};
use std::time::Duration;

use mega_core::{Counted, Glance, PageSize, ProcessId, Region, RegionObservation};

use crate::kernel::{Advice, ProcessHandle};
use crate::observe::carried::Carried;
use crate::observe::clear::{Cleared, Clearer};
use crate::observe::slices::Slices;
use crate::observe::tracker;
use crate::observe::turns::{self, Turns};
use crate::observe::zero_filled::ZeroCounter;
use crate::process::eligible::{self, Eligibility, Mapping};
use crate::process::not_eligible::{self, NotEligible};
use crate::process::sharing::SharedRange;
use crate::process::table::Activity;
use crate::process::{self, Chosen, Stat};
use crate::{Error, Host};

/// What is known of one managed process.
pub(crate) struct Target {
    pub(crate) process: ProcessId,
    /// Where huge pages may be, in whole regions, less what is left to other processes.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Where they would be of use and cannot be, and what is left to other processes.
    pub(crate) not_eligible: Vec<NotEligible>,
    /// What counts for a promise of coverage; `None` for all of it.
    pub(crate) counted: Option<Counted>,
    /// What its mappings say of that.
    mapped: Eligibility,
    /// Shared memory that is observed through other processes.
    left: Vec<NotEligible>,
    /// How long one split of a huge page holds its mmap lock; `None` before any was measured.
    pub(crate) per_split: Option<Duration>,
    /// The longest a call that can be cut has taken.
    pub(crate) longest_hold: Duration,
    clearer: Clearer,
    turns: Turns,
    slices: Slices,
    /// The processor that it ran on last.
    pub(crate) processor: Option<u32>,
    /// CPU time that it has had, as of the last refresh.
    pub(crate) cpu_time: Duration,
    /// The same as `/proc` has it, to a hundredth of a second.
    worked: Duration,
    /// All that it has resident, in bytes.
    resident: u64,
    /// Differs when another program was started.
    layout: Vec<u64>,
    /// How it was when its mappings were read.
    mapped_as: Option<Activity>,
    /// Whether all Accessed bits were cleared after the last scan.
    cleared: bool,
    work: Work,
    /// What the touch meter cleared since.
    pub(crate) carried: Carried,
    rest: Rest,
}

/// How much a process works, and whether it is unwatched for that.
#[derive(Default)]
struct Work {
    /// How it was when that was asked last.
    asked: Option<Activity>,
    /// Whether it had little CPU time then.
    is_little: bool,
    /// Whether its Accessed bits are not to be cleared.
    is_unwatched: bool,
}

/// The CPU time of an interval, as a share of one core, up to which a process works little. What it touches in it is little too, so
/// that clearing costs it next to nothing.
const LITTLE_WORK: f64 = 0.1;

/// A process while it does not run.
#[derive(Default)]
struct Rest {
    /// How it is, as of the last refresh. `None` where it is not known.
    now: Option<Activity>,
    /// How it was when it was last looked at; `None` where it is to be looked at in any case.
    since: Option<Activity>,
    /// What was seen then, with nothing accessed.
    regions: Vec<RegionObservation>,
    /// Observations, modulo [`LOOK_ANYWAY`].
    observations: u32,
}

/// Observations after which a process that rests is looked at in any case: others may have changed its page sizes
/// (reclaim, khugepaged, another mega). At 5 s that is every five minutes.
const LOOK_ANYWAY: u32 = 64;

/// A process held by its pidfd, so that a pid used again is never mistaken for it.
pub(crate) struct Held {
    target: Box<Target>,
    pub(crate) handle: ProcessHandle,
}

impl Deref for Held {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Target {
        &mut self.target
    }
}

impl Target {
    /// A process that was never looked at.
    pub(crate) fn new(process: ProcessId) -> Self {
        Target {
            process,
            ranges: Vec::new(),
            not_eligible: Vec::new(),
            counted: None,
            mapped: Eligibility::default(),
            left: Vec::new(),
            per_split: None,
            longest_hold: Duration::ZERO,
            clearer: Clearer::default(),
            turns: Turns::default(),
            slices: Slices::default(),
            processor: None,
            cpu_time: Duration::ZERO,
            worked: Duration::ZERO,
            resident: 0,
            layout: Vec::new(),
            mapped_as: None,
            cleared: false,
            work: Work::default(),
            carried: Carried::default(),
            rest: Rest {
                // So that many that begin to rest at once are not all looked at in the same observation.
                observations: process.pid % LOOK_ANYWAY,
                ..Rest::default()
            },
        }
    }

    /// A process with fresh mappings and no history.
    ///
    /// # Errors
    /// As [`Target::refresh`].
    pub(crate) fn refreshed(process: ProcessId, host: &Host) -> Result<Box<Self>, Error> {
        let mut target = Box::new(Target::new(process));
        target.refresh(host, None, None)?;
        Ok(target)
    }

    /// Brings up to date where the process may be acted on, unless it has not run since it was last looked at.
    /// `activity` is how the process table has it, if it does. `chosen` is what counts for a promise of coverage, `None` for all.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::KernelThread`], [`Error::NotPermitted`], [`Error::Io`].
    pub(crate) fn refresh(
        &mut self,
        host: &Host,
        activity: Option<Activity>,
        chosen: Option<&Chosen>,
    ) -> Result<(), Error> {
        // From before it is looked at: what it does from now on makes it active next time.
        self.rest.now = activity;
        self.rest.observations += 1;
        if self.rests() {
            return Ok(());
        }
        self.rest.observations %= LOOK_ANYWAY;
        let stat = same_process(host, self.process)?;
        if stat.layout != self.layout {
            // It started another program, with new memory that was never looked at.
            self.layout.clone_from(&stat.layout);
            self.cleared = false;
            self.turns.forget();
            self.slices.forget();
            self.carried.forget_all();
            self.mapped_as = None;
        }
        self.processor = stat.processor;
        self.worked = stat.cpu_time();
        self.cpu_time = activity.map_or(self.worked, |activity| activity.cpu_time());
        self.resident = stat.resident;
        let same_mappings = activity
            .zip(self.mapped_as)
            .is_some_and(|(now, then)| now.has_layout_of(&then));
        if !same_mappings {
            let mappings = self.mappings(host)?;
            self.mapped = eligible::eligibility(&mappings, stat.threads > 1, host.shmem_device());
            self.counted = chosen.map(|chosen| chosen.counted(&mappings, host.shmem_device()));
            self.mapped_as = activity;
            self.leave_out();
        }
        Ok(())
    }

    /// Takes hold of the process.
    ///
    /// # Errors
    /// As [`Target::refresh`].
    pub(crate) fn hold(self: Box<Self>, host: &Host) -> Result<Held, Error> {
        let pid = self.process.pid;
        let handle = host
            .kernel()
            .open_process(pid)
            .map_err(|error| Error::of_process(pid, &process::path(pid, ""), error))?;
        // Only now that the handle holds whatever has this pid: is it still the one that was meant?
        same_process(host, self.process)?;
        Ok(Held {
            target: self,
            handle,
        })
    }

    /// Shared memory that may be another process's to be looked at through.
    pub(crate) fn shared(&self) -> &[SharedRange] {
        &self.mapped.shared
    }

    /// Leaves these parts of its memory to other processes, and no others.
    pub(crate) fn leave_alone(&mut self, parts: Vec<NotEligible>) {
        if self.left != parts {
            self.left = parts;
            self.disturb();
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        self.ranges.clone_from(&self.mapped.ranges);
        not_eligible::take_out(&mut self.ranges, &self.left);
        self.not_eligible.clone_from(&self.mapped.not_eligible);
        self.not_eligible.extend(self.left.iter().cloned());
        self.not_eligible.sort_by_key(|part| part.range.start);
    }

    /// Whether somebody wants to know what it accesses, after such an interval. Where not, its bits are left alone while it works.
    pub(crate) fn watch(&mut self, is_wanted: bool, interval: Duration) {
        let now = self.rest.now;
        let ran = now
            .zip(self.work.asked)
            .and_then(|(now, before)| now.ran_since(&before));
        if let Some(ran) = ran {
            self.work.is_little = ran < interval.mul_f64(LITTLE_WORK);
        }
        self.work.asked = now;
        self.work.is_unwatched = !is_wanted && now.is_some() && !self.work.is_little;
    }

    /// Whether it has not run since it was last looked at, as of the last refresh.
    fn rests(&self) -> bool {
        self.rest.observations < LOOK_ANYWAY
            && self
                .rest
                .now
                .zip(self.rest.since)
                .is_some_and(|(now, since)| now.is_idle_since(&since))
    }

    /// What stands for a look at it, where it did not run since the last one: nothing mapped, nothing accessed.
    pub(crate) fn at_rest(&self) -> Option<Vec<RegionObservation>> {
        self.rests().then(|| self.rest.regions.clone())
    }

    /// Remembers what was just seen, for the time that the process rests now.
    pub(crate) fn may_rest(&mut self, seen: &[RegionObservation]) {
        self.rest.since = self.rest.now;
        self.rest.regions.clear();
        if self.rest.since.is_some() {
            self.rest.regions.extend(seen);
        }
        self.rest.regions.shrink_to_fit();
        for region in &mut self.rest.regions {
            region.accessed = 0;
        }
    }

    /// Something else counts for a promise than before: its mappings are read anew.
    pub(crate) fn count_anew(&mut self) {
        self.mapped_as = None;
        self.disturb();
    }

    /// Its page sizes are changed: the next observation looks at it in any case.
    pub(crate) fn disturb(&mut self) {
        self.rest.since = None;
    }

    /// Its mappings now.
    pub(crate) fn mappings(&self, host: &Host) -> Result<Vec<Mapping>, Error> {
        let path = process::path(self.process.pid, "maps");
        let text = host
            .kernel()
            .read(&path)
            .map_err(|error| Error::of_process(self.process.pid, &path, error))?;
        Ok(eligible::mappings(&text))
    }

    /// Whether the Accessed bits just scanned are those of the whole interval.
    pub(crate) fn accesses_known(&self, host: &Host) -> bool {
        self.cleared && host.tracker_kind().knows_accesses()
    }
}

impl Held {
    /// Nothing is held any more; what is known is kept.
    pub(crate) fn release(self) -> Box<Target> {
        self.target
    }

    /// Observes all eligible regions, or of a very large process those whose turn it is, and clears Accessed bits.
    /// Leaves in `found` what is known of all of them, with what was accessed in the last `interval`.
    ///
    /// # Errors
    /// As the tracker.
    pub(crate) fn observe(
        &mut self,
        host: &Host,
        interval: Duration,
        bound: Duration,
        found: &mut Vec<RegionObservation>,
    ) -> Result<(), Error> {
        let Target {
            slices,
            clearer,
            ranges,
            resident,
            ..
        } = &mut *self.target;
        let scanning = slices.expected(ranges, *resident);
        let clearing = clearer.expected(slices.seen());
        let Some(slice) = slices.next(ranges, scanning, clearing, interval) else {
            host.tracker().scan(&self.tracked(), &self.ranges, found)?;
            self.mark_giant_pages(host, found);
            self.carried.add_to(found);
            self.clear(host, found, interval, bound);
            return Ok(());
        };
        // Not the time that passed: on a busy machine the manager waits for its turn.
        let started = host.kernel().thread_cpu_time();
        host.tracker().scan(&self.tracked(), &slice.ranges, found)?;
        let took = host.kernel().thread_cpu_time().saturating_sub(started);
        self.mark_giant_pages(host, found);
        self.carried.add_to(found);
        let Target { slices, ranges, .. } = &mut *self.target;
        let due = slices.merge(slice, found, ranges, took);
        self.target.turns.forget();
        self.clear_slice(host, &due, bound);
        Ok(())
    }

    /// What was accessed since the last observation cleared Accessed bits, at `cleared` by the kernel's clock: of the regions that base
    /// pages map and whose bits it cleared. Clears nothing. `None` where it cleared none, or the process cannot be looked at.
    pub(crate) fn glance(&self, host: &Host, cleared: Duration) -> Option<Glance> {
        if !self.accesses_known(host) {
            return None;
        }
        let in_slices = self.slices.cleared(&self.ranges);
        let ranges = in_slices.as_ref().unwrap_or(&self.ranges);
        let mut regions = Vec::new();
        let peeked = host.tracker().peek(&self.tracked(), ranges, &mut regions);
        peeked.ok()?;
        regions.retain(|region| !region.is_huge());
        if in_slices.is_none() && !host.tracker_clears_itself() {
            self.turns.keep_cleared(&mut regions);
        }
        let stat = same_process(host, self.process).ok()?;
        Some(Glance {
            process: self.process,
            length: host.kernel().now().saturating_sub(cleared),
            worked: Some(stat.cpu_time().saturating_sub(self.worked)),
            regions,
        })
    }

    /// Observes some regions, given in address order, without clearing anything; those with nothing mapped are not in
    /// the result.
    pub(crate) fn look(
        &self,
        host: &Host,
        regions: &[Region],
    ) -> Result<Vec<RegionObservation>, Error> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for region in regions {
            match ranges.last_mut() {
                Some(last) if last.end == region.start() => last.end = region.end(),
                _ => ranges.push(region.start()..region.end()),
            }
        }
        let mut found = Vec::new();
        host.tracker().peek(&self.tracked(), &ranges, &mut found)?;
        self.mark_giant_pages(host, &mut found);
        Ok(found)
    }

    pub(crate) fn tracked(&self) -> tracker::TrackedProcess<'_> {
        tracker::TrackedProcess {
            process: self.process,
            handle: &self.handle,
        }
    }

    fn mark_giant_pages(&self, host: &Host, found: &mut [RegionObservation]) {
        if !host.tracker_kind().sees_giant_pages()
            && let Some(mut giant_pages) = host.giant_pages()
        {
            giant_pages.mark(&self.handle, found);
        }
    }

    /// Clears the Accessed bits of the regions just scanned, if that is for us to do: of all, or in turns. Leaves in
    /// `regions` what was accessed in the last `interval`, as far as that is known.
    fn clear(
        &mut self,
        host: &Host,
        regions: &mut [RegionObservation],
        interval: Duration,
        bound: Duration,
    ) {
        if !self.is_to_clear(host) {
            return;
        }
        let kernel = host.kernel().as_ref();
        let clears_all = self.clears_all(regions, interval, bound);
        let Held { target, handle } = self;
        let cleared = if clears_all {
            let all = target.turns.choose(regions, 1, u64::MAX);
            target.carried.forget_all();
            target
                .clearer
                .clear_all(kernel, handle, &all, target.resident)
        } else {
            let turns = turns::count(target.clearer.expected(regions), interval);
            let most_new = target.clearer.pages_within(turns::FIRST_CLEARING);
            let chosen = target.turns.choose(regions, turns, most_new);
            target.carried.forget(&chosen);
            target
                .clearer
                .clear_in_pieces(kernel, handle, &chosen, bound)
        };
        self.after_clearing(cleared);
    }

    /// Clears the Accessed bits of a slice of a very large process.
    fn clear_slice(&mut self, host: &Host, due: &[RegionObservation], bound: Duration) {
        if !self.is_to_clear(host) {
            return;
        }
        let Held { target, handle } = self;
        target.carried.forget(due);
        let cleared = target
            .clearer
            .clear_in_pieces(host.kernel().as_ref(), handle, due, bound);
        self.after_clearing(cleared);
    }

    /// Whether the bits just scanned are for us to clear. Where not, it is known now whether they are clear. Which ones were is
    /// forgotten while nobody clears them.
    fn is_to_clear(&mut self, host: &Host) -> bool {
        if host.tracker_clears_itself() {
            self.carried.forget_all();
            self.cleared = true;
        } else if host.is_dry_run() || self.work.is_unwatched {
            self.cleared = false;
            self.turns.forget();
        } else {
            return host.tracker_kind().knows_accesses();
        }
        false
    }

    fn after_clearing(&mut self, cleared: std::io::Result<Cleared>) {
        // Where it fails the next observation says that accesses are not known.
        self.cleared = match cleared {
            Ok(cleared) => {
                self.longest_hold = self.longest_hold.max(cleared.longest_hold);
                cleared.complete
            }
            Err(_) => false,
        };
        if !self.cleared {
            self.turns.forget();
        }
    }

    /// Whether all bits are cleared at once, by `clear_refs`: where that stays within the lock bound, and takes no more
    /// than clearing may, or every region is due anyway. The decision is here alone: what `clear_refs` clears it clears
    /// of all regions, so it must not be taken for those of one turn.
    fn clears_all(
        &self,
        regions: &[RegionObservation],
        interval: Duration,
        bound: Duration,
    ) -> bool {
        let expected = self.clearer.expected_of_all(regions, self.resident);
        expected.is_some_and(|expected| {
            expected <= bound && (self.turns.are_new() || turns::count(expected, interval) == 1)
        })
    }

    /// Counts zero-filled base pages.
    pub(crate) fn count_zero_filled(
        &self,
        host: &Host,
        counter: &mut ZeroCounter,
        region: Region,
    ) -> Option<u16> {
        let before = self.look(host, &[region]).ok()?;
        let counted = counter.count(host.kernel().as_ref(), self.process.pid, region)?;
        // Reading through the kernel marks a huge page accessed (`touch_pmd`); an idle one must not look used.
        let idle = before
            .first()
            .is_some_and(|seen| seen.page_size == PageSize::Huge && seen.accessed == 0);
        // In a dry run nothing is cleared, neither here nor elsewhere.
        let range = region.start()..region.end();
        if idle && host.tracker_clears_itself() {
            let mut cleared = Vec::new();
            let _ = host.tracker().scan(&self.tracked(), &[range], &mut cleared);
        } else if idle {
            let _ = host.kernel().advise(&self.handle, &[range], Advice::Cold);
        }
        Some(counted)
    }
}

/// Makes sure that the pid is still that process.
fn same_process(host: &Host, process: ProcessId) -> Result<Stat, Error> {
    let stat = process::stat(host.kernel().as_ref(), process.pid)?;
    if stat.process() != process || stat.has_exited() {
        return Err(Error::Gone { pid: process.pid });
    }
    if stat.is_kernel_thread() {
        return Err(Error::KernelThread { pid: process.pid });
    }
    Ok(stat)
}
