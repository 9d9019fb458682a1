//! Mappings: what addresses a process may touch (`struct vm_area_struct` of Linux).

use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, PageSize, Region, Span};

/// What the process said of its mapping with madvise(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    None,
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`.
    NoHuge,
}

/// Shared memory by its place among all that there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedId(pub(crate) u32);

/// What a mapping maps of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The memory.
    pub id: SharedId,
    /// The address at which its first byte is, or would be if that were still mapped.
    pub base: u64,
}

impl Shared {
    /// Whether a huge page of the memory can map a region of a mapping of it.
    pub(crate) const fn fits_huge(&self, area: &Area, region: Region) -> bool {
        area.holds(region.start(), PageSize::Huge)
            && (region.start() - self.base).is_multiple_of(HUGE_PAGE_SIZE)
    }
}

/// A mapping of anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its first address, a multiple of 4096.
    pub start: u64,
    /// The first address after it, a multiple of 4096.
    pub end: u64,
    /// What was said of it.
    pub advice: Advice,
    /// The shared memory that it maps; `None` where it is private.
    pub shared: Option<Shared>,
}

impl Area {
    /// Whether an address lies in it.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// Whether a page of that size at that address would lie in it whole.
    #[must_use]
    pub const fn holds(&self, address: u64, size: PageSize) -> bool {
        let start = address & !(size.bytes() - 1);
        self.start <= start && start + size.bytes() <= self.end
    }

    /// The regions that lie in it whole: those that a huge page can map.
    pub fn regions(&self) -> impl Iterator<Item = Region> {
        Region::wholly_inside(self.start, self.end)
    }

    /// The first region that lies in it whole, at an address or after it.
    #[must_use]
    pub fn first_region_from(&self, address: u64) -> Option<Region> {
        let from = self.start.max(address);
        Region::wholly_inside(from, self.end).next()
    }

    /// Bytes of it that a page of that size can map.
    #[must_use]
    pub fn mappable(&self, size: PageSize) -> u64 {
        match size {
            PageSize::Base => (self.end - self.start) / BASE_PAGE_SIZE * BASE_PAGE_SIZE,
            PageSize::Huge => self.regions().count() as u64 * HUGE_PAGE_SIZE,
            PageSize::Giant => {
                Span::wholly_inside(self.start, self.end).count() as u64 * GIANT_PAGE_SIZE
            }
        }
    }
}
