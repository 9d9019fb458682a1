//! hzmem.ko: reads from `/sys/fs/hzmem` what memory it owns and what its mounts hold, gives it memory and takes memory
//! back.
//!
//! `docs/hzmem.md` says what hzmem is. The module counts in pages of 2 MiB; everything here is in bytes.

pub mod mount_points;
mod mounts;
mod nodes;
mod ranges;

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use mega_core::HUGE_PAGE_SIZE;
use serde::Serialize;

pub use mounts::{Counts, Held, Mount, Settings};
pub use nodes::Node;
pub use ranges::{Origin, Range};

use crate::Error;
use crate::kernel::{Kernel, Refused};

/// The module's folder in sysfs.
pub const ROOT: &str = "/sys/fs/hzmem";

/// All that the module shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct State {
    /// The algorithms it can compress with.
    pub compressors: Vec<String>,
    /// Its memory, by address.
    pub ranges: Vec<Range>,
    /// Its NUMA nodes, by number.
    pub nodes: Vec<Node>,
    /// Its mounts, by device number.
    pub mounts: Vec<Mount>,
}

/// The module. It was loaded when this was made.
pub struct Hzmem {
    kernel: Arc<dyn Kernel>,
}

impl Hzmem {
    /// Takes the module that is loaded.
    ///
    /// # Errors
    /// [`Error::Missing`] where it is not; [`Error::Io`].
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<Self, Error> {
        if is_loaded(kernel.as_ref())? {
            Ok(Hzmem { kernel })
        } else {
            Err(missing())
        }
    }

    /// Its memory, by address.
    ///
    /// # Errors
    /// [`Error::Missing`] where it was unloaded; [`Error::Io`], [`Error::Malformed`].
    pub fn ranges(&self) -> Result<Vec<Range>, Error> {
        read_ranges(self.kernel.as_ref())
    }

    /// All that it shows. A mount that goes away meanwhile is left out.
    ///
    /// # Errors
    /// As [`Hzmem::ranges`].
    pub fn state(&self) -> Result<State, Error> {
        let compressors = self.text(&root("compressors"))?;
        Ok(State {
            compressors: compressors.split_whitespace().map(str::to_owned).collect(),
            ranges: self.ranges()?,
            nodes: nodes::read(self)?,
            mounts: mounts::read(self)?,
        })
    }

    /// Gives it the memory from `start` to `start + bytes`. The kernel moves what is in there and loses that memory for
    /// good. Both numbers are multiples of the size of a memory block ([`crate::physical::memory_blocks::size`]). Where it
    /// fails, the kernel has the memory again, though it may have to be put online.
    ///
    /// # Errors
    /// [`Error::Missing`] where the privilege is missing; [`Error::Io`] where the memory could not be had.
    pub fn add(&self, start: u64, bytes: u64) -> Result<(), Error> {
        let attempt = format!("give hzmem {bytes} bytes of memory at {start:#x}");
        self.write(
            "add",
            &format!("{start:#x} {bytes:#x}"),
            attempt,
            |number| match number {
                libc::EBUSY => {
                    Some("a page in it cannot be moved away; take other memory, or free some of it")
                }
                libc::EINVAL | libc::ENXIO => Some(
                    "it is not made of whole memory blocks that are in use as memory; see lsmem",
                ),
                libc::ENOMEM => {
                    Some("too little other memory is free to hold what is in it; free some")
                }
                libc::EOPNOTSUPP => Some(
                    "Linux cannot cut it out of its memory, below its own image or a crash kernel",
                ),
                _ => None,
            },
        )
    }

    /// Gives the range that begins at `start` back to the kernel. Afterwards its memory blocks have to be put online
    /// ([`crate::physical::memory_blocks::put_online`]).
    ///
    /// # Errors
    /// [`Error::Missing`] where the privilege is missing; [`Error::Io`] where it is in use, or cannot be given back.
    pub fn remove(&self, start: u64) -> Result<(), Error> {
        let attempt = format!("take the memory at {start:#x} back from hzmem");
        self.write("remove", &format!("{start:#x}"), attempt, |number| match number {
            libc::EBUSY => Some("pages of it are in use; remove files from hzmem's mounts, or end the programs that use them"),
            libc::ENOENT => Some("no range of hzmem begins there; see `mega hz status`"),
            libc::EINVAL => Some("it is not made of whole memory blocks, so the kernel cannot take it; hzmem keeps it"),
            _ => None,
        })
    }

    fn write(
        &self,
        name: &str,
        value: &str,
        attempt: String,
        why: impl Fn(i32) -> Option<&'static str>,
    ) -> Result<(), Error> {
        let path = root(name);
        let Err(source) = self.kernel.write(&path, value.as_bytes()) else {
            return Ok(());
        };
        Err(match source.raw_os_error() {
            _ if Refused::is(&source) => Error::Io { attempt, source },
            Some(libc::EACCES | libc::EPERM) => Error::Missing {
                feature: format!("the privilege to write {}", path.display()),
                remedy: "run as root".to_owned(),
            },
            Some(libc::ENOENT) if !is_loaded(self.kernel.as_ref())? => missing(),
            number => {
                let known = number.and_then(why);
                let source = known.map_or(source, io::Error::other);
                Error::Io { attempt, source }
            }
        })
    }

    fn text(&self, path: &Path) -> Result<String, Error> {
        text(self.kernel.as_ref(), path)
    }

    /// The value of a file that holds one.
    fn value<T: FromStr>(&self, path: &Path) -> Result<T, Error> {
        value(self.kernel.as_ref(), path)
    }

    /// The value of a file that counts pages of 2 MiB, in bytes.
    fn bytes_of_pages(&self, path: &Path) -> Result<u64, Error> {
        Ok(self.value::<u64>(path)?.saturating_mul(HUGE_PAGE_SIZE))
    }

    fn names(&self, path: &Path) -> Result<Vec<String>, Error> {
        names(self.kernel.as_ref(), path)
    }
}

/// The module's memory, by address.
///
/// # Errors
/// [`Error::Missing`] where it is not loaded; [`Error::Io`], [`Error::Malformed`].
pub fn read_ranges(kernel: &dyn Kernel) -> Result<Vec<Range>, Error> {
    if !is_loaded(kernel)? {
        return Err(missing());
    }
    ranges::read(kernel)
}

/// The names in a folder of the module's; none where there is no such folder.
fn names(kernel: &dyn Kernel, path: &Path) -> Result<Vec<String>, Error> {
    match kernel.list(path) {
        Ok(names) => Ok(names
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect()),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
        Err(error) => Err(Error::io("list", path)(error)),
    }
}

/// The value of a file that holds one.
fn value<T: FromStr>(kernel: &dyn Kernel, path: &Path) -> Result<T, Error> {
    let text = text(kernel, path)?;
    text.trim().parse().map_err(|_| Error::Malformed {
        path: path.to_owned(),
        reason: format!("holds no number, but {:?}", text.trim()),
    })
}

/// The whole content of a file of the module's, which is text.
fn text(kernel: &dyn Kernel, path: &Path) -> Result<String, Error> {
    match kernel.read(path) {
        Ok(content) => Ok(String::from_utf8_lossy(&content).into_owned()),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) && !is_loaded(kernel)? => {
            Err(missing())
        }
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Whether the module is loaded.
fn is_loaded(kernel: &dyn Kernel) -> Result<bool, Error> {
    let path = root("compressors");
    match kernel.read(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

fn root(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn missing() -> Error {
    Error::Missing {
        feature: format!("the kernel module hzmem ({ROOT})"),
        remedy: "build it with `make -C kernel/hzmem`, then `modprobe lz4_compress` and \
                 `insmod kernel/hzmem/hzmem.ko` (docs/hzmem.md)"
            .to_owned(),
    }
}

/// A number as the kernel writes them: decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    // `from_str_radix` and `parse` would take a sign.
    let (digits, radix) = text
        .strip_prefix("0x")
        .map_or((text, 10), |digits| (digits, 16));
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests;
