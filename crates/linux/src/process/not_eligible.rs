//! Memory that a huge page would be of use in and cannot map: where, why, and what can be done.

use std::ops::Range;

/// A part of a process's memory that is left alone, in whole regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEligible {
    /// Its addresses.
    pub range: Range<u64>,
    /// Why.
    pub reason: Reason,
}

/// Why memory is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Memory in the kernel's own tmpfs whose addresses differ from their offsets in it modulo 2 MiB: no huge page of
    /// it can lie under an entry of its page table.
    MisalignedShared,
    /// The same in the mount at `/dev/shm`, for which another setting decides.
    MisalignedPosixShared,
}

impl Reason {
    /// Its name in reports. Both kinds of misaligned memory have one name: they differ in the remedy alone.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Reason::MisalignedShared | Reason::MisalignedPosixShared => "misaligned_shared_memory",
        }
    }

    /// Why, in words.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Reason::MisalignedShared | Reason::MisalignedPosixShared => {
                "shared memory at addresses that no huge page of it fits"
            }
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Reason::MisalignedShared => {
                "write advise (or within_size, or always) to /sys/kernel/mm/transparent_hugepage/shmem_enabled before the program maps it, that is, and then start the program again: the kernel chooses addresses that huge pages fit only then"
            }
            Reason::MisalignedPosixShared => {
                "mount -o remount,huge=advise /dev/shm (or huge=within_size, or huge=always) before the program maps it, that is, and then start the program again: the kernel chooses addresses that huge pages fit only then"
            }
        }
    }
}
