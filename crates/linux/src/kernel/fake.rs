//! A scripted kernel for tests: processes, mappings and regions in memory, the rules of collapse and split as the
//! real one has them, and the ways in which it refuses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mega_core::{
    BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, ProcessId,
    REGIONS_PER_SPAN, Region, RegionObservation, Span,
};

use super::{Advice, FileHandle, Kernel, PageRange, PagemapScan, ProcessHandle, ThpDisable};
use crate::module::device::Device;
use crate::module::interface::{
    self, Block, Compact, Demote, FreeZero, Info, Promote, ScanBlocks, ScanTask,
};
use crate::observe::tracker::{Target, TrackError, Tracker, TrackerKind};

/// One region of a fake process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FakeRegion {
    /// Base pages mapped, 0 to 512.
    pub mapped: u16,
    /// Base pages accessed.
    pub accessed: u16,
    /// Base pages that hold only zeros.
    pub zero_filled: u16,
    /// Base pages in swap.
    pub swapped: u16,
    /// Whether a huge page maps it.
    pub huge: bool,
    /// Pinned or isolated: collapse answers `EAGAIN`, and goes on.
    pub busy: bool,
    /// Shared after fork: a split succeeds without effect.
    pub shared: bool,
}

/// One mapping of a fake process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeMapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// The permissions and all that follows in `/proc/PID/maps`.
    pub line: String,
    /// `MADV_NOHUGEPAGE`: collapse answers `EINVAL`.
    pub no_huge: bool,
    /// `mlock`: cold answers `EINVAL`.
    pub locked: bool,
}

/// A process of the fake kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FakeProcess {
    /// Field 22 of its stat.
    pub start_time: u64,
    /// Its parent.
    pub parent: u32,
    /// `PF_*`.
    pub flags: u64,
    /// Field 39 of its stat.
    pub processor: u32,
    /// Differs for another program.
    pub layout: u64,
    /// In address order.
    pub mappings: Vec<FakeMapping>,
    /// By their first address.
    pub regions: BTreeMap<u64, FakeRegion>,
    /// Spans that a giant page maps, by their first address.
    pub giants: BTreeSet<u64>,
}

impl FakeProcess {
    /// A process with one private anonymous mapping of fully mapped regions.
    #[must_use]
    pub fn with_regions(start_time: u64, start: u64, count: u64) -> Self {
        let mut process = FakeProcess {
            start_time,
            parent: 1,
            ..FakeProcess::default()
        };
        process.map(start, count);
        process
    }

    /// Adds a private anonymous mapping of fully mapped regions.
    pub fn map(&mut self, start: u64, count: u64) {
        self.mappings.push(FakeMapping {
            range: start..start + count * HUGE_PAGE_SIZE,
            line: "rw-p 00000000 00:00 0".to_owned(),
            no_huge: false,
            locked: false,
        });
        for index in 0..count {
            let region = FakeRegion {
                mapped: PAGES_PER_REGION,
                ..FakeRegion::default()
            };
            self.regions.insert(start + index * HUGE_PAGE_SIZE, region);
        }
    }

    /// Whether a giant page maps the region.
    fn is_giant(&self, region: Region) -> bool {
        self.giants.contains(&Span::of(region).start())
    }

    fn mapping(&self, address: u64) -> Option<&FakeMapping> {
        self.mappings
            .iter()
            .find(|mapping| mapping.range.contains(&address))
    }
}

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
    errors: VecDeque<(Advice, i32)>,
    hooks: VecDeque<Hook>,
}

type Hook = Box<dyn FnOnce(&mut FakeState) + Send>;

impl FakeState {
    /// Makes the next call with this advice fail with this error number, and do nothing.
    pub fn fail_next(&mut self, advice: Advice, errno: i32) {
        self.errors.push_back((advice, errno));
    }

    /// Runs `hook` just before the next advice takes effect: the target's side of a race.
    pub fn before_next_advice(&mut self, hook: impl FnOnce(&mut FakeState) + Send + 'static) {
        self.hooks.push_back(Box::new(hook));
    }

    fn collapse(&mut self, pid: u32, range: &Range<u64>) -> io::Result<()> {
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

    fn cold(&mut self, pid: u32, range: &Range<u64>) -> io::Result<()> {
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

    /// What every walk of page tables that is to change them does to the giant pages on its way.
    fn break_up(&mut self, pid: u32, range: &Range<u64>) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process
                .giants
                .retain(|&start| start >= range.end || start + GIANT_PAGE_SIZE <= range.start);
        }
    }

    /// The kernel's side of `PROMOTE`: how it stops.
    fn make_giant(&mut self, pid: u32, span: Span) -> io::Result<u32> {
        let process = self
            .processes
            .get_mut(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        let Some(mapping) = process.mapping(span.start()) else {
            return Ok(interface::PROMOTE_NOT_ELIGIBLE);
        };
        if mapping.range.end < span.end() || mapping.no_huge {
            return Ok(interface::PROMOTE_NOT_ELIGIBLE);
        }
        let regions: Vec<FakeRegion> = process
            .regions
            .range(span.start()..span.end())
            .map(|(_, region)| *region)
            .filter(|region| region.huge)
            .collect();
        if process.giants.contains(&span.start()) {
            Ok(interface::PROMOTE_ALREADY)
        } else if regions.len() < REGIONS_PER_SPAN {
            Ok(interface::PROMOTE_NOT_HUGE)
        } else if regions.iter().any(|region| region.busy || region.shared) {
            Ok(interface::PROMOTE_BUSY)
        } else if self.free_chunks == 0 {
            Ok(interface::PROMOTE_NO_CHUNK)
        } else {
            self.free_chunks -= 1;
            process.giants.insert(span.start());
            Ok(interface::PROMOTE_DONE)
        }
    }

    fn change(&mut self, pid: u32, region: Region, how: impl FnOnce(&mut FakeRegion)) {
        let process = self.processes.get_mut(&pid);
        if let Some(seen) = process.and_then(|process| process.regions.get_mut(&region.start())) {
            how(seen);
        }
    }

    fn stat(&self, pid: u32) -> io::Result<String> {
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

    fn maps(&self, pid: u32) -> io::Result<String> {
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

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// `/proc/PID/NAME`, taken apart.
fn process_file(path: &Path) -> Option<(u32, &str)> {
    let (pid, name) = path.to_str()?.strip_prefix("/proc/")?.split_once('/')?;
    Some((pid.parse().ok()?, name))
}

/// The scripted kernel. Clones are the same kernel.
#[derive(Clone, Default)]
pub struct FakeKernel {
    state: Arc<Mutex<FakeState>>,
}

impl FakeKernel {
    /// A kernel with plenty of huge pages and the files that every observation reads.
    #[must_use]
    pub fn new() -> Self {
        let kernel = FakeKernel::default();
        let mut state = kernel.state();
        state.free_huge_pages = u64::MAX;
        state.cgroup_huge_pages = u64::MAX;
        state.free_chunks = u64::MAX;
        let meminfo = b"MemTotal: 1000 kB\nMemFree: 500 kB\nMemAvailable: 600 kB\n";
        state.files.insert("/proc/meminfo".into(), meminfo.to_vec());
        state.files.insert("/proc/buddyinfo".into(), Vec::new());
        drop(state);
        kernel
    }

    /// Its state, to script and to look at.
    pub fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process.
    pub fn add(&self, pid: u32, process: FakeProcess) -> ProcessId {
        let start_time = process.start_time;
        self.state().processes.insert(pid, process);
        ProcessId { pid, start_time }
    }
}

impl Kernel for FakeKernel {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.state();
        if let Some(content) = state.files.get(path) {
            return Ok(content.clone());
        }
        match process_file(path) {
            Some((pid, "stat")) => state.stat(pid).map(String::into_bytes),
            Some((pid, "maps")) => state.maps(pid).map(String::into_bytes),
            _ => Err(errno(libc::ENOENT)),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        match path.to_str() {
            Some("/proc") => Ok(self
                .state()
                .processes
                .keys()
                .map(|pid| pid.to_string().into())
                .collect()),
            _ => {
                // A folder is what lies in it.
                let state = self.state();
                let below = state.files.keys().filter_map(|file| {
                    file.strip_prefix(path)
                        .ok()?
                        .iter()
                        .next()
                        .map(OsString::from)
                });
                let names: BTreeSet<OsString> = below.collect();
                match names.is_empty() {
                    true => Err(errno(libc::ENOENT)),
                    false => Ok(names.into_iter().collect()),
                }
            }
        }
    }

    fn read_link(&self, _path: &Path) -> io::Result<PathBuf> {
        Err(errno(libc::ENOENT))
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        match process_file(path) {
            Some((pid, _)) if self.state().processes.contains_key(&pid) => {
                Ok(FileHandle::new(path.to_owned(), None))
            }
            _ => Err(errno(libc::ENOENT)),
        }
    }

    fn read_at(&self, _file: &FileHandle, _buffer: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }

    /// Reports a region's zero-filled pages last, as if they lay there.
    fn pagemap_scan(
        &self,
        pagemap: &FileHandle,
        scan: &PagemapScan,
        found: &mut Vec<PageRange>,
    ) -> io::Result<()> {
        let (pid, _) = process_file(pagemap.path()).ok_or_else(|| errno(libc::EBADF))?;
        let state = self.state();
        let process = state
            .processes
            .get(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        for region in Region::wholly_inside(scan.range.start, scan.range.end) {
            if let Some(seen) = process.regions.get(&region.start()) {
                let end = region.start() + u64::from(seen.mapped) * BASE_PAGE_SIZE;
                found.push(PageRange {
                    range: region.start()..end,
                    categories: super::category::PRESENT,
                });
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.written.push(path.to_owned());
        if let Some((pid, "clear_refs")) = process_file(path) {
            let cost = state.clear_cost;
            let process = state
                .processes
                .get_mut(&pid)
                .ok_or_else(|| errno(libc::ESRCH))?;
            process.giants.clear();
            let mut pages = 0;
            for region in process.regions.values_mut() {
                region.accessed = 0;
                pages += u32::from(region.mapped);
            }
            state.now += cost * pages;
            return Ok(());
        }
        match state.files.get_mut(path) {
            Some(file) => {
                *file = content.to_vec();
                Ok(())
            }
            None => Err(errno(libc::ENOENT)),
        }
    }

    fn write_at(&self, path: &Path, _content: &[u8], _offset: u64) -> io::Result<()> {
        self.state().written.push(path.to_owned());
        Ok(())
    }

    fn open_process(&self, pid: u32) -> io::Result<ProcessHandle> {
        match self.state().processes.contains_key(&pid) {
            true => Ok(ProcessHandle::new(pid, None)),
            false => Err(errno(libc::ESRCH)),
        }
    }

    fn advise(
        &self,
        process: &ProcessHandle,
        ranges: &[Range<u64>],
        advice: Advice,
    ) -> io::Result<u64> {
        let mut state = self.state();
        if let Some(hook) = state.hooks.pop_front() {
            hook(&mut state);
        }
        state.advised.push((ranges.to_vec(), advice));
        let scripted = state.errors.iter().position(|(when, _)| *when == advice);
        if let Some((_, number)) = scripted.and_then(|index| state.errors.remove(index)) {
            return Err(errno(number));
        }
        let mut advised = 0;
        for range in ranges {
            let result = match advice {
                Advice::Collapse => state.collapse(process.pid(), range),
                Advice::Cold => state.cold(process.pid(), range),
            };
            match result {
                Ok(()) => advised += range.end - range.start,
                // What was advised before the refusal counts, as process_madvise has it.
                Err(error) if advised == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(advised)
    }

    fn read_memory(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state();
        let process = state
            .processes
            .get(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        let region = process
            .regions
            .get(&Region::containing(address).start())
            .ok_or_else(|| errno(libc::EFAULT))?;
        buffer.fill(1);
        let zeros = usize::from(region.zero_filled) << 12;
        let first = buffer.len().saturating_sub(zeros);
        buffer[first..].fill(0);
        Ok(buffer.len())
    }

    fn thp_disable(&self) -> io::Result<ThpDisable> {
        Ok(ThpDisable::Enabled)
    }

    fn set_thp_disable(&self, _setting: ThpDisable) -> io::Result<()> {
        Err(errno(libc::EINVAL))
    }

    fn shmem_device(&self) -> io::Result<(u32, u32)> {
        Ok((0, 1))
    }

    fn now(&self) -> Duration {
        self.state().now
    }

    fn cpu_time(&self) -> Duration {
        self.state().now
    }
}

/// Sees everything of a fake kernel.
pub struct FakeTracker(pub FakeKernel);

impl Tracker for FakeTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Bpf
    }

    fn scan(
        &mut self,
        target: &Target<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        out.clear();
        let pid = target.process.pid;
        let state = self.0.state();
        let process = state.processes.get(&pid).ok_or(TrackError::Gone { pid })?;
        if process.start_time != target.process.start_time {
            return Err(TrackError::Gone { pid });
        }
        let regions = ranges
            .iter()
            .flat_map(|range| Region::wholly_inside(range.start, range.end));
        out.extend(regions.filter_map(|region| {
            let seen = process.regions.get(&region.start())?;
            (seen.mapped > 0).then_some(RegionObservation {
                region,
                mapped: seen.mapped,
                accessed: seen.accessed,
                page_size: if process.is_giant(region) {
                    PageSize::Giant
                } else if seen.huge {
                    PageSize::Huge
                } else {
                    PageSize::Base
                },
                zero_filled: None,
                swapped: seen.swapped,
            })
        }));
        Ok(())
    }
}

/// `/dev/mega` of a fake kernel that has giant pages, for one process: a fake handle has no pidfd to tell by.
pub struct FakeDevice {
    kernel: FakeKernel,
    pid: u32,
    info: Info,
}

impl FakeDevice {
    /// The device as it acts on `pid`.
    #[must_use]
    pub fn new(kernel: FakeKernel, pid: u32) -> Self {
        let info = Info {
            version: interface::VERSION,
            features: interface::FEATURE_SCAN_TASK
                | interface::FEATURE_GIANT
                | interface::FEATURE_FREE_ZERO,
            ..Info::default()
        };
        FakeDevice { kernel, pid, info }
    }

    /// The same on a kernel that cannot give back the zero-filled huge pages of a span.
    #[must_use]
    pub fn without_free_zero(mut self) -> Self {
        self.info.features &= !interface::FEATURE_FREE_ZERO;
        self
    }
}

impl Device for FakeDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    /// Of each region: how much of it is mapped, and by which page.
    fn scan_task(
        &mut self,
        request: &mut ScanTask,
        regions: &mut [interface::Region],
    ) -> io::Result<()> {
        let state = self.kernel.state();
        let process = state
            .processes
            .get(&self.pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        request.next = request.start + request.length;
        let seen = process.regions.range(request.start..request.next);
        for ((&address, seen), out) in seen.zip(regions) {
            request.count += 1;
            *out = interface::Region {
                address,
                mapped: seen.mapped,
                page_shift: match (process.is_giant(Region::containing(address)), seen.huge) {
                    (true, _) => 30,
                    (false, true) => 21,
                    (false, false) => 12,
                },
                ..interface::Region::default()
            };
        }
        Ok(())
    }

    fn scan_blocks(&mut self, _: &mut ScanBlocks, _: &mut [Block]) -> io::Result<()> {
        Err(errno(libc::ENOTTY))
    }

    fn compact(&mut self, _: &mut Compact) -> io::Result<()> {
        Err(errno(libc::ENOTTY))
    }

    fn promote(&mut self, request: &mut Promote) -> io::Result<()> {
        let mut state = self.kernel.state();
        let span = Span::of(Region::containing(request.start));
        request.stop = state.make_giant(self.pid, span)?;
        if request.stop == interface::PROMOTE_DONE {
            request.moved = state.giant_moves;
        }
        // What the target does in the moment after.
        if let Some(hook) = state.hooks.pop_front() {
            hook(&mut state);
        }
        Ok(())
    }

    fn demote(&mut self, request: &mut Demote) -> io::Result<()> {
        let mut state = self.kernel.state();
        let process = state
            .processes
            .get_mut(&self.pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        request.stop = match process.giants.remove(&request.start) {
            true => interface::DEMOTE_DONE,
            false => interface::DEMOTE_NOT_GIANT,
        };
        Ok(())
    }

    fn free_zero(&mut self, request: &mut FreeZero) -> io::Result<()> {
        let mut state = self.kernel.state();
        let process = state
            .processes
            .get_mut(&self.pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        let span = request.start..request.start + GIANT_PAGE_SIZE;
        for seen in process.regions.range(span.clone()).map(|(_, seen)| seen) {
            let is_zero = seen.huge && seen.zero_filled == PAGES_PER_REGION;
            request.looked += u32::from(seen.huge);
            request.zero += u32::from(is_zero);
            request.busy += u32::from(is_zero && seen.busy);
        }
        request.freed = request.zero - request.busy;
        if request.freed > 0 {
            process.giants.remove(&request.start);
        }
        process.regions.retain(|address, seen| {
            let is_zero = seen.huge && seen.zero_filled == PAGES_PER_REGION;
            !span.contains(address) || !is_zero || seen.busy
        });
        // What the target does in the moment after.
        if let Some(hook) = state.hooks.pop_front() {
            hook(&mut state);
        }
        Ok(())
    }
}
