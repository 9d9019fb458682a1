//! The calls to the kernel that touch memory: userfaultfd, and the spare block.
//!
//! The addresses that come in here are of [`Block`]s, which exist within [`Range`](crate::Range)s only, or of the [`Spare`].
//! So whoever made the ranges has promised that their contents may change.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr;

use linux_raw_sys::general::{
    PAGE_IS_HUGE, UFFD_API, UFFD_FEATURE_MOVE, UFFD_USER_MODE_ONLY, UFFDIO_REGISTER_MODE_WP,
    page_region, pm_scan_arg, uffdio_api, uffdio_move, uffdio_range, uffdio_register,
};
use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER};
use rustix::io::Errno;

use crate::Error;
use crate::memory::{BLOCK_BYTES, Block};

/// The bytes of a block, as the calls take them.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const BYTES: usize = BLOCK_BYTES as usize;

// What the headers of linux-raw-sys lack.
const UFFDIO_MOVE: libc::c_ulong = 0xc028_aa05;
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
/// In an entry of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst).
const PM_PRESENT: u64 = 1 << 63;
const PM_SWAP: u64 = 1 << 62;
/// The bytes of a base page of x86-64, which UFFDIO_MOVE moves one by one.
pub(crate) const SMALLEST_PAGE: usize = 4096;
/// `UFFDIO_MOVE` asks that the destination is registered, in any mode. `MISSING` would send every first touch of the guest's
/// memory to us, and `MINOR` is for shared memory. `WP` delivers a fault only for pages that were write-protected by
/// `UFFDIO_WRITEPROTECT`, and there are none: missing pages fault as ever.
const REGISTER_MODE: u64 = UFFDIO_REGISTER_MODE_WP as u64;
/// Nobody waits for a fault, so nobody need be woken.
const UFFDIO_MOVE_MODE_DONTWAKE: u64 = 1;
/// A hole is moved as a hole.
const UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES: u64 = 2;

/// An address range that may be moved from and to: a part of a block or of the spare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    address: usize,
    bytes: usize,
}

impl Part {
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Without its first bytes.
    pub(crate) fn after(self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        Self {
            address: self.address + bytes,
            bytes: self.bytes - bytes,
        }
    }

    /// Its first bytes.
    pub(crate) fn first(self, bytes: usize) -> Self {
        Self {
            address: self.address,
            bytes: bytes.min(self.bytes),
        }
    }
}

impl From<Block> for Part {
    fn from(block: Block) -> Self {
        Self {
            address: block.address(),
            bytes: BYTES,
        }
    }
}

/// A descriptor that can move pages within this process.
#[derive(Debug)]
pub(crate) struct Userfaultfd(OwnedFd);

impl Userfaultfd {
    pub(crate) fn open() -> Result<Self, Error> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY.cast_signed();
        // SAFETY: the call takes flags only.
        let result = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let fd = i32::try_from(result)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| Error::NoUserfaultfd(io::Error::last_os_error()))?;
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let this = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut api = uffdio_api {
            api: UFFD_API.into(),
            features: UFFD_FEATURE_MOVE.into(),
            ioctls: 0,
        };
        // SAFETY: UFFDIO_API reads and writes one struct uffdio_api.
        unsafe { this.ioctl(UFFDIO_API.into(), &mut api) }
            .map_err(|error| Error::NoMove(error.into()))?;
        Ok(this)
    }

    /// Makes these addresses a destination for moves.
    pub(crate) fn register(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        let mut register = uffdio_register {
            range: uffdio_range {
                start: start as u64,
                len: bytes as u64,
            },
            mode: REGISTER_MODE,
            ioctls: 0,
        };
        // SAFETY: UFFDIO_REGISTER reads and writes one struct uffdio_register. It changes how faults are handled, not contents.
        unsafe { self.ioctl(UFFDIO_REGISTER.into(), &mut register) }
    }

    pub(crate) fn unregister(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        let mut range = uffdio_range {
            start: start as u64,
            len: bytes as u64,
        };
        // SAFETY: UFFDIO_UNREGISTER reads one struct uffdio_range.
        unsafe { self.ioctl(UFFDIO_UNREGISTER.into(), &mut range) }
    }

    /// Moves the pages of `from` to `to`, which must have none, and says how many bytes were moved before it failed.
    pub(crate) fn move_pages(&self, to: Part, from: Part) -> (usize, Result<(), Errno>) {
        let mut request = uffdio_move {
            dst: to.address as u64,
            src: from.address as u64,
            len: to.bytes.min(from.bytes) as u64,
            mode: UFFDIO_MOVE_MODE_DONTWAKE | UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES,
            move_: 0,
        };
        // SAFETY: UFFDIO_MOVE reads and writes one struct uffdio_move. Both parts are guest memory or the spare: no Rust
        // reference points there, so their contents may change.
        let result = unsafe { self.ioctl(UFFDIO_MOVE, &mut request) };
        (usize::try_from(request.move_).unwrap_or(0), result)
    }

    /// # Safety
    ///
    /// The kernel reads and writes one `T` for this request, and what the request does to memory is sound.
    unsafe fn ioctl<T>(&self, request: libc::c_ulong, argument: &mut T) -> Result<(), Errno> {
        // SAFETY: the caller vouches for the request; the argument is exclusively borrowed during the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, ptr::from_mut(argument)) };
        if result == 0 {
            Ok(())
        } else {
            Err(last_error())
        }
    }
}

/// What maps addresses of this process.
#[derive(Debug)]
pub(crate) struct Pagemap(File);

impl Pagemap {
    pub(crate) fn open() -> Result<Self, Error> {
        let file = File::open("/proc/self/pagemap");
        file.map(Self)
            .map_err(Error::system("open /proc/self/pagemap"))
    }

    /// Whether a part begins with a page, in memory, in swap, or on its way to another place. False if that is not known.
    pub(crate) fn has_first(&self, part: Part) -> bool {
        let mut entry = [0; 8];
        let place = (part.address / SMALLEST_PAGE * entry.len()) as u64;
        let read = self.0.read_exact_at(&mut entry, place);
        read.is_ok() && u64::from_ne_bytes(entry) & (PM_PRESENT | PM_SWAP) != 0
    }

    /// Whether one huge page maps the whole part. False if that is not known.
    pub(crate) fn is_huge(&self, part: Part) -> bool {
        let mut region = page_region {
            start: 0,
            end: 0,
            categories: 0,
        };
        let (start, end) = (part.address as u64, (part.address + part.bytes) as u64);
        let mut scan = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            vec: (&raw mut region).expose_provenance() as u64,
            vec_len: 1,
            max_pages: 0,
            category_inverted: 0,
            category_mask: PAGE_IS_HUGE.into(),
            category_anyof_mask: 0,
            return_mask: PAGE_IS_HUGE.into(),
        };
        // SAFETY: PAGEMAP_SCAN reads and writes one struct pm_scan_arg, and writes one struct page_region where vec points.
        let found = unsafe { libc::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        found == 1 && region.start == start && region.end == end
    }
}

/// Drops the pages of a part that holds nothing of value, with the page tables if the kernel does that (6.14 and newer): a
/// huge page that is moved over an empty page table is split.
pub(crate) fn discard(part: Part) -> Result<(), Errno> {
    // SAFETY: the part is guest memory or the spare, so its contents may change.
    let result = unsafe {
        libc::madvise(
            ptr::without_provenance_mut(part.address),
            part.bytes,
            libc::MADV_DONTNEED_LOCKED,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// Copies the bytes of `from` to `to`. The kernel does it: memory that is not mapped is an error, and not a fault.
pub(crate) fn copy(to: Part, from: Part) -> Result<(), Errno> {
    let mut done = 0;
    while done < from.bytes.min(to.bytes) {
        let (to, from) = (to.after(done), from.after(done));
        let local = libc::iovec {
            iov_base: ptr::without_provenance_mut(from.address),
            iov_len: from.bytes,
        };
        let remote = libc::iovec {
            iov_base: ptr::without_provenance_mut(to.address),
            iov_len: to.bytes,
        };
        let process = i32::try_from(std::process::id()).map_err(|_| Errno::SRCH)?;
        // SAFETY: the kernel reads one part and writes the other, both guest memory or the spare, of this process.
        let result = unsafe {
            libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0)
        };
        match usize::try_from(result) {
            Ok(0) => return Err(Errno::FAULT),
            Ok(bytes) => done += bytes,
            Err(_) => return Err(last_error()),
        }
    }
    Ok(())
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A block of addresses without pages, through which pairs are exchanged.
#[derive(Debug)]
pub(crate) struct Spare {
    mapped: usize,
    block: usize,
    locked: bool,
}

impl Spare {
    /// Pages move only between mappings that are both locked, or both not.
    pub(crate) fn new(locked: bool) -> io::Result<Self> {
        // SAFETY: the kernel chooses new addresses.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                2 * BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let spare = Self {
            mapped: mapped.addr(),
            block: mapped.addr().next_multiple_of(BYTES),
            locked,
        };
        spare.prepare()?;
        Ok(spare)
    }

    pub(crate) fn part(&self) -> Part {
        Part {
            address: self.block,
            bytes: BYTES,
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.block
    }

    fn pointer(&self) -> *mut libc::c_void {
        ptr::without_provenance_mut(self.block)
    }

    /// Locked as asked, without pages, and not inherited by children.
    fn prepare(&self) -> io::Result<()> {
        if self.locked {
            // SAFETY: the block lies within our own mapping; MLOCK_ONFAULT brings no page in.
            let result = unsafe { libc::mlock2(self.pointer(), BYTES, libc::MLOCK_ONFAULT) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: as above; the advice changes what fork does.
        let result = unsafe { libc::madvise(self.pointer(), BYTES, libc::MADV_DONTFORK) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // mlockall(MCL_FUTURE) of the VMM may have brought pages in.
        discard(self.part())?;
        Ok(())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // SAFETY: it is our own mapping, and no part of it is used after this.
        unsafe { libc::munmap(ptr::without_provenance_mut(self.mapped), 2 * BYTES) };
    }
}
