//! The page that guest and host share. `kernel/module/mega_exchange.h` is the truth; a test compares.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Error, Pair};

/// The bytes of the page, BAR 2 of the device: 16 KiB.
pub const PAGE_BYTES: usize = 0x4000;
/// The pairs of one request, at most.
pub const MAX_PAIRS: usize = 512;

pub(crate) const PAIRS_OFFSET: usize = 0x1000;
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"MEGAEXCH");
pub(crate) const VERSION: u32 = 1;
pub(crate) const PAGE_SHIFT: u32 = 21;
pub(crate) const SERVING: u32 = 1;

/// Why a guest is not served, as its page tells it: `refusal` in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Unserved {
    /// Devices are assigned to it.
    Devices = 1,
    /// It is encrypted.
    Encrypted = 2,
    /// Its memory is shared, of a file, of hugetlb, or in use otherwise.
    Memory = 3,
    /// The host's kernel cannot exchange memory, or its daemon does not serve the guest.
    Host = 4,
    /// Something else.
    Other = 5,
}

/// `state`, of a request and of a pair (`MEGA_EXCHANGE_…` in `mega_exchange.h`).
#[allow(missing_docs)]
pub mod state {
    pub const IDLE: u32 = 0;
    pub const PENDING: u32 = 1;
    pub const RUNNING: u32 = 2;
    pub const DONE: u32 = 3;
    pub const CANCELLED: u32 = 4;
}

/// `struct mega_exchange_header`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SharedHeader {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub features: AtomicU32,
    pub host_peer: AtomicU32,
    pub max_pairs: AtomicU32,
    pub page_shift: AtomicU32,
    pub refusal: AtomicU32,
    pub state: AtomicU32,
    pub pairs: AtomicU32,
    pub sequence: AtomicU64,
    pub done_sequence: AtomicU64,
    pub session: AtomicU64,
}

/// `struct mega_exchange_pair`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SharedPair {
    pub source: AtomicU64,
    pub target: AtomicU64,
    pub state: AtomicU32,
    pub result: AtomicI32,
}

/// The whole page. Every member is atomic, as the guest writes it at any time.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SharedPage {
    pub header: SharedHeader,
    unused: [AtomicU64; (PAIRS_OFFSET - size_of::<SharedHeader>()) / 8],
    pub pairs: [SharedPair; MAX_PAIRS],
}

impl SharedPage {
    /// Writes a request as a guest does, of [`MAX_PAIRS`] pairs at most; the doorbell is still to be rung. Whoever serves guests tries
    /// by it whether that works.
    pub fn request(&self, pairs: &[Pair]) {
        let mut count = 0;
        for (shared, pair) in self.pairs.iter().zip(pairs) {
            shared.source.store(pair.source, Relaxed);
            shared.target.store(pair.target, Relaxed);
            shared.result.store(-1, Relaxed);
            shared.state.store(state::PENDING, Relaxed);
            count += 1;
        }
        self.header.pairs.store(count, Relaxed);
        self.header.state.store(state::PENDING, Release);
    }
}

const _: () = assert!(size_of::<SharedPage>() == PAGE_BYTES);
const _: () = assert!(offset_of!(SharedPage, pairs) == PAIRS_OFFSET);

/// The page's memory: a memfd of fixed size, mapped here.
#[derive(Debug)]
pub(crate) struct Mapped {
    memfd: OwnedFd,
    page: NonNull<SharedPage>,
}

// SAFETY: all access is through the atomics of SharedPage.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    pub(crate) fn new() -> Result<Self, Error> {
        Self::create().map_err(|source| Error::System {
            attempt: "make the page that guest and host share",
            source,
        })
    }

    fn create() -> io::Result<Self> {
        let memfd = rustix::fs::memfd_create(
            "mega-exchange",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        rustix::fs::ftruncate(&memfd, PAGE_BYTES as u64)?;
        // Nobody who gets the descriptor can take the memory away under us.
        rustix::fs::fcntl_add_seals(
            &memfd,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        Self::map(memfd)
    }

    /// Maps the page of another process.
    pub(crate) fn adopt(memfd: OwnedFd) -> Result<Self, Error> {
        let seals = rustix::fs::fcntl_get_seals(&memfd)
            .map_err(|_| Error::NotShared("the page is no memfd"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(Error::NotShared("the page is not sealed against shrinking"));
        }
        let size = rustix::fs::fstat(&memfd)
            .map_err(Error::system("look at the page"))?
            .st_size;
        // Sealed: it stays so large.
        if u64::try_from(size).unwrap_or(0) < PAGE_BYTES as u64 {
            return Err(Error::NotShared("the page is too small"));
        }
        Self::map(memfd).map_err(Error::system("map the page that guest and host share"))
    }

    /// The memfd is of at least this size, and cannot shrink.
    fn map(memfd: OwnedFd) -> io::Result<Self> {
        // SAFETY: the kernel chooses new addresses.
        let mapped = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &memfd,
                0,
            )
        }?;
        let page = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memfd, page })
    }

    pub(crate) fn memfd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    pub(crate) fn page(&self) -> &SharedPage {
        // SAFETY: the mapping is as large and aligned as SharedPage, lives as long as self, cannot shrink, and any bytes are a
        // valid SharedPage. It has atomics only, so others may write it at any time.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is our own mapping, and page() lends no reference that outlives self.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// The C compiler compares the header with what this file says.
    #[test]
    fn the_page_is_the_headers() {
        let mut checks = vec![
            (
                "sizeof(struct mega_exchange_header)".to_string(),
                size_of::<SharedHeader>() as u64,
            ),
            (
                "sizeof(struct mega_exchange_pair)".to_string(),
                size_of::<SharedPair>() as u64,
            ),
            ("MEGA_EXCHANGE_BYTES".into(), PAGE_BYTES as u64),
            ("MEGA_EXCHANGE_PAIRS_OFFSET".into(), PAIRS_OFFSET as u64),
            ("MEGA_EXCHANGE_MAGIC".into(), MAGIC),
            ("MEGA_EXCHANGE_VERSION".into(), VERSION.into()),
            ("MEGA_EXCHANGE_MAX_PAIRS".into(), MAX_PAIRS as u64),
            ("MEGA_EXCHANGE_PAGE_SHIFT".into(), PAGE_SHIFT.into()),
            ("MEGA_EXCHANGE_FEATURE_SERVING".into(), SERVING.into()),
            (
                "MEGA_EXCHANGE_REFUSES_DEVICES".into(),
                Unserved::Devices as u64,
            ),
            (
                "MEGA_EXCHANGE_REFUSES_ENCRYPTED".into(),
                Unserved::Encrypted as u64,
            ),
            (
                "MEGA_EXCHANGE_REFUSES_MEMORY".into(),
                Unserved::Memory as u64,
            ),
            ("MEGA_EXCHANGE_REFUSES_HOST".into(), Unserved::Host as u64),
            ("MEGA_EXCHANGE_REFUSES_OTHER".into(), Unserved::Other as u64),
            ("MEGA_EXCHANGE_IDLE".into(), state::IDLE.into()),
            ("MEGA_EXCHANGE_PENDING".into(), state::PENDING.into()),
            ("MEGA_EXCHANGE_RUNNING".into(), state::RUNNING.into()),
            ("MEGA_EXCHANGE_DONE".into(), state::DONE.into()),
            ("MEGA_EXCHANGE_CANCELLED".into(), state::CANCELLED.into()),
        ];
        macro_rules! members {
            ($c:literal, $rust:ty, $($member:ident),+) => {
                $(checks.push((
                    format!("__builtin_offsetof(struct {}, {})", $c, stringify!($member)),
                    offset_of!($rust, $member) as u64,
                ));)+
            };
        }
        members!(
            "mega_exchange_header",
            SharedHeader,
            magic,
            version,
            features,
            host_peer,
            max_pairs,
            page_shift,
            refusal,
            state,
            pairs,
            sequence,
            done_sequence,
            session
        );
        members!(
            "mega_exchange_pair",
            SharedPair,
            source,
            target,
            state,
            result
        );
        let mut program = String::from("#include \"mega_exchange.h\"\n");
        for (expression, value) in checks {
            writeln!(
                program,
                "_Static_assert({expression} == {value}ULL, \"{expression}\");"
            )
            .unwrap();
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/module");
        let source =
            std::env::temp_dir().join(format!("mega-exchange-layout-{}.c", std::process::id()));
        std::fs::write(&source, program).unwrap();
        let output = Command::new("cc")
            .args(["-fsyntax-only", "-Wall", "-Werror", "-I"])
            .arg(folder)
            .arg(&source)
            .output()
            .unwrap();
        std::fs::remove_file(&source).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
