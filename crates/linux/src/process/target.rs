//! One managed process: the handle that pins it, where it may be acted on, and what was learnt of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use mega_core::{PageSize, ProcessId, Region, RegionObservation};

use crate::act::demote::Demoter;
use crate::kernel::{Advice, ProcessHandle};
use crate::observe::clear::Clearer;
use crate::observe::tracker;
use crate::observe::turns::{self, Turns};
use crate::observe::zero_filled::ZeroCounter;
use crate::process::eligible::{self, Mapping};
use crate::process::not_eligible::{self, NotEligible};
use crate::process::sharing::SharedRange;
use crate::process::{self, Stat};
use crate::{Error, Host};

/// One managed process.
pub(crate) struct Target {
    pub(crate) process: ProcessId,
    pub(crate) handle: ProcessHandle,
    /// Where huge pages may be, in whole regions.
    pub(crate) ranges: Vec<Range<u64>>,
    /// What of that is shared memory, and may be another process's to be looked at through.
    pub(crate) shared: Vec<SharedRange>,
    /// Where they would be of use and cannot be.
    pub(crate) not_eligible: Vec<NotEligible>,
    pub(crate) demoter: Demoter,
    /// The longest a call that can be cut has taken.
    pub(crate) longest_hold: Duration,
    clearer: Clearer,
    turns: Turns,
    /// The processor that it ran on last.
    pub(crate) processor: Option<u32>,
    /// All that it has resident, in bytes.
    resident: u64,
    /// Differs when another program was started.
    layout: Vec<u64>,
    /// Whether all Accessed bits were cleared after the last scan.
    cleared: bool,
    /// Regions that the kernel refused to promote, and for how many observations more they are left alone.
    refused: BTreeMap<Region, u16>,
}

/// Observations for which a region that the kernel refused is left alone. Most are so for good (`MADV_NOHUGEPAGE`), but
/// 6.1 and 6.12 also refuse one of which a fork has left every page write-protected, until it is written to; 6.18 does
/// not.
const REFUSED_FOR: u16 = 64;

impl Target {
    /// Takes hold of a process.
    pub(crate) fn open(host: &Host, process: ProcessId) -> Result<Self, Error> {
        let kernel = host.kernel().as_ref();
        let handle = kernel.open_process(process.pid).map_err(|error| {
            Error::of_process(process.pid, &process::path(process.pid, ""), error)
        })?;
        // Only now that the handle holds whatever has this pid: is it still the one that was meant?
        let stat = same_process(host, process)?;
        let mut target = Target {
            process,
            handle,
            ranges: Vec::new(),
            shared: Vec::new(),
            not_eligible: Vec::new(),
            demoter: Demoter::default(),
            longest_hold: Duration::ZERO,
            clearer: Clearer::default(),
            turns: Turns::default(),
            processor: stat.processor,
            resident: stat.resident,
            layout: stat.layout.clone(),
            cleared: false,
            refused: BTreeMap::new(),
        };
        target.find_ranges(host, &stat)?;
        Ok(target)
    }

    /// The same process a while later.
    pub(crate) fn refreshed(mut self, host: &Host) -> Result<Self, Error> {
        let stat = same_process(host, self.process)?;
        if stat.layout != self.layout {
            // It started another program: new memory, of which nothing is known.
            self.layout.clone_from(&stat.layout);
            self.cleared = false;
            self.turns.forget();
            self.refused.clear();
        }
        self.processor = stat.processor;
        self.resident = stat.resident;
        self.find_ranges(host, &stat)?;
        Ok(self)
    }

    fn find_ranges(&mut self, host: &Host, stat: &Stat) -> Result<(), Error> {
        let mappings = self.mappings(host)?;
        let found = eligible::eligibility(&mappings, stat.threads > 1, host.shmem_device());
        self.ranges = found.ranges;
        self.shared = found.shared;
        self.not_eligible = found.not_eligible;
        Ok(())
    }

    /// Leaves parts of its memory alone until it is refreshed.
    pub(crate) fn leave_alone(&mut self, parts: Vec<NotEligible>) {
        not_eligible::take_out(&mut self.ranges, &parts);
        self.not_eligible.extend(parts);
        self.not_eligible.sort_by_key(|part| part.range.start);
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

    /// Observes all eligible regions.
    pub(crate) fn scan(
        &self,
        host: &Host,
        found: &mut Vec<RegionObservation>,
    ) -> Result<(), Error> {
        host.tracker().scan(&self.tracked(), &self.ranges, found)?;
        self.mark_giant_pages(host, found);
        Ok(())
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

    fn tracked(&self) -> tracker::Target<'_> {
        tracker::Target {
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

    /// Whether the Accessed bits just scanned are those of the whole interval.
    pub(crate) fn accesses_known(&self, host: &Host) -> bool {
        self.cleared && host.tracker_kind().knows_accesses()
    }

    /// Clears the Accessed bits of the regions just scanned, if that is for us to do: of all, or in turns. Leaves in
    /// `regions` what was accessed in the last `interval`, as far as that is known.
    pub(crate) fn clear(
        &mut self,
        host: &Host,
        regions: &mut [RegionObservation],
        interval: Duration,
        bound: Duration,
    ) {
        if !host.tracker_kind().knows_accesses() {
            return;
        }
        if host.tracker_clears_itself() {
            self.cleared = true;
            return;
        }
        if host.is_dry_run() {
            self.cleared = false;
            return;
        }
        let kernel = host.kernel().as_ref();
        // Where it fails the next observation says that accesses are not known.
        let cleared = if self.clears_all(regions, interval, bound) {
            let all = self.turns.choose(regions, 1);
            self.clearer
                .clear_all(kernel, &self.handle, &all, self.resident)
        } else {
            let turns = turns::count(self.clearer.expected(regions), interval);
            let chosen = self.turns.choose(regions, turns);
            self.clearer
                .clear_in_pieces(kernel, &self.handle, &chosen, bound)
        };
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

    /// Remembers that the kernel refuses to promote `region`.
    pub(crate) fn remember_refused(&mut self, region: Region) {
        self.refused.insert(region, REFUSED_FOR);
    }

    /// Leaves out of `regions`, once in every observation, those that the kernel refused, and forgets refusals of what
    /// is mapped no more and old ones.
    pub(crate) fn forget_refused(&mut self, regions: &mut Vec<RegionObservation>) {
        if self.refused.is_empty() {
            return;
        }
        let mapped: BTreeSet<Region> = regions.iter().map(|region| region.region).collect();
        self.refused.retain(|region, observations_left| {
            *observations_left = observations_left.saturating_sub(1);
            *observations_left > 0 && mapped.contains(region)
        });
        regions.retain(|region| !self.refused.contains_key(&region.region));
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
