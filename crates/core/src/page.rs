//! Page sizes, and the aligned pieces of an address space they divide it into.

use serde::{Deserialize, Serialize};

/// Bytes in a base page on x86-64.
pub const BASE_PAGE_SIZE: u64 = 4 << 10;
/// Bytes in a huge page, which is one PMD entry on x86-64.
pub const HUGE_PAGE_SIZE: u64 = 2 << 20;
/// Bytes in a giant page, which is one PUD entry on x86-64.
pub const GIANT_PAGE_SIZE: u64 = 1 << 30;
/// Base pages in one region, and so the largest value of every per-region count.
pub const PAGES_PER_REGION: u16 = 512;
/// Regions in one span.
pub const REGIONS_PER_SPAN: usize = 512;

/// The size of the page that maps a region now.
///
/// In JSON it is its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u64", try_from = "u64")]
pub enum PageSize {
    /// 4 KiB.
    Base,
    /// 2 MiB.
    Huge,
    /// 1 GiB.
    Giant,
}

impl PageSize {
    /// Bytes in one page of this size.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            PageSize::Base => BASE_PAGE_SIZE,
            PageSize::Huge => HUGE_PAGE_SIZE,
            PageSize::Giant => GIANT_PAGE_SIZE,
        }
    }
}

impl From<PageSize> for u64 {
    fn from(size: PageSize) -> u64 {
        size.bytes()
    }
}

impl TryFrom<u64> for PageSize {
    type Error = NotAPageSize;

    fn try_from(bytes: u64) -> Result<Self, Self::Error> {
        match bytes {
            BASE_PAGE_SIZE => Ok(PageSize::Base),
            HUGE_PAGE_SIZE => Ok(PageSize::Huge),
            GIANT_PAGE_SIZE => Ok(PageSize::Giant),
            _ => Err(NotAPageSize(bytes)),
        }
    }
}

/// A number of bytes that no x86-64 page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes is not a page size (4096, 2097152 or 1073741824)")]
pub struct NotAPageSize(pub u64);

/// An aligned 2 MiB of a process's virtual addresses (MEGA's huge page region).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Region(u64);

impl Region {
    /// The region that `address` lies in.
    #[must_use]
    pub const fn containing(address: u64) -> Self {
        Region(address & !(HUGE_PAGE_SIZE - 1))
    }

    /// The first address of the region.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.0
    }

    /// The first address after the region.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.0.saturating_add(HUGE_PAGE_SIZE)
    }

    /// How many regions this one lies after `other`; below 0 where it lies before.
    #[must_use]
    #[allow(
        clippy::cast_possible_wrap,
        reason = "a quotient by 2 MiB is below 2^43"
    )]
    pub const fn distance_from(self, other: Region) -> i64 {
        (self.0 / HUGE_PAGE_SIZE) as i64 - (other.0 / HUGE_PAGE_SIZE) as i64
    }

    /// The regions that lie wholly inside `start..end`, in address order.
    pub fn wholly_inside(start: u64, end: u64) -> impl Iterator<Item = Region> {
        let first = start.div_ceil(HUGE_PAGE_SIZE);
        let last = end / HUGE_PAGE_SIZE;
        (first..last).map(|index| Region(index * HUGE_PAGE_SIZE))
    }
}

/// An aligned 1 GiB of a process's virtual addresses: what one giant page can map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// The span that `region` lies in.
    #[must_use]
    pub const fn of(region: Region) -> Self {
        Span(region.start() & !(GIANT_PAGE_SIZE - 1))
    }

    /// The first address of the span.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.0
    }

    /// The first address after the span.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.0.saturating_add(GIANT_PAGE_SIZE)
    }

    /// The first region of the span, by which actions name it.
    #[must_use]
    pub const fn first_region(self) -> Region {
        Region(self.0)
    }

    /// The spans that lie wholly inside `start..end`, in address order.
    pub fn wholly_inside(start: u64, end: u64) -> impl Iterator<Item = Span> {
        let first = start.div_ceil(GIANT_PAGE_SIZE);
        let last = end / GIANT_PAGE_SIZE;
        (first..last).map(|index| Span(index * GIANT_PAGE_SIZE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_region_at_either_end_is_left_out() {
        let regions: Vec<u64> =
            Region::wholly_inside(HUGE_PAGE_SIZE - 4096, 3 * HUGE_PAGE_SIZE + 4096)
                .map(Region::start)
                .collect();
        assert_eq!(regions, [HUGE_PAGE_SIZE, 2 * HUGE_PAGE_SIZE]);
    }

    #[test]
    fn a_range_smaller_than_a_region_holds_none() {
        assert_eq!(Region::wholly_inside(4096, HUGE_PAGE_SIZE).count(), 0);
        assert_eq!(Region::wholly_inside(5, 5).count(), 0);
    }

    #[test]
    fn a_span_has_all_its_regions_and_no_other() {
        let span = Span::of(Region::containing(GIANT_PAGE_SIZE * 3 + 5 * HUGE_PAGE_SIZE));
        assert_eq!(span.first_region(), Region::containing(3 * GIANT_PAGE_SIZE));
        let regions: Vec<Region> = Region::wholly_inside(span.start(), span.end()).collect();
        assert_eq!(regions.len(), REGIONS_PER_SPAN);
        assert!(regions.iter().all(|region| Span::of(*region) == span));
        assert_ne!(Span::of(Region::containing(span.end())), span);
    }

    #[test]
    fn a_partial_span_at_either_end_is_left_out() {
        let spans: Vec<u64> =
            Span::wholly_inside(HUGE_PAGE_SIZE, 3 * GIANT_PAGE_SIZE + HUGE_PAGE_SIZE)
                .map(Span::start)
                .collect();
        assert_eq!(spans, [GIANT_PAGE_SIZE, 2 * GIANT_PAGE_SIZE]);
    }

    #[test]
    fn page_sizes_survive_the_way_through_bytes() {
        for size in [PageSize::Base, PageSize::Huge, PageSize::Giant] {
            assert_eq!(PageSize::try_from(u64::from(size)), Ok(size));
        }
        assert_eq!(PageSize::try_from(8192), Err(NotAPageSize(8192)));
    }
}
