//! A scripted kernel for tests: processes, mappings and regions in memory, the rules of collapse and split as the
//! real one has them, and the ways in which it refuses.

mod module;
mod process;
mod state;
mod tracker;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, ProcessId, Region};

use super::{
    Advice, FileHandle, Kernel, PageRange, PagemapScan, ProcessHandle, ThpDisable, category,
};
use crate::kernel::module::{ModuleRequest, interface};

pub use module::FakeModule;
pub use process::{FakeMapping, FakeProcess, FakeRegion};
pub use state::FakeState;
pub use tracker::FakeTracker;

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

    /// Such a kernel with these files beside: path and text.
    #[must_use]
    pub fn with_files<P: AsRef<Path>>(files: &[(P, &str)]) -> Self {
        let kernel = FakeKernel::new();
        let mut state = kernel.state();
        for (path, text) in files {
            let path = path.as_ref().to_owned();
            state.files.insert(path, text.as_bytes().to_vec());
        }
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
        state.can_open()?;
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
        self.state().can_open()?;
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

    /// Of a file, as if it were a link to where its content says.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let state = self.state();
        let content = state.files.get(path).ok_or_else(|| errno(libc::ENOENT))?;
        Ok(String::from_utf8_lossy(content).into_owned().into())
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        self.state().can_open()?;
        match process_file(path) {
            Some((pid, _)) if self.state().processes.contains_key(&pid) => {
                Ok(FileHandle::new(path.to_owned(), None))
            }
            None if path == Path::new(interface::DEVICE) && self.state().module.is_some() => {
                Ok(FileHandle::new(path.to_owned(), None))
            }
            None if self.state().files.contains_key(path) => {
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
                    categories: category::PRESENT,
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
        self.state().can_open()?;
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

    fn try_tlb_miss_counter(&self) -> io::Result<()> {
        match self.state().has_tlb_miss_counter {
            true => Ok(()),
            false => Err(errno(libc::ENOENT)),
        }
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

    fn thread_cpu_time(&self) -> Duration {
        self.state().now
    }

    fn cpu_time_of(&self, pid: u32) -> io::Result<Duration> {
        let state = self.state();
        match state.processes.contains_key(&pid) {
            true => Ok(state.now),
            false => Err(errno(libc::EINVAL)),
        }
    }

    fn sleep(&self, time: Duration) {
        self.state().now += time;
    }

    /// As many as are cold take [`FakeState::cold_block`], the others [`FakeState::warm_block`].
    fn touch_blocks(&self, count: usize) -> io::Result<Duration> {
        let mut state = self.state();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let cold = count.saturating_sub(state.warm_blocks);
        state.warm_blocks = state.warm_blocks.max(count);
        state.touched_blocks += count;
        let took = state.cold_block * cold + state.warm_block * (count - cold);
        state.now += took;
        Ok(took)
    }

    fn ask_module(&self, _device: &FileHandle, request: ModuleRequest<'_>) -> io::Result<()> {
        let mut state = self.state();
        let mut module = state.module.take().ok_or_else(|| errno(libc::ENODEV))?;
        let answer = module.answer(&mut state, request);
        state.module = Some(module);
        answer
    }
}
