//! The virtual memory of a process: its mappings and its page tables. It allocates nothing itself; the
//! [`crate::kernel`] gives it frames.

mod area;
mod bits;
mod table;

use std::collections::BTreeMap;

use mega_core::{
    BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, REGIONS_PER_SPAN,
    Region,
};

pub use area::{Advice, Area, Shared, SharedId};
pub(crate) use bits::Bits;
pub(crate) use table::{BasePages, Entry, HugePage, Marks, SpanTable};

/// Where mappings begin, from the top down (`mmap_base` of x86-64 without randomization).
const TOP: u64 = 0x7fff_f000_0000;

/// Bytes that are mapped by pages of each size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedBytes {
    /// By base pages.
    pub base: u64,
    /// By huge pages.
    pub huge: u64,
    /// By giant pages.
    pub giant: u64,
}

impl MappedBytes {
    /// All that is resident.
    #[must_use]
    pub const fn resident(&self) -> u64 {
        self.base + self.huge + self.giant
    }
}

/// Mappings and page tables.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// In address order; they do not overlap.
    areas: Vec<Area>,
    spans: BTreeMap<u64, SpanTable>,
    /// Below it lies nothing that was mapped without an address.
    lowest: Option<u64>,
}

/// The region at an address, by span and place in it.
const fn place_of(region: Region) -> (u64, usize) {
    let number = region.start() / HUGE_PAGE_SIZE;
    let place = number % REGIONS_PER_SPAN as u64;
    #[allow(clippy::cast_possible_truncation)] // below 512
    (number / REGIONS_PER_SPAN as u64, place as usize)
}

/// The place of a page in its region.
pub(crate) const fn offset_of(address: u64) -> usize {
    #[allow(clippy::cast_possible_truncation)] // below 512
    let offset = (address % HUGE_PAGE_SIZE / BASE_PAGE_SIZE) as usize;
    offset
}

impl AddressSpace {
    /// The mappings, in address order.
    #[must_use]
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The mapping that an address lies in, and the shared memory that it maps, if it does.
    pub(crate) fn shared_at(&self, address: u64) -> Option<(Area, Shared)> {
        let area = self.area_of(address)?;
        Some((*area, area.shared?))
    }

    /// The mapping that an address lies in.
    #[must_use]
    pub fn area_of(&self, address: u64) -> Option<&Area> {
        let next = self.areas.partition_point(|area| area.end <= address);
        self.areas.get(next).filter(|area| area.contains(address))
    }

    /// Maps `bytes` of private memory; returns the first address. It is a multiple of 2 MiB where their number is one (`__get_unmapped_area`
    /// of Linux 6.12.117).
    pub(crate) fn map(&mut self, bytes: u64, advice: Advice) -> u64 {
        let (start, end) = self.find_room(bytes, |bytes| bytes.is_multiple_of(HUGE_PAGE_SIZE));
        self.add(Area {
            start,
            end,
            advice,
            shared: None,
        });
        start
    }

    /// Maps shared memory of `bytes`; returns the first address, a multiple of 2 MiB where there are as many (`shmem_get_unmapped_area`).
    pub(crate) fn map_shared(&mut self, bytes: u64, id: SharedId) -> u64 {
        let (start, end) = self.find_room(bytes, |bytes| bytes >= HUGE_PAGE_SIZE);
        self.add(Area {
            start,
            end,
            advice: Advice::None,
            shared: Some(Shared { id, base: start }),
        });
        start
    }

    /// Addresses of whole base pages below what was mapped last, from a multiple of 2 MiB on where so many bytes are aligned.
    fn find_room(&mut self, bytes: u64, is_aligned: fn(u64) -> bool) -> (u64, u64) {
        let bytes = bytes.next_multiple_of(BASE_PAGE_SIZE);
        let alignment = if is_aligned(bytes) {
            HUGE_PAGE_SIZE
        } else {
            BASE_PAGE_SIZE
        };
        let start = (self.lowest.unwrap_or(TOP) - bytes) / alignment * alignment;
        self.lowest = Some(start);
        (start, start + bytes)
    }

    /// The same mappings without a page table: what a child begins with.
    pub(crate) fn for_child(&self) -> Self {
        AddressSpace {
            areas: self.areas.clone(),
            spans: BTreeMap::new(),
            lowest: self.lowest,
        }
    }

    /// Adds a mapping, and joins it with like ones beside it (`vma_merge`).
    pub(crate) fn add(&mut self, area: Area) {
        let place = self.areas.partition_point(|other| other.end <= area.start);
        debug_assert!(
            self.areas
                .get(place)
                .is_none_or(|next| area.end <= next.start)
        );
        self.areas.insert(place, area);
        self.join(place + 1);
        self.join(place);
    }

    /// Joins the mapping at that place with the one before it, where they touch and are alike.
    fn join(&mut self, place: usize) {
        let Some(before) = place.checked_sub(1) else {
            return;
        };
        if let (Some(first), Some(second)) = (self.areas.get(before), self.areas.get(place))
            && first.end == second.start
            && first.advice == second.advice
            && first.shared == second.shared
        {
            self.areas[before].end = second.end;
            self.areas.remove(place);
        }
    }

    /// Takes a range out of the mappings.
    pub(crate) fn cut(&mut self, start: u64, end: u64) {
        let mut left = Vec::with_capacity(self.areas.len() + 1);
        for area in &self.areas {
            let before = Area {
                end: area.end.min(start),
                ..*area
            };
            let after = Area {
                start: area.start.max(end),
                ..*area
            };
            left.extend(
                [before, after]
                    .into_iter()
                    .filter(|area| area.start < area.end),
            );
        }
        // A mapping that the range lies outside of came out twice, or once whole.
        left.dedup();
        self.areas = left;
    }

    pub(crate) fn entry(&self, region: Region) -> &Entry {
        let (span, place) = place_of(region);
        self.spans
            .get(&span)
            .map_or(&Entry::None, |table| &table.regions[place])
    }

    /// `None` where the span has no table yet.
    pub(crate) fn entry_mut(&mut self, region: Region) -> Option<&mut Entry> {
        let (span, place) = place_of(region);
        Some(&mut self.spans.get_mut(&span)?.regions[place])
    }

    pub(crate) fn span(&self, address: u64) -> Option<&SpanTable> {
        self.spans.get(&(address / GIANT_PAGE_SIZE))
    }

    pub(crate) fn span_mut(&mut self, address: u64) -> Option<&mut SpanTable> {
        self.spans.get_mut(&(address / GIANT_PAGE_SIZE))
    }

    pub(crate) fn add_span(&mut self, address: u64, table: SpanTable) {
        self.spans.insert(address / GIANT_PAGE_SIZE, table);
    }

    pub(crate) fn remove_span(&mut self, address: u64) -> Option<SpanTable> {
        self.spans.remove(&(address / GIANT_PAGE_SIZE))
    }

    /// The spans that have tables, by their first address.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (u64, &SpanTable)> {
        self.spans
            .iter()
            .map(|(number, table)| (number * GIANT_PAGE_SIZE, table))
    }

    pub(crate) fn into_spans(self) -> impl Iterator<Item = SpanTable> {
        self.spans.into_values()
    }

    pub(crate) fn spans_mut(&mut self) -> impl Iterator<Item = (u64, &mut SpanTable)> {
        self.spans
            .iter_mut()
            .map(|(number, table)| (number * GIANT_PAGE_SIZE, table))
    }

    /// Touches a page that is mapped, which sets its Accessed bit and writes to it. The size of the page that maps it;
    /// `None` where none does, and where it is protected from writes.
    pub(crate) fn touch(&mut self, address: u64) -> Option<PageSize> {
        let (span, place) = place_of(Region::containing(address));
        let table = self.spans.get_mut(&span)?;
        let offset = offset_of(address);
        let size = match &mut table.regions[place] {
            Entry::None => return None,
            Entry::Base(pages) => {
                pages.frame(offset)?;
                if pages.protected.get(offset) {
                    return None;
                }
                pages.accessed.set(offset);
                pages.young.set(offset);
                pages.filled.set(offset);
                return Some(PageSize::Base);
            }
            Entry::Huge(huge) if huge.protected => return None,
            Entry::Huge(huge) => {
                huge.filled.set(offset);
                if table.giant.is_none() {
                    huge.marks = Marks::SET;
                }
                PageSize::Huge
            }
        };
        let Some(giant) = &mut table.giant else {
            return Some(size);
        };
        *giant = Marks::SET;
        Some(PageSize::Giant)
    }

    /// Reads a page that is mapped, which sets its Accessed bit. The size of the page that maps it; `None` where none does.
    pub(crate) fn read(&mut self, address: u64) -> Option<PageSize> {
        let (span, place) = place_of(Region::containing(address));
        let table = self.spans.get_mut(&span)?;
        match &mut table.regions[place] {
            Entry::None => None,
            Entry::Base(pages) => {
                let offset = offset_of(address);
                pages.frame(offset)?;
                pages.accessed.set(offset);
                pages.young.set(offset);
                Some(PageSize::Base)
            }
            Entry::Huge(huge) => Some(match &mut table.giant {
                Some(marks) => {
                    *marks = Marks::SET;
                    PageSize::Giant
                }
                None => {
                    huge.marks = Marks::SET;
                    PageSize::Huge
                }
            }),
        }
    }

    /// Has the first `pages` base pages of a region accessed, of those that are mapped, and no others since somebody looked. The
    /// Accessed bit of a larger page is only set.
    pub(crate) fn access_first(&mut self, region: Region, pages: u16) {
        let (span, place) = place_of(region);
        let Some(table) = self.spans.get_mut(&span) else {
            return;
        };
        match &mut table.regions[place] {
            Entry::None => {}
            Entry::Base(base) => {
                base.accessed = Bits::default();
                for place in 0..usize::from(pages.min(PAGES_PER_REGION)) {
                    if base.frame(place).is_some() {
                        base.accessed.set(place);
                        base.young.set(place);
                    }
                }
            }
            Entry::Huge(_) if pages == 0 => {}
            Entry::Huge(huge) => *table.giant.as_mut().unwrap_or(&mut huge.marks) = Marks::SET,
        }
    }

    /// Touches base pages in a row, within one region, if such pages map them all and none is protected. Whether that is so.
    pub(crate) fn touch_row(&mut self, address: u64, pages: usize) -> bool {
        let from = offset_of(address);
        match self.entry_mut(Region::containing(address)) {
            Some(Entry::Base(base))
                if base.are_mapped(from, from + pages)
                    && !base.protected.is_any(from, from + pages) =>
            {
                base.accessed.set_all(from, from + pages);
                base.young.set_all(from, from + pages);
                base.filled.set_all(from, from + pages);
                true
            }
            _ => false,
        }
    }

    /// What is mapped, by the size of the pages.
    #[must_use]
    pub fn mapped_bytes(&self) -> MappedBytes {
        let mut mapped = MappedBytes::default();
        for table in self.spans.values() {
            if table.giant.is_some() {
                mapped.giant += GIANT_PAGE_SIZE;
                continue;
            }
            for entry in &table.regions {
                match entry {
                    Entry::None => {}
                    Entry::Base(pages) => mapped.base += u64::from(pages.mapped()) * BASE_PAGE_SIZE,
                    Entry::Huge(_) => mapped.huge += HUGE_PAGE_SIZE,
                }
            }
        }
        mapped
    }

    /// Base pages of page tables that map something: one for each span, unless a giant page maps it, and one for each region that base
    /// pages map. Tables that are only kept for a split do not count.
    #[must_use]
    pub fn tables_in_use(&self) -> u64 {
        let of_span = |table: &SpanTable| {
            let regions = table.regions.iter();
            let by_base = regions.filter(|entry| matches!(entry, Entry::Base(_)));
            1 + by_base.count() as u64
        };
        let spans = self.spans.values();
        let not_giant = spans.filter(|table| table.giant.is_none());
        not_giant.map(of_span).sum()
    }

    /// Bytes of this program's own memory that the page tables take.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        let of_entry = |entry: &Entry| {
            size_of::<Entry>()
                + match entry {
                    Entry::None => 0,
                    Entry::Base(_) => size_of::<BasePages>(),
                    Entry::Huge(_) => size_of::<HugePage>(),
                }
        };
        let entries = self.spans.values().flat_map(|table| table.regions.iter());
        entries.map(of_entry).sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64) -> Area {
        Area {
            start: start * BASE_PAGE_SIZE,
            end: end * BASE_PAGE_SIZE,
            advice: Advice::None,
            shared: None,
        }
    }

    #[test]
    fn mappings_that_touch_become_one() {
        let mut space = AddressSpace::default();
        space.add(area(10, 20));
        space.add(area(30, 40));
        space.add(area(20, 30));
        assert_eq!(space.areas(), [area(10, 40)]);
        space.cut(15 * BASE_PAGE_SIZE, 16 * BASE_PAGE_SIZE);
        assert_eq!(space.areas(), [area(10, 15), area(16, 40)]);
        assert_eq!(space.area_of(15 * BASE_PAGE_SIZE), None);
        assert_eq!(space.area_of(16 * BASE_PAGE_SIZE), Some(&area(16, 40)));
    }

    #[test]
    fn whole_huge_pages_are_aligned_and_all_else_is_one_mapping() {
        let mut space = AddressSpace::default();
        let small = space.map(5000, Advice::None);
        assert_eq!(small, TOP - 8192);
        assert_eq!(space.map(3 << 20, Advice::None), small - (3 << 20));
        assert_eq!(space.areas().len(), 1);
        assert_eq!(space.map(4 << 20, Advice::None) % HUGE_PAGE_SIZE, 0);
    }

    proptest::proptest! {
        #[test]
        fn cutting_takes_what_it_should(
            cuts in proptest::collection::vec((0u64..100, 1u64..40), 0..12),
        ) {
            let mut space = AddressSpace::default();
            space.add(area(0, 60));
            space.add(area(70, 100));
            let mut expected: std::collections::BTreeSet<u64> = (0..60).chain(70..100).collect();
            for (start, length) in cuts {
                space.cut(start * BASE_PAGE_SIZE, (start + length) * BASE_PAGE_SIZE);
                expected.retain(|page| !(start..start + length).contains(page));
                let pages = (0..110).filter(|page| space.area_of(page * BASE_PAGE_SIZE).is_some());
                proptest::prop_assert!(pages.eq(expected.iter().copied()));
            }
        }
    }
}
