//! One managed process: the handle that pins it, where it may be acted on, and what was learnt of it.

use std::ops::Range;
use std::time::Duration;

use mega_core::{PageSize, ProcessId, Region, RegionObservation};

use crate::clear::Clearer;
use crate::demote::Demoter;
use crate::eligible::{self, Mapping};
use crate::kernel::{Advice, ProcessHandle};
use crate::process::{self, Stat};
use crate::tracker;
use crate::turns::{self, Turns};
use crate::zero_filled::ZeroCounter;
use crate::{Error, Host};

/// One managed process.
pub(crate) struct Target {
    pub(crate) process: ProcessId,
    pub(crate) handle: ProcessHandle,
    /// Where huge pages may be, in whole regions.
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) demoter: Demoter,
    /// The longest a call that can be cut has taken.
    pub(crate) longest_hold: Duration,
    clearer: Clearer,
    turns: Turns,
    /// All that it has resident, in bytes.
    resident: u64,
    /// Differs when another program was started.
    layout: Vec<u64>,
    /// Whether all Accessed bits were cleared after the last scan.
    cleared: bool,
}

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
            demoter: Demoter::default(),
            longest_hold: Duration::ZERO,
            clearer: Clearer::default(),
            turns: Turns::default(),
            resident: stat.resident,
            layout: stat.layout.clone(),
            cleared: false,
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
        }
        self.resident = stat.resident;
        self.find_ranges(host, &stat)?;
        Ok(self)
    }

    fn find_ranges(&mut self, host: &Host, stat: &Stat) -> Result<(), Error> {
        let mappings = self.mappings(host)?;
        self.ranges = eligible::ranges(&mappings, stat.threads > 1, host.shmem_device());
        Ok(())
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
        self.scan_ranges(host, &self.ranges, found)
    }

    /// Observes some regions, given in address order; those with nothing mapped are not in the result.
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
        self.scan_ranges(host, &ranges, &mut found)?;
        Ok(found)
    }

    fn scan_ranges(
        &self,
        host: &Host,
        ranges: &[Range<u64>],
        found: &mut Vec<RegionObservation>,
    ) -> Result<(), Error> {
        let target = tracker::Target {
            process: self.process,
            handle: &self.handle,
        };
        host.tracker().scan(&target, ranges, found)?;
        if !host.tracker_kind().sees_giant_pages()
            && let Some(mut giant_pages) = host.giant_pages()
        {
            giant_pages.mark(&self.handle, found);
        }
        Ok(())
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
        let turns = turns::count(self.clearer.expected(regions), interval);
        let chosen = self.turns.choose(regions, turns);
        let kernel = host.kernel().as_ref();
        // Where it fails the next observation says that accesses are not known.
        let cleared = self
            .clearer
            .clear(kernel, &self.handle, &chosen, self.resident, bound);
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
        if idle && !host.tracker_clears_itself() {
            // In a dry run this is refused, and no Accessed bit is ever cleared there anyway.
            let range = region.start()..region.end();
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
