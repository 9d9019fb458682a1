//! The calls to the kernel that touch memory: userfaultfd, and the spare block.
//!
//! The addresses that come in here are of [`Block`]s, which exist within [`Range`](crate::Range)s only, or of the [`Spare`].
//! So whoever made the ranges has promised that their contents may change.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;

use crate::Error;
use crate::memory::{BLOCK_BYTES, Block};

/// The bytes of a block, as the calls take them.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const BYTES: usize = BLOCK_BYTES as usize;

// From linux/userfaultfd.h, which the libc crate does not repeat.
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_MOVE: u64 = 1 << 16;
const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const UFFDIO_MOVE: libc::c_ulong = 0xc028_aa05;
/// `UFFDIO_MOVE` asks that the destination is registered, in any mode. `MISSING` would send every first touch of the guest's
/// memory to us, and `MINOR` is for shared memory. `WP` delivers a fault only for pages that were write-protected by
/// `UFFDIO_WRITEPROTECT`, and there are none: missing pages fault as ever.
const UFFDIO_REGISTER_MODE_WP: u64 = 2;
/// Nobody waits for a fault, so nobody need be woken.
const UFFDIO_MOVE_MODE_DONTWAKE: u64 = 1;
/// A hole is moved as a hole.
const UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES: u64 = 2;

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRange {
    start: u64,
    len: u64,
}

#[repr(C)]
struct UffdioMove {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    moved: i64,
}

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

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
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        // SAFETY: the call takes flags only.
        let result = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let fd = i32::try_from(result)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| Error::NoUserfaultfd(io::Error::last_os_error()))?;
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let this = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut api = UffdioApi {
            api: UFFD_API,
            features: UFFD_FEATURE_MOVE,
            ioctls: 0,
        };
        // SAFETY: UFFDIO_API reads and writes one struct uffdio_api.
        unsafe { this.ioctl(UFFDIO_API, &mut api) }.map_err(|error| Error::NoMove(error.into()))?;
        Ok(this)
    }

    /// Makes these addresses a destination for moves.
    pub(crate) fn register(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        let mut register = UffdioRegister {
            start: start as u64,
            len: bytes as u64,
            mode: UFFDIO_REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: UFFDIO_REGISTER reads and writes one struct uffdio_register. It changes how faults are handled, not contents.
        unsafe { self.ioctl(UFFDIO_REGISTER, &mut register) }
    }

    pub(crate) fn unregister(&self, start: usize, bytes: usize) -> Result<(), Errno> {
        let mut range = UffdioRange {
            start: start as u64,
            len: bytes as u64,
        };
        // SAFETY: UFFDIO_UNREGISTER reads one struct uffdio_range.
        unsafe { self.ioctl(UFFDIO_UNREGISTER, &mut range) }
    }

    /// Moves the pages of `from` to `to`, which must have none, and says how many bytes were moved before it failed.
    pub(crate) fn move_pages(&self, to: Part, from: Part) -> (usize, Result<(), Errno>) {
        let mut request = UffdioMove {
            dst: to.address as u64,
            src: from.address as u64,
            len: to.bytes.min(from.bytes) as u64,
            mode: UFFDIO_MOVE_MODE_DONTWAKE | UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES,
            moved: 0,
        };
        // SAFETY: UFFDIO_MOVE reads and writes one struct uffdio_move. Both parts are guest memory or the spare: no Rust
        // reference points there, so their contents may change.
        let result = unsafe { self.ioctl(UFFDIO_MOVE, &mut request) };
        (usize::try_from(request.moved).unwrap_or(0), result)
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

/// What maps addresses of this process. Without /proc it knows nothing.
#[derive(Debug)]
pub(crate) struct Pagemap(Option<File>);

impl Pagemap {
    pub(crate) fn open() -> Self {
        Self(File::open("/proc/self/pagemap").ok())
    }

    /// Whether one huge page maps the whole part. False if that is not known.
    pub(crate) fn is_huge(&self, part: Part) -> bool {
        let Some(file) = &self.0 else { return false };
        let mut region = PageRegion::default();
        let (start, end) = (part.address as u64, (part.address + part.bytes) as u64);
        let mut scan = PmScanArg {
            size: size_of::<PmScanArg>() as u64,
            start,
            end,
            vec: (&raw mut region).expose_provenance() as u64,
            vec_len: 1,
            category_mask: PAGE_IS_HUGE,
            return_mask: PAGE_IS_HUGE,
            ..PmScanArg::default()
        };
        // SAFETY: PAGEMAP_SCAN reads and writes one struct pm_scan_arg, and writes one struct page_region where vec points.
        let found = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
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
