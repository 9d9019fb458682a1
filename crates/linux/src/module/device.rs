//! `/dev/mega`, opened.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::interface::{
    self, Block, Compact, Demote, FreeZero, Info, Promote, Region, ScanBlocks, ScanTask,
};
use super::ioctl;
use crate::Error;
use crate::kernel::{FileHandle, Kernel};

/// The requests of the module. Errors are the kernel's own error numbers.
pub trait Device: Send {
    /// What the module is able to do.
    fn info(&self) -> &Info;

    /// `SCAN_TASK` into `regions`.
    ///
    /// # Errors
    /// As the header says.
    fn scan_task(&mut self, request: &mut ScanTask, regions: &mut [Region]) -> io::Result<()>;

    /// `SCAN_BLOCKS` into `blocks`.
    ///
    /// # Errors
    /// As the header says.
    fn scan_blocks(&mut self, request: &mut ScanBlocks, blocks: &mut [Block]) -> io::Result<()>;

    /// `COMPACT`.
    ///
    /// # Errors
    /// As the header says.
    fn compact(&mut self, request: &mut Compact) -> io::Result<()>;

    /// `PROMOTE`.
    ///
    /// # Errors
    /// As the header says.
    fn promote(&mut self, request: &mut Promote) -> io::Result<()>;

    /// `DEMOTE`.
    ///
    /// # Errors
    /// As the header says.
    fn demote(&mut self, request: &mut Demote) -> io::Result<()>;

    /// Gives back the zero-filled huge pages of a span.
    ///
    /// # Errors
    /// As the header says.
    fn free_zero(&mut self, request: &mut FreeZero) -> io::Result<()>;
}

/// The module's own device.
#[derive(Debug)]
pub struct LiveDevice {
    file: FileHandle,
    info: Info,
}

impl LiveDevice {
    /// Opens the device and checks that it is one that this program knows.
    ///
    /// # Errors
    /// [`Error::Missing`] where the module is not loaded, the privilege is missing, or the versions differ.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, Error> {
        let path = Path::new(interface::DEVICE);
        let file = kernel
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => not_permitted(),
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => missing(),
                _ => Error::io("open", path)(error),
            })?;
        let mut info = Info::default();
        ioctl::plain(fd(&file).map_err(|_| missing())?, &mut info).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EPERM) => not_permitted(),
                // Another version has a structure of another size, and so another request number.
                Some(libc::ENOTTY | libc::EINVAL) => other_version(None),
                _ => Error::io("ask", path)(error),
            }
        })?;
        if info.version != interface::VERSION {
            return Err(other_version(Some(info.version)));
        }
        Ok(LiveDevice { file, info })
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        fd(&self.file)
    }
}

impl Device for LiveDevice {
    fn info(&self) -> &Info {
        &self.info
    }

    fn scan_task(&mut self, request: &mut ScanTask, regions: &mut [Region]) -> io::Result<()> {
        ioctl::scan_task(self.fd()?, request, regions)
    }

    fn scan_blocks(&mut self, request: &mut ScanBlocks, blocks: &mut [Block]) -> io::Result<()> {
        ioctl::scan_blocks(self.fd()?, request, blocks)
    }

    fn compact(&mut self, request: &mut Compact) -> io::Result<()> {
        ioctl::plain(self.fd()?, request)
    }

    fn promote(&mut self, request: &mut Promote) -> io::Result<()> {
        ioctl::plain(self.fd()?, request)
    }

    fn demote(&mut self, request: &mut Demote) -> io::Result<()> {
        ioctl::plain(self.fd()?, request)
    }

    fn free_zero(&mut self, request: &mut FreeZero) -> io::Result<()> {
        ioctl::plain(self.fd()?, request)
    }
}

/// A boundary that is not a live kernel has no device.
fn fd(file: &FileHandle) -> io::Result<BorrowedFd<'_>> {
    file.fd()
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
}

/// The module is not loaded.
#[must_use]
pub fn missing() -> Error {
    Error::Missing {
        feature: format!("the kernel module ({})", interface::DEVICE),
        remedy: "build it with `make -C kernel/module` and load it with \
                 `insmod kernel/module/mega.ko`"
            .to_owned(),
    }
}

fn not_permitted() -> Error {
    Error::Missing {
        feature: format!("the privilege to use {}", interface::DEVICE),
        remedy: "run as root (it needs CAP_SYS_ADMIN)".to_owned(),
    }
}

fn other_version(version: Option<u32>) -> Error {
    let theirs = version.map_or_else(String::new, |version| format!(" (it speaks {version})"));
    Error::Missing {
        feature: format!(
            "version {} of the kernel module's interface{theirs}",
            interface::VERSION
        ),
        remedy: "build and load the module that belongs to this program".to_owned(),
    }
}

/// The module refused a request.
pub(crate) fn refused(attempt: &str, source: io::Error) -> Error {
    if source.raw_os_error() == Some(libc::EPERM) {
        return not_permitted();
    }
    let source = if source.raw_os_error() == Some(libc::EBUSY) {
        io::Error::new(
            io::ErrorKind::ResourceBusy,
            "memory is being taken offline; try again when that has ended",
        )
    } else {
        source
    };
    Error::Io {
        attempt: format!("{attempt} through {}", interface::DEVICE),
        source,
    }
}
