//! Memory in which a huge page would be of use but is not possible: where, why, and what can be done.

use std::ops::Range;

/// A part of a process's memory that is left alone, in whole regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEligible {
    /// Its addresses.
    pub range: Range<u64>,
    /// Why.
    pub reason: Reason,
}

/// Takes what is left alone out of `ranges`, which are ascending and disjoint.
pub(crate) fn take_out(ranges: &mut Vec<Range<u64>>, left_alone: &[NotEligible]) {
    for part in left_alone.iter().map(|part| &part.range) {
        let split = |range: &Range<u64>| {
            let below = range.start..range.end.min(part.start);
            let above = range.start.max(part.end)..range.end;
            [below, above]
        };
        *ranges = ranges
            .iter()
            .flat_map(split)
            .filter(|range| !range.is_empty())
            .collect();
    }
}

/// Why memory is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Memory in the kernel's own tmpfs whose addresses differ from their offsets in it modulo 2 MiB: no huge page of
    /// it can lie under an entry of its page table.
    MisalignedShared,
    /// The same in the mount at `/dev/shm`, for which another setting decides.
    MisalignedPosixShared,
    /// The same memory is observed and acted on through another process that maps it, or through another mapping.
    CountedWith {
        /// That process.
        pid: u32,
    },
}

impl Reason {
    /// Its name in reports. Both kinds of misaligned memory have one name: they differ in the remedy alone.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Reason::MisalignedShared | Reason::MisalignedPosixShared => "misaligned_shared_memory",
            Reason::CountedWith { .. } => "counted_elsewhere",
        }
    }

    /// Why, in words.
    #[must_use]
    pub fn in_words(self) -> String {
        match self {
            Reason::MisalignedShared | Reason::MisalignedPosixShared => {
                "shared memory at addresses that no huge page of it fits".to_owned()
            }
            Reason::CountedWith { pid } => format!("shared memory that is counted with pid {pid}"),
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
            Reason::CountedWith { .. } => {
                "nothing: a promotion there is for all processes that map the memory"
            }
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "one range is a list of ranges"
)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_alone_is_cut_out_wherever_it_lies() {
        for (part, rest) in [
            (0..5, vec![10..20, 30..40]),
            (10..20, vec![30..40]),
            (12..15, vec![10..12, 15..20, 30..40]),
            (15..35, vec![10..15, 35..40]),
            (20..30, vec![10..20, 30..40]),
            (0..50, vec![]),
        ] {
            let mut ranges = vec![10..20, 30..40];
            let reason = Reason::CountedWith { pid: 1 };
            take_out(
                &mut ranges,
                &[NotEligible {
                    range: part,
                    reason,
                }],
            );
            assert_eq!(ranges, rest);
        }
    }
}
