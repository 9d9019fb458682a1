//! Which memory of a process huge pages can map: what `/proc/PID/maps` lists, without what mega must leave alone.
//!
//! Reading `maps` costs microseconds per mapping. `smaps`, which also has the mappings' flags, walks all page
//! tables under the target's mmap lock and is not read at all. Hugetlb and PFN maps show in `maps` as files.
//! Only the flags tell of `MADV_NOHUGEPAGE`. mega learns it when the kernel refuses the first promotion, and remembers it
//! ([`crate::machine::LinuxMachine`]).
//!
//! Shared memory can be huge only where its address and its offset in the file agree modulo 2 MiB
//! (`thp_vma_suitable_order` in the kernel; `MADV_COLLAPSE` asks for it too). The kernel chooses such an address only for
//! memory that it may make huge at a fault. Memory mapped while `shmem_enabled` is `never` stays misaligned for good.
//! Both were seen on 6.18.

use std::ops::Range;

use mega_core::HUGE_PAGE_SIZE;

use super::not_eligible::{NotEligible, Reason};
use super::sharing::SharedRange;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Whether it may be read, written or executed at all.
    pub accessible: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether writes are seen by others who map the same.
    pub shared: bool,
    /// Where in the file it begins, in bytes; 0 without one.
    pub offset: u64,
    /// The device that holds the file it maps, major and minor; 0, 0 for none.
    pub device: (u32, u32),
    /// The inode of the file it maps; 0 for none.
    pub inode: u64,
    /// The file's path, or the kernel's name in brackets, or nothing.
    pub name: String,
}

impl Mapping {
    /// Reads one line. `None` where it is not one.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // "start-end rwxp offset major:minor inode   name with spaces"
        let mut rest = line;
        let mut field = || {
            let (field, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = tail;
            field
        };
        let (start, end) = field().split_once('-')?;
        let permissions = field().as_bytes();
        let (offset, device) = (u64::from_str_radix(field(), 16).ok()?, field());
        let (major, minor) = device.split_once(':')?;
        let device = (
            u32::from_str_radix(major, 16).ok()?,
            u32::from_str_radix(minor, 16).ok()?,
        );
        let inode = field().parse().ok()?;
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        let &[read, write, execute, sharing] = permissions else {
            return None;
        };
        (range.start < range.end).then(|| Mapping {
            range,
            accessible: read == b'r' || write == b'w' || execute == b'x',
            writable: write == b'w',
            shared: sharing == b's',
            offset,
            device,
            inode,
            name: rest.trim_start().to_owned(),
        })
    }

    /// Private anonymous memory: `mmap`, the heap, or named by `PR_SET_VMA_ANON_NAME`.
    pub(crate) fn is_private_anonymous(&self) -> bool {
        let name = self.name.as_str();
        !self.shared
            && self.inode == 0
            && (name.is_empty() || name == "[heap]" || name.starts_with("[anon:"))
    }

    /// Shared memory: in the kernel's own tmpfs (shared anonymous, memfd, System V), or POSIX's in the mount that
    /// every distribution has for it. Hugetlb memory has the same names and lies on another device.
    pub(crate) fn is_shared_memory(&self, shmem_device: Option<(u32, u32)>) -> bool {
        self.shared
            && self.inode != 0
            && (Some(self.device) == shmem_device || self.name.starts_with("/dev/shm/"))
    }

    /// Why huge pages cannot map it though it is shared memory, if so.
    fn misaligned(&self) -> Option<Reason> {
        let is_aligned = self
            .range
            .start
            .wrapping_sub(self.offset)
            .is_multiple_of(HUGE_PAGE_SIZE);
        match (is_aligned, self.name.starts_with("/dev/shm/")) {
            (true, _) => None,
            (false, true) => Some(Reason::MisalignedPosixShared),
            (false, false) => Some(Reason::MisalignedShared),
        }
    }

    fn is_guard(&self) -> bool {
        !self.accessible && self.inode == 0 && size(&self.range) <= LARGEST_GUARD
    }
}

/// The largest inaccessible mapping that is taken for a stack's guard. glibc's and musl's are 4 to 8 KiB, the
/// JVM's below 128 KiB; inaccessible reserves of allocators are larger.
const LARGEST_GUARD: u64 = 1 << 20;

/// The largest mapping above a guard that is taken for a stack alone. Larger ones are memory that the kernel
/// merged with the stack below it.
const LARGEST_STACK: u64 = 64 << 20;

/// What is taken for the stack at the bottom of a larger mapping: glibc's default size (`ulimit -s`), which is
/// also the largest in common use.
const THREAD_STACK: u64 = 8 << 20;

/// glibc's malloc aligns the heaps of its arenas to this and leaves the unused end of each inaccessible, so
/// that the next heap looks as if it had a guard.
const ARENA_ALIGNMENT: u64 = 64 << 20;

fn size(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// The mappings in the text of `/proc/PID/maps`, in address order. Lines that are not mappings are left out.
#[must_use]
pub fn mappings(maps: &[u8]) -> Vec<Mapping> {
    String::from_utf8_lossy(maps)
        .lines()
        .filter_map(Mapping::parse)
        .collect()
}

/// The memory of a process that huge pages may map, and the memory of that kind that they cannot map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eligibility {
    /// What they may map, in whole regions, ascending and disjoint.
    pub ranges: Vec<Range<u64>>,
    /// What of that is shared memory, ascending.
    pub shared: Vec<SharedRange>,
    /// What they cannot, in whole regions, ascending.
    pub not_eligible: Vec<NotEligible>,
}

/// Tells the parts of `mappings` that huge pages may map from the others.
///
/// Stacks are left out: the main one by its name, a thread's by its guard below. Since 6.7 the kernel itself
/// refuses huge pages for stacks of threads (`MAP_STACK` implies `MADV_NOHUGEPAGE`); before, the guard is all
/// there is to tell by: what lies above it is left out whole up to 64 MiB, and of a larger mapping, which is a
/// stack merged with the memory above it, the lowest 8 MiB are. `threaded` says whether there are other threads,
/// `shmem_device` which device the kernel's own tmpfs is ([`crate::kernel::Kernel::shmem_device`]).
#[must_use]
pub fn eligibility(
    mappings: &[Mapping],
    threaded: bool,
    shmem_device: Option<(u32, u32)>,
) -> Eligibility {
    let below = std::iter::once(None).chain(mappings.iter().map(Some));
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut shared = Vec::new();
    let mut not_eligible = Vec::new();
    for (mapping, below) in mappings.iter().zip(below) {
        if !mapping.accessible
            || !(mapping.is_private_anonymous() || mapping.is_shared_memory(shmem_device))
        {
            continue;
        }
        let guarded = threaded
            && mapping.is_private_anonymous()
            && mapping.range.start % ARENA_ALIGNMENT != 0
            && below
                .is_some_and(|below| below.is_guard() && below.range.end == mapping.range.start);
        if guarded && size(&mapping.range) <= LARGEST_STACK {
            continue;
        }
        let start = if guarded {
            mapping.range.start.saturating_add(THREAD_STACK)
        } else {
            mapping.range.start
        };
        let range = whole_regions(&(start..mapping.range.end));
        if range.is_empty() {
            continue;
        }
        if let Some(reason) = mapping.misaligned().filter(|_| mapping.shared) {
            not_eligible.push(NotEligible { range, reason });
            continue;
        }
        // The kernel lists mappings in order; a text that does not is not followed into overlap.
        let in_order = ranges.last().is_none_or(|last| last.end <= range.start);
        if in_order {
            if mapping.shared {
                shared.push(SharedRange {
                    range: range.clone(),
                    file: (mapping.device, mapping.inode),
                    offset: mapping
                        .offset
                        .saturating_add(range.start - mapping.range.start),
                });
            }
            ranges.push(range);
        }
    }
    Eligibility {
        ranges,
        shared,
        not_eligible,
    }
}

/// The largest part of `range` that consists of whole regions.
pub(crate) fn whole_regions(range: &Range<u64>) -> Range<u64> {
    let start = range
        .start
        .checked_next_multiple_of(HUGE_PAGE_SIZE)
        .unwrap_or(u64::MAX);
    let end = range.end - range.end % HUGE_PAGE_SIZE;
    start..end.max(start)
}

/// The parts of `ranges` that lie in `wanted`, trimmed to whole regions.
#[must_use]
pub fn within(ranges: &[Range<u64>], wanted: &Range<u64>) -> Vec<Range<u64>> {
    ranges
        .iter()
        .map(|range| whole_regions(&(range.start.max(wanted.start)..range.end.min(wanted.end))))
        .filter(|range| range.start < range.end)
        .collect()
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, of which there happens to be one"
)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHMEM: Option<(u32, u32)> = Some((0, 1));

    fn eligible(maps: &str) -> Vec<Range<u64>> {
        ranges(&mappings(maps.as_bytes()), true)
    }

    fn ranges(mappings: &[Mapping], threaded: bool) -> Vec<Range<u64>> {
        eligibility(mappings, threaded, SHMEM).ranges
    }

    #[test]
    fn a_line_is_taken_apart() {
        let line =
            "7f0000000000-7f0000400000 rw-s 00001000 fd:1a 42                 /a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(mapping.range, 0x7f00_0000_0000..0x7f00_0040_0000);
        assert!(mapping.accessible && mapping.writable && mapping.shared);
        assert_eq!((mapping.device, mapping.inode), ((0xfd, 0x1a), 42));
        assert_eq!(mapping.offset, 0x1000);
        assert_eq!(mapping.name, "/a b (deleted)");
        assert_eq!(Mapping::parse("nonsense"), None);
    }

    #[test]
    fn kinds_of_memory_are_told_apart() {
        for (rest, expected) in [
            ("rw-p 00000000 00:00 0", true),
            ("r--p 00000000 00:00 0", true),
            ("rw-p 00000000 00:00 0   [heap]", true),
            ("rw-p 00000000 00:00 0   [anon:jemalloc]", true),
            ("rw-s 00000000 00:01 77  /dev/zero (deleted)", true),
            ("rw-s 00000000 00:01 77  /memfd:x (deleted)", true),
            ("rw-s 00000000 00:01 77  /SYSV00000000 (deleted)", true),
            ("rw-s 00000000 00:1b 77  /dev/shm/x", true),
            // Hugetlb: the same name on another device; and anonymous.
            ("rw-s 00000000 00:0f 77  /memfd:x (deleted)", false),
            ("rw-p 00000000 00:0f 77  /anon_hugepage (deleted)", false),
            ("rw-p 00000000 00:00 0   [stack]", false),
            ("r--p 00000000 00:00 0   [vvar]", false),
            ("rw-p 00000000 fd:00 9   /usr/bin/x", false),
            ("rw-s 00000000 fd:00 9   /data", false),
            ("rw-s 00000000 00:06 9   /dev/nvidia0", false),
            ("---p 00000000 00:00 0", false),
        ] {
            let found = eligible(&format!("40000000-40400000 {rest}\n"));
            assert_eq!(!found.is_empty(), expected, "{rest}");
        }
    }

    #[test]
    fn shared_memory_is_eligible_where_its_address_and_offset_agree() {
        let found = |range: &str, permissions: &str, offset: &str, rest: &str| {
            let line = format!("{range} {permissions} {offset} {rest}\n");
            eligibility(&mappings(line.as_bytes()), true, SHMEM)
        };
        let anonymous = "00:01 77  /dev/zero (deleted)";
        for (range, offset, eligible) in [
            (
                "40000000-40800000",
                "00000000",
                Some(0x4000_0000..0x4080_0000),
            ),
            (
                "40000000-40800000",
                "00400000",
                Some(0x4000_0000..0x4080_0000),
            ),
            (
                "40001000-40801000",
                "00001000",
                Some(0x4020_0000..0x4080_0000),
            ),
            ("40001000-40801000", "00000000", None),
            ("40000000-40800000", "00001000", None),
        ] {
            let seen = found(range, "rw-s", offset, anonymous);
            assert_eq!(seen.ranges.first().cloned(), eligible, "{range} {offset}");
            let part = seen.shared.first();
            assert!(part.is_none_or(|part| part.offset % HUGE_PAGE_SIZE == 0));
            assert_eq!(part.map(|part| part.range.clone()), eligible);
            assert_eq!(seen.not_eligible.is_empty(), eligible.is_some());
        }
        let seen = found("40001000-40801000", "rw-s", "0", anonymous);
        let expected = NotEligible {
            range: 0x4020_0000..0x4080_0000,
            reason: Reason::MisalignedShared,
        };
        assert_eq!(seen.not_eligible, [expected]);
        let posix = found("40001000-40801000", "rw-s", "0", "00:1b 77  /dev/shm/x");
        assert_eq!(posix.not_eligible[0].reason, Reason::MisalignedPosixShared);
        // What has no offset, and what is no shared memory, is as it was.
        for (permissions, rest, count) in [("rw-p", "00:00 0", 1), ("rw-s", "fd:00 9  /data", 0)] {
            let seen = found("40001000-40801000", permissions, "0", rest);
            assert_eq!((seen.ranges.len(), seen.not_eligible.len()), (count, 0));
        }
    }

    #[test]
    fn only_whole_regions_count() {
        assert_eq!(
            eligible("401ff000-405ff000 rw-p 0 00:00 0\n"),
            [0x4020_0000..0x4040_0000]
        );
        assert!(eligible("40001000-403ff000 rw-p 0 00:00 0\n").is_empty());
    }

    #[test]
    fn the_stack_above_a_guard_is_left_out() {
        let maps = "40000000-40001000 ---p 0 00:00 0\n40001000-50001000 rw-p 0 00:00 0\n";
        assert_eq!(eligible(maps), [0x40a0_0000..0x5000_0000]);
        let alone = ranges(&mappings(maps.as_bytes()), false);
        assert_eq!(
            alone,
            [0x4020_0000..0x5000_0000],
            "without threads there is no such stack"
        );
        let stack = "40000000-40001000 ---p 0 00:00 0\n40001000-41001000 rw-p 0 00:00 0\n";
        assert!(
            eligible(stack).is_empty(),
            "one of 16 MiB is left out whole"
        );
        let reserve = "40000000-43fff000 ---p 0 00:00 0\n43fff000-50000000 rw-p 0 00:00 0\n";
        assert_eq!(
            eligible(reserve),
            [0x4400_0000..0x5000_0000],
            "an allocator's reserve is no guard"
        );
        let arena = "43fff000-44000000 ---p 0 00:00 0\n44000000-48000000 rw-p 0 00:00 0\n";
        assert_eq!(
            eligible(arena),
            [0x4400_0000..0x4800_0000],
            "nor is an arena's end"
        );
    }

    proptest! {
        #[test]
        fn ranges_are_whole_regions_in_order_inside_a_mapping(
            edges in proptest::collection::vec(0_u64..1 << 20, 2..40),
            threaded: bool,
        ) {
            let mut edges = edges;
            edges.sort_unstable();
            edges.dedup();
            let maps: String = edges
                .windows(2)
                .map(|edge| format!("{:x}-{:x} rw-p 0 00:00 0\n", edge[0] << 12, edge[1] << 12))
                .collect();
            let mappings = mappings(maps.as_bytes());
            prop_assert_eq!(mappings.len(), edges.len() - 1);
            let found = ranges(&mappings, threaded);
            for range in &found {
                prop_assert!(range.start < range.end);
                prop_assert_eq!((range.start % HUGE_PAGE_SIZE, range.end % HUGE_PAGE_SIZE), (0, 0));
                let inside = mappings.iter().any(|mapping| {
                    mapping.range.start <= range.start && range.end <= mapping.range.end
                });
                prop_assert!(inside);
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-frwxps:/ \\-\n]{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = ranges(&mappings(text.as_bytes()), true);
            let _ = ranges(&mappings(&bytes), true);
            let _ = ranges(&mappings(format!("0-ffffffffffffffff rw-p 0 00:00 0\n{text}").as_bytes()), true);
            let _ = ranges(&mappings(format!("0-ffffffffffffffff rw-s ffffffffffffffff 00:01 9\n{text}").as_bytes()), true);
        }
    }
}
