//! The kernel this runs on.

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mega_core::Region;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::ClockId;

use crate::kernel::module::{ModuleRequest, ioctl};
use crate::kernel::own_memory::{self, OwnMemory};

use super::{Advice, FileHandle, Kernel, PageRange, PagemapScan, ProcessHandle, ThpDisable, sys};

/// The kernel this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveKernel;

impl Kernel for LiveKernel {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(FileHandle::new(path.to_owned(), Some(fd)))
    }

    fn read_at(&self, file: &FileHandle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let fd = file.fd().ok_or_else(not_live)?;
        Ok(rustix::io::pread(fd, buffer, offset)?)
    }

    fn pagemap_scan(
        &self,
        pagemap: &FileHandle,
        scan: &PagemapScan,
        found: &mut Vec<PageRange>,
    ) -> io::Result<()> {
        sys::pagemap_scan(pagemap.fd().ok_or_else(not_live)?, scan, found)
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        // Kernel files take a value in one write; the file is never created.
        let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
        let written = file.write(content)?;
        if written == content.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    fn write_at(&self, path: &Path, content: &[u8], offset: u64) -> io::Result<()> {
        let file = std::fs::OpenOptions::new().write(true).open(path)?;
        let written = file.write_at(content, offset)?;
        if written == content.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    fn open_process(&self, pid: u32) -> io::Result<ProcessHandle> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let fd = rustix::process::pidfd_open(raw, PidfdFlags::empty())?;
        Ok(ProcessHandle::new(pid, Some(fd)))
    }

    fn advise(
        &self,
        process: &ProcessHandle,
        ranges: &[Range<u64>],
        advice: Advice,
    ) -> io::Result<u64> {
        sys::process_madvise(process.fd().ok_or_else(not_live)?, ranges, advice)
    }

    fn read_memory(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        sys::process_vm_read(pid, address, buffer)
    }

    fn thp_disable(&self) -> io::Result<ThpDisable> {
        sys::thp_disable()
    }

    fn set_thp_disable(&self, setting: ThpDisable) -> io::Result<()> {
        sys::set_thp_disable(setting)
    }

    fn shmem_device(&self) -> io::Result<(u32, u32)> {
        let file = rustix::fs::memfd_create("mega", rustix::fs::MemfdFlags::CLOEXEC)?;
        let device = rustix::fs::fstat(&file)?.st_dev;
        Ok((rustix::fs::major(device), rustix::fs::minor(device)))
    }

    fn now(&self) -> Duration {
        clock(ClockId::Monotonic)
    }

    fn cpu_time(&self) -> Duration {
        clock(ClockId::ProcessCPUTime)
    }

    fn thread_cpu_time(&self) -> Duration {
        clock(ClockId::ThreadCPUTime)
    }

    fn cpu_time_of(&self, pid: u32) -> io::Result<Duration> {
        let pid = i32::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // The kernel takes 0 for the caller.
        if pid <= 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let clock = nix::time::ClockId::pid_cpu_clock_id(nix::unistd::Pid::from_raw(pid))?;
        Ok(clock.now()?.into())
    }

    fn sleep(&self, time: Duration) {
        // By default the kernel may wake a thread up to 50 us late, so that several wake at once.
        let slack = rustix::thread::current_timer_slack();
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
        std::thread::sleep(time);
        if let Ok(slack) = slack {
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(slack));
        }
    }

    fn touch_blocks(&self, count: usize) -> io::Result<Duration> {
        let memory = OwnMemory::new(count)?;
        memory.advise(memory.range(), own_memory::Advice::Huge)?;
        let started = self.now();
        for region in Region::wholly_inside(memory.range().start, memory.range().end) {
            memory.write(region.start());
        }
        Ok(self.now().saturating_sub(started))
    }

    fn try_tlb_miss_counter(&self) -> io::Result<()> {
        sys::open_tlb_miss_counter().map(drop)
    }

    fn ask_module(&self, device: &FileHandle, request: ModuleRequest<'_>) -> io::Result<()> {
        ioctl::ask(device.fd().ok_or_else(not_live)?, request)
    }
}

fn clock(id: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// A handle that another boundary made.
fn not_live() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}
