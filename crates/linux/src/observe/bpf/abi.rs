//! The bytes that go to and come from `walk.bpf.c`; each layout here is one struct there.

use std::ops::Range;
use std::time::Duration;

use mega_core::{PageSize, Region, RegionObservation};

/// Ranges in one request (`MAX_RANGES` in walk.bpf.c).
pub(crate) const MAX_RANGES: usize = 128;
/// Records one run returns at most (`MAX_RECORDS` in walk.bpf.c).
const MAX_RECORDS: usize = 2048;
/// `sizeof(struct request)`.
pub(super) const REQUEST_BYTES: usize = 6 * 8 + MAX_RANGES * 16;
/// `sizeof(struct result)`.
const RESULT_BYTES: usize = 9 * 8;
/// The most bytes that one run writes.
pub(super) const RUN_BYTES: usize = RESULT_BYTES + MAX_RECORDS * 8;

/// Where and how to walk.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The kernel's virtual address of physical address 0 (`page_offset_base`).
    pub(crate) direct_map: u64,
    /// Physical addresses from here on are not memory.
    pub(crate) memory_end: u64,
    /// The bit that memory encryption (AMD SME, SEV) adds to physical addresses in entries, or 0.
    pub(crate) encryption_mask: u64,
    /// The physical address of the huge zero page, or `u64::MAX` where there is none.
    pub(crate) huge_zero_page: u64,
    /// Levels of page tables: 4 or 5.
    pub(crate) levels: u32,
    /// Whether to count the cache lines of eight entries in which one is accessed.
    pub(crate) count_lines: bool,
    /// Whole regions, ascending; at most [`MAX_RANGES`] of them.
    pub(crate) ranges: Vec<Range<u64>>,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let ranges = self.ranges.get(..MAX_RANGES).unwrap_or(&self.ranges);
        let count = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        for word in [
            self.direct_map,
            self.memory_end,
            self.encryption_mask,
            self.huge_zero_page,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [self.levels, count, u32::from(self.count_lines), 0] {
            bytes.extend(word.to_ne_bytes());
        }
        for range in ranges {
            bytes.extend(range.start.to_ne_bytes());
            bytes.extend(range.end.to_ne_bytes());
        }
        bytes.resize(REQUEST_BYTES, 0);
        bytes
    }
}

/// How a run ended (`enum status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// As far as it says.
    Ok,
    /// The thread has exited, or its memory map was replaced in the middle.
    NoMemoryMap,
    /// It is a kernel thread.
    KernelThread,
    /// A number that the program does not use.
    Unknown(u32),
}

/// Which memory map of which process a run walked. Two runs with the same one walked the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    mm: u64,
    /// The virtual address of the top page table, which is in the direct map.
    pub(crate) pgd: u64,
    exec_id: u64,
    start_time: u64,
}

/// One region, in eight bytes; or how much of the region before is in swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record(u64);

impl Record {
    /// In bits 20 and 21 where it is no region of its own (`SWAPPED` in walk.bpf.c).
    const SWAPPED: u64 = 3;

    fn field(self, shift: u32) -> u16 {
        u16::try_from(self.0 >> shift & 0x3ff).unwrap_or(u16::MAX)
    }

    fn size(self) -> u64 {
        self.0 >> 20 & 3
    }

    fn observation(self) -> RegionObservation {
        RegionObservation {
            region: Region::containing((self.0 >> 22 & ((1 << 35) - 1)) << 21),
            mapped: self.field(0),
            accessed: self.field(10),
            page_size: match self.size() {
                0 => PageSize::Base,
                1 => PageSize::Huge,
                _ => PageSize::Giant,
            },
            zero_filled: None,
            swapped: 0,
        }
    }

    fn lines(self) -> u16 {
        u16::try_from(self.0 >> 57).unwrap_or(u16::MAX)
    }

    /// Adds what it says to what the records before said.
    fn add_to(self, regions: &mut Vec<RegionObservation>, lines: &mut Vec<u16>) {
        match regions.last_mut() {
            Some(last) if self.size() == Record::SWAPPED => last.swapped = self.field(0),
            _ => {
                regions.push(self.observation());
                lines.push(self.lines());
            }
        }
    }
}

/// What one run saw and where it stopped (`struct result` and the records).
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) identity: Identity,
    pub(crate) status: Status,
    /// The next address to walk, in the range `next_range`.
    pub(crate) next_address: u64,
    /// An index into the request's ranges; their number when all were walked.
    pub(crate) next_range: usize,
    /// Page tables of base pages read.
    pub(crate) tables: u32,
    /// Entries that pointed outside memory, and reads that failed.
    pub(crate) invalid: u32,
    /// Iterations of the walk's loop.
    pub(crate) steps: u32,
    /// When the walk ended, on `CLOCK_MONOTONIC`.
    pub(crate) at: Duration,
    pub(crate) regions: Vec<RegionObservation>,
    /// For each region the cache lines of eight entries in which one is accessed; 0 where that was not asked for.
    pub(crate) lines: Vec<u16>,
}

impl Run {
    /// `None` when `bytes` is not what walk.bpf.c writes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Run> {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let int = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let records = bytes.get(RESULT_BYTES..)?.chunks_exact(8);
        let count = records.len();
        let mut regions = Vec::with_capacity(count);
        let mut lines = Vec::with_capacity(count);
        for chunk in records {
            let record = Record(u64::from_ne_bytes(chunk.try_into().ok()?));
            record.add_to(&mut regions, &mut lines);
        }
        let run = Run {
            identity: Identity {
                mm: long(0)?,
                pgd: long(8)?,
                exec_id: long(16)?,
                start_time: long(24)?,
            },
            next_address: long(32)?,
            next_range: usize::try_from(int(40)?).ok()?,
            status: match int(44)? {
                0 => Status::Ok,
                1 => Status::NoMemoryMap,
                2 => Status::KernelThread,
                other => Status::Unknown(other),
            },
            tables: int(52)?,
            invalid: int(56)?,
            steps: int(60)?,
            at: Duration::from_nanos(long(64)?),
            regions,
            lines,
        };
        (usize::try_from(int(48)?).ok()? == count).then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_beside_the_address() {
        let last = (1 << 35) - 1;
        let record: u64 = 512 | 64 << 10 | last << 22 | 64 << 57;
        let mut bytes = vec![0; RESULT_BYTES];
        bytes[48] = 1;
        bytes.extend(record.to_ne_bytes());
        let run = Run::decode(&bytes).unwrap();
        assert_eq!(run.lines, [64]);
        assert_eq!(run.regions[0].region.start(), last << 21);
        assert_eq!(run.regions[0].accessed, 64);
    }

    #[test]
    fn a_record_of_what_is_in_swap_belongs_to_the_one_before() {
        let record = |number: u64, mapped: u64, size: u64| mapped | size << 20 | number << 22;
        let records = [
            record(5, 100, 0),
            record(5, 412, 3),
            record(6, 512, 1),
            record(7, 1, 0),
        ];
        let mut bytes = vec![0; RESULT_BYTES];
        bytes[48] = 4;
        bytes.extend(records.iter().flat_map(|record| record.to_ne_bytes()));
        let regions = Run::decode(&bytes).unwrap().regions;
        let seen: Vec<_> = regions
            .iter()
            .map(|seen| (seen.region.start() >> 21, seen.mapped, seen.swapped))
            .collect();
        assert_eq!(seen, [(5, 100, 412), (6, 512, 0), (7, 1, 0)]);
        bytes[48] = 3;
        assert!(Run::decode(&bytes).is_none(), "one too many");
    }
}
