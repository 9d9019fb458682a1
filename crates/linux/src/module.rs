//! `mega.ko` as user space sees it: its device, opened, and what it can be asked.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::kernel::module::interface::{
    Block, Compact, Demote, Exchange, FreeZero, Info, Pair, Promote, Region, ScanBlocks, ScanTask,
};
use crate::kernel::{FileHandle, Kernel, ProcessHandle};

pub use crate::kernel::module::{ModuleRequest, interface};

/// The module's device, asked through the boundary. Errors are the kernel's own error numbers, as
/// `kernel/module/mega_ioctl.h` says, or the boundary's refusal to write.
pub struct Device {
    kernel: Arc<dyn Kernel>,
    file: FileHandle,
    info: Info,
}

impl Device {
    /// Opens the device and checks that it speaks this program's version of the interface.
    ///
    /// # Errors
    /// [`Error::Missing`] where the module is not loaded or the privilege is missing, [`Error::OtherModule`] where the
    /// versions differ.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<Self, Error> {
        let path = Path::new(interface::DEVICE);
        let file = kernel
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => not_permitted(),
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => missing(),
                _ => Error::io("open", path)(error),
            })?;
        let mut info = Info::default();
        kernel
            .ask_module(&file, ModuleRequest::Info(&mut info))
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM) => not_permitted(),
                // Another version has a structure of another size, and so another request number.
                Some(libc::ENOTTY | libc::EINVAL) => Error::OtherModule { theirs: None },
                _ => Error::io("ask", path)(error),
            })?;
        if info.version != interface::VERSION {
            return Err(Error::OtherModule {
                theirs: Some(info.version),
            });
        }
        Ok(Device { kernel, file, info })
    }

    /// What the module can do.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// `SCAN_TASK` of `process` into `regions`.
    ///
    /// # Errors
    /// As the header says.
    pub fn scan_task(
        &self,
        process: &ProcessHandle,
        request: &mut ScanTask,
        regions: &mut [Region],
    ) -> io::Result<()> {
        self.ask(ModuleRequest::ScanTask {
            process,
            request,
            regions,
        })
    }

    /// `SCAN_BLOCKS` into `blocks`.
    ///
    /// # Errors
    /// As the header says.
    pub fn scan_blocks(&self, request: &mut ScanBlocks, blocks: &mut [Block]) -> io::Result<()> {
        self.ask(ModuleRequest::ScanBlocks { request, blocks })
    }

    /// `COMPACT`, into none of the ranges of the same size that begin at the frames `avoid` (ascending, each once): where that
    /// is not empty, `FEATURE_AVOID` has to be there.
    ///
    /// # Errors
    /// As the header says.
    pub fn compact(&self, request: &mut Compact, avoid: &[u64]) -> io::Result<()> {
        self.ask(ModuleRequest::Compact { request, avoid })
    }

    /// `PROMOTE` of a span of `process`.
    ///
    /// # Errors
    /// As the header says.
    pub fn promote(&self, process: &ProcessHandle, request: &mut Promote) -> io::Result<()> {
        self.ask(ModuleRequest::Promote { process, request })
    }

    /// `DEMOTE` of a span of `process`.
    ///
    /// # Errors
    /// As the header says.
    pub fn demote(&self, process: &ProcessHandle, request: &mut Demote) -> io::Result<()> {
        self.ask(ModuleRequest::Demote { process, request })
    }

    /// `FREE_ZERO` of a span of `process`.
    ///
    /// # Errors
    /// As the header says.
    pub fn free_zero(&self, process: &ProcessHandle, request: &mut FreeZero) -> io::Result<()> {
        self.ask(ModuleRequest::FreeZero { process, request })
    }

    /// `EXCHANGE` of `pairs` of huge pages of `process`: `FEATURE_EXCHANGE_PAIRS` has to be there.
    ///
    /// # Errors
    /// As the header says.
    pub fn exchange(
        &self,
        process: &ProcessHandle,
        request: &mut Exchange,
        pairs: &mut [Pair],
    ) -> io::Result<()> {
        self.ask(ModuleRequest::Exchange {
            process,
            request,
            pairs,
        })
    }

    fn ask(&self, request: ModuleRequest<'_>) -> io::Result<()> {
        self.kernel.ask_module(&self.file, request)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeModule};

    fn open(module: Option<FakeModule>) -> Result<Device, Error> {
        let kernel = FakeKernel::new();
        kernel.state().module = module;
        Device::open(Arc::new(kernel))
    }

    #[test]
    fn a_module_that_speaks_another_version_is_told_from_none() {
        assert!(open(Some(FakeModule::with_giant_pages())).is_ok());
        assert!(matches!(open(None), Err(Error::Missing { .. })));

        let mut newer = FakeModule::with_giant_pages();
        newer.info.version = interface::VERSION + 1;
        let error = open(Some(newer)).err().unwrap().to_string();
        assert!(
            error.contains("is loaded, but it speaks version 2"),
            "{error}"
        );

        // What it answers has another size: the request is not known.
        for errno in [libc::ENOTTY, libc::EINVAL] {
            let mut other = FakeModule::with_giant_pages();
            other.info_error = Some(errno);
            let error = open(Some(other)).err().unwrap().to_string();
            assert!(
                error.contains("is loaded, but it speaks another version"),
                "{error}"
            );
            assert!(error.contains("rmmod mega"), "{error}");
        }
    }
}
