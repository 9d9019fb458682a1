//! The boundary that refuses to write.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel::module::ModuleRequest;

use super::{Advice, FileHandle, Kernel, PageRange, PagemapScan, ProcessHandle, ThpDisable};

/// A write that a read-only boundary refused. It is the source of an [`io::Error`] of kind
/// [`io::ErrorKind::ReadOnlyFilesystem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: this is a dry run, which changes nothing")]
pub struct Refused;

impl Refused {
    /// Whether `error` is such a refusal, and not the kernel's own answer.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|source| source.is::<Refused>())
    }

    fn error() -> io::Error {
        io::Error::new(io::ErrorKind::ReadOnlyFilesystem, Refused)
    }
}

/// Passes reads to the boundary inside, and answers writes with [`Refused`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnly<K>(pub K);

impl<K: Kernel> Kernel for ReadOnly<K> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.read_link(path)
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        self.0.open(path)
    }

    fn read_at(&self, file: &FileHandle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(file, buffer, offset)
    }

    fn pagemap_scan(
        &self,
        pagemap: &FileHandle,
        scan: &PagemapScan,
        found: &mut Vec<PageRange>,
    ) -> io::Result<()> {
        self.0.pagemap_scan(pagemap, scan, found)
    }

    fn write(&self, _path: &Path, _content: &[u8]) -> io::Result<()> {
        Err(Refused::error())
    }

    fn write_at(&self, _path: &Path, _content: &[u8], _offset: u64) -> io::Result<()> {
        Err(Refused::error())
    }

    fn open_process(&self, pid: u32) -> io::Result<ProcessHandle> {
        self.0.open_process(pid)
    }

    fn advise(
        &self,
        _process: &ProcessHandle,
        _ranges: &[Range<u64>],
        _advice: Advice,
    ) -> io::Result<u64> {
        Err(Refused::error())
    }

    fn read_memory(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_memory(pid, address, buffer)
    }

    fn thp_disable(&self) -> io::Result<ThpDisable> {
        self.0.thp_disable()
    }

    fn set_thp_disable(&self, _setting: ThpDisable) -> io::Result<()> {
        Err(Refused::error())
    }

    fn shmem_device(&self) -> io::Result<(u32, u32)> {
        self.0.shmem_device()
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn cpu_time(&self) -> Duration {
        self.0.cpu_time()
    }

    fn thread_cpu_time(&self) -> Duration {
        self.0.thread_cpu_time()
    }

    fn cpu_time_of(&self, pid: u32) -> io::Result<Duration> {
        self.0.cpu_time_of(pid)
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }

    fn touch_blocks(&self, _count: usize) -> io::Result<Duration> {
        Err(Refused::error())
    }

    fn try_tlb_miss_counter(&self) -> io::Result<()> {
        self.0.try_tlb_miss_counter()
    }

    fn ask_module(&self, device: &FileHandle, request: ModuleRequest<'_>) -> io::Result<()> {
        match request.writes() {
            true => Err(Refused::error()),
            false => self.0.ask_module(device, request),
        }
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeModule};
    use crate::kernel::module::interface::{
        BLOCKS_RESET, COMPACT_DRY_RUN, COMPACT_MOVE_HUGE, Compact, Demote, Exchange, FreeZero,
        Promote, ScanBlocks, ScanTask, TASK_CLEAR,
    };
    use crate::module::Device;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The device behind a boundary that refuses to write, and how many requests other than INFO reached the module.
    fn device() -> (Device, Arc<AtomicU32>) {
        let reached = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&reached);
        let kernel = FakeKernel::new();
        kernel.state().module = Some(FakeModule::scripted(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }));
        let device = Device::open(Arc::new(ReadOnly(kernel))).unwrap();
        (device, reached)
    }

    #[test]
    fn each_request_to_the_module_that_writes_is_refused() {
        let (device, reached) = device();
        let process = ProcessHandle::new(1, None);
        let mut clear = ScanTask {
            flags: TASK_CLEAR,
            ..ScanTask::default()
        };
        let mut reset = ScanBlocks {
            flags: BLOCKS_RESET,
            ..ScanBlocks::default()
        };
        let mut move_huge = Compact {
            flags: COMPACT_MOVE_HUGE,
            ..Compact::default()
        };
        let answers = [
            device.scan_task(&process, &mut clear, &mut []),
            device.scan_blocks(&mut reset, &mut []),
            device.compact(&mut Compact::default(), &[]),
            device.compact(&mut move_huge, &[]),
            device.promote(&process, &mut Promote::default()),
            device.demote(&process, &mut Demote::default()),
            device.free_zero(&process, &mut FreeZero::default()),
            device.exchange(&process, &mut Exchange::default(), &mut []),
        ];
        for (index, answer) in answers.into_iter().enumerate() {
            assert!(Refused::is(&answer.unwrap_err()), "request {index}");
        }
        assert_eq!(reached.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn requests_that_only_look_pass() {
        let (device, reached) = device();
        let process = ProcessHandle::new(1, None);
        let mut dry_run = Compact {
            flags: COMPACT_DRY_RUN | COMPACT_MOVE_HUGE,
            ..Compact::default()
        };
        device
            .scan_task(&process, &mut ScanTask::default(), &mut [])
            .unwrap();
        device
            .scan_blocks(&mut ScanBlocks::default(), &mut [])
            .unwrap();
        device.compact(&mut dry_run, &[]).unwrap();
        assert_eq!(reached.load(Ordering::Relaxed), 3);
    }
}
