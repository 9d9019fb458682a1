//! The state of the fake kernel, and the rules of collapse and split as the real one has them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use mega_core::{GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, Region};

use super::{FakeModule, FakeProcess, FakeRegion, errno};
use crate::kernel::Advice;

/// All state of the fake kernel.
#[derive(Default)]
pub struct FakeState {
    /// By pid.
    pub processes: BTreeMap<u32, FakeProcess>,
    /// Files other than those of the processes.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Huge pages that can still be allocated.
    pub free_huge_pages: u64,
    /// Giant pages that there still is a chunk for.
    pub free_chunks: u64,
    /// Huge pages that have to be moved for one.
    pub giant_moves: u32,
    /// Of these, those that the hypervisor exchanges.
    pub giant_exchanges: u32,
    /// Huge pages that the memory cgroup still allows.
    pub cgroup_huge_pages: u64,
    /// Every call of [`Kernel::advise`].
    pub advised: Vec<(Vec<Range<u64>>, Advice)>,
    /// Every file written.
    pub written: Vec<PathBuf>,
    /// What it costs to clear one base page; a huge page costs the same.
    pub clear_cost: Duration,
    /// The clock.
    pub now: Duration,
    /// Free blocks that the hypervisor backs: those that are taken first.
    pub warm_blocks: u32,
    /// What touching one of them takes.
    pub warm_block: Duration,
    /// What touching one of the others takes.
    pub cold_block: Duration,
    /// Blocks touched by [`Kernel::touch_blocks`].
    pub touched_blocks: u32,
    /// The kernel module, where it is loaded.
    pub module: Option<FakeModule>,
    /// Whether the processor counts loads that miss the TLB.
    pub has_tlb_miss_counter: bool,
    /// What the machine has run out of, as an error number: nothing can be read, listed or opened.
    pub out_of: Option<i32>,
    pub(super) errors: VecDeque<(Advice, i32)>,
    pub(super) hooks: VecDeque<Hook>,
}

pub(super) type Hook = Box<dyn FnOnce(&mut FakeState) + Send>;

impl FakeState {
    /// Makes the next call with this advice fail with this error number, and do nothing.
    pub fn fail_next(&mut self, advice: Advice, errno: i32) {
        self.errors.push_back((advice, errno));
    }

    /// Runs `hook` just before the next advice takes effect: the target's side of a race.
    pub fn before_next_advice(&mut self, hook: impl FnOnce(&mut FakeState) + Send + 'static) {
        self.hooks.push_back(Box::new(hook));
    }

    pub(super) fn can_open(&self) -> io::Result<()> {
        self.out_of.map_or(Ok(()), |number| Err(errno(number)))
    }

    pub(super) fn collapse(&mut self, pid: u32, range: &Range<u64>) -> io::Result<()> {
        let mut failed = None;
        for region in Region::wholly_inside(range.start, range.end) {
            let process = self.processes.get(&pid).ok_or_else(|| errno(libc::ESRCH))?;
            let mapping = process
                .mapping(region.start())
                .ok_or_else(|| errno(libc::ENOMEM))?;
            if mapping.no_huge {
                return Err(errno(libc::EINVAL));
            }
            let seen = process.regions.get(&region.start()).copied();
            match seen.unwrap_or_default() {
                FakeRegion { huge: true, .. } => {}
                FakeRegion { mapped: 0, .. } => failed = Some(libc::EINVAL),
                FakeRegion { busy: true, .. } => failed = Some(libc::EAGAIN),
                _ if self.free_huge_pages == 0 => return Err(errno(libc::ENOMEM)),
                _ if self.cgroup_huge_pages == 0 => return Err(errno(libc::EBUSY)),
                _ => {
                    self.free_huge_pages -= 1;
                    self.cgroup_huge_pages -= 1;
                    self.change(pid, region, |seen| {
                        seen.zero_filled += PAGES_PER_REGION - seen.mapped;
                        seen.mapped = PAGES_PER_REGION;
                        seen.swapped = 0;
                        seen.huge = true;
                    });
                }
            }
        }
        failed.map_or(Ok(()), |number| Err(errno(number)))
    }

    pub(super) fn cold(&mut self, pid: u32, range: &Range<u64>) -> io::Result<()> {
        let process = self.processes.get(&pid).ok_or_else(|| errno(libc::ESRCH))?;
        let mapping = process
            .mapping(range.start)
            .ok_or_else(|| errno(libc::ENOMEM))?;
        if mapping.locked {
            return Err(errno(libc::EINVAL));
        }
        let first = Region::containing(range.start);
        self.break_up(pid, range);
        if range.end - range.start < HUGE_PAGE_SIZE {
            self.change(pid, first, |seen| {
                if seen.huge && !seen.shared {
                    seen.huge = false;
                    seen.mapped -= seen.zero_filled;
                    seen.zero_filled = 0;
                }
            });
            return Ok(());
        }
        for region in Region::wholly_inside(range.start, range.end) {
            let cost = self.clear_cost;
            let mut cleared = 0;
            self.change(pid, region, |seen| {
                seen.accessed = 0;
                cleared = seen.mapped;
            });
            self.now += cost * u32::from(cleared);
        }
        Ok(())
    }

    /// Breaks up the giant pages of a range, as every walk does that changes page tables.
    fn break_up(&mut self, pid: u32, range: &Range<u64>) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process
                .giants
                .retain(|&start| start >= range.end || start + GIANT_PAGE_SIZE <= range.start);
        }
    }

    fn change(&mut self, pid: u32, region: Region, how: impl FnOnce(&mut FakeRegion)) {
        let process = self.processes.get_mut(&pid);
        if let Some(seen) = process.and_then(|process| process.regions.get_mut(&region.start())) {
            how(seen);
        }
    }

    pub(super) fn stat(&self, pid: u32) -> io::Result<String> {
        let process = self
            .processes
            .get(&pid)
            .ok_or_else(|| errno(libc::ENOENT))?;
        let mut text = format!(
            "{pid} (a fake (one)) S {} 0 0 0 0 {}",
            process.parent, process.flags
        );
        // Fields 10 to 51.
        for field in 10..=51 {
            let value = match field {
                20 => 1,
                22 => process.start_time,
                26 => process.layout,
                39 => u64::from(process.processor),
                _ => 0,
            };
            let _ = write!(text, " {value}");
        }
        Ok(text)
    }

    pub(super) fn maps(&self, pid: u32) -> io::Result<String> {
        let process = self
            .processes
            .get(&pid)
            .ok_or_else(|| errno(libc::ENOENT))?;
        let mut text = String::new();
        for mapping in &process.mappings {
            let Range { start, end } = mapping.range;
            let _ = writeln!(text, "{start:x}-{end:x} {}", mapping.line);
        }
        Ok(text)
    }
}
