//! Memory that processes map together (shmem: `MAP_SHARED`, memfd). Its pages belong to it, whoever touched them first, and stay
//! as long as somebody maps it.
//!
//! Faults take base pages (`shmem_enabled` is `never` in a distribution). A collapse makes a region of it huge for all
//! (`collapse_file`): who asked for it maps it by an entry at once, the others at their next touch.

use mega_core::{BASE_PAGE_SIZE, Cause, HUGE_PAGE_SIZE, Outcome, PageSize, Region};

use super::promote::Done;
use super::{Kernel, Pid};
use crate::address_space::{
    Advice, Area, Bits, Entry, HugePage, Marks, Shared, SharedId, offset_of,
};
use crate::physical::{Frame, Owner, Pages};

use super::page_cache::PageCache;

/// The frame number that stands for no page.
const NONE: u32 = u32::MAX;

/// 2 MiB of shared memory.
#[derive(Clone, Debug)]
enum Part {
    Base(Box<[u32; 512]>),
    Huge(Frame),
}

impl Part {
    fn empty() -> Self {
        Part::Base(Box::new([NONE; 512]))
    }

    fn frame(&self, place: usize) -> Option<Frame> {
        match self {
            Part::Base(frames) => (frames[place] != NONE).then(|| Frame::new(frames[place])),
            Part::Huge(first) => Some(Frame::in_block(first.block_index(), place)),
        }
    }
}

/// Shared memory.
#[derive(Clone, Debug)]
pub(super) struct SharedMemory {
    bytes: u64,
    parts: Vec<Part>,
    /// Who maps it, and at which address its first byte is or would be.
    mappers: Vec<(Pid, u64)>,
}

impl SharedMemory {
    /// The pages that it has: base pages, and the first of huge ones.
    pub(super) fn pages(&self) -> impl Iterator<Item = (Frame, PageSize)> + '_ {
        self.parts.iter().flat_map(|part| {
            let (huge, base) = match part {
                Part::Huge(first) => (Some((*first, PageSize::Huge)), None),
                Part::Base(frames) => (None, Some(frames)),
            };
            let base = base.into_iter().flat_map(|frames| frames.iter());
            let base = base.filter(|frame| **frame != NONE);
            huge.into_iter()
                .chain(base.map(|frame| (Frame::new(*frame), PageSize::Base)))
        })
    }

    /// Bytes of this program's own memory that it takes.
    pub(super) fn state_bytes(&self) -> u64 {
        (self.parts.len() * size_of::<[u32; 512]>()) as u64
    }

    /// Who may map a page of it, and where.
    pub(super) fn mappers_of(&self, page: u64) -> impl Iterator<Item = (Pid, u64)> + '_ {
        let mappers = self.mappers.iter();
        mappers.map(move |(pid, base)| (*pid, base + page * BASE_PAGE_SIZE))
    }

    /// A base page of it lies elsewhere now.
    pub(super) fn relocated(&mut self, page: u64, to: Frame) {
        if let Part::Base(frames) = &mut self.parts[part_of(page)] {
            frames[place_of(page)] = to.number();
        }
    }

    /// The huge page that begins with a page of it lies elsewhere now.
    pub(super) fn relocated_huge(&mut self, page: u64, to: Frame) {
        self.parts[part_of(page)] = Part::Huge(to);
    }
}

/// The part that a page lies in.
fn part_of(page: u64) -> usize {
    usize::try_from(page / 512).unwrap_or(usize::MAX)
}

/// The place of a page in its part.
const fn place_of(page: u64) -> usize {
    #[allow(clippy::cast_possible_truncation)] // below 512
    let place = (page % 512) as usize;
    place
}

/// Who its pages belong to.
const fn holder_of(id: SharedId) -> u32 {
    PageCache::HOLDER - 1 - id.0
}

impl Kernel {
    /// Makes shared memory, which has no page yet.
    pub fn share_memory(&mut self, bytes: u64) -> SharedId {
        let id = SharedId(u32::try_from(self.shared.len()).unwrap_or(u32::MAX));
        let bytes = bytes.next_multiple_of(BASE_PAGE_SIZE);
        let parts = bytes.div_ceil(HUGE_PAGE_SIZE);
        self.shared.push(SharedMemory {
            bytes,
            parts: (0..parts).map(|_| Part::empty()).collect(),
            mappers: Vec::new(),
        });
        id
    }

    /// Maps shared memory; returns its first address.
    pub fn map_shared(&mut self, pid: Pid, id: SharedId) -> u64 {
        self.debug_check_sometimes();
        let memory = &mut self.shared[id.0 as usize];
        let start = self.processes[pid.index()]
            .space
            .map_shared(memory.bytes, id);
        memory.mappers.push((pid, start));
        start
    }

    /// Shared memory whose page an owner names, if it is such.
    pub(super) fn shared_of(&self, owner: Owner) -> Option<SharedId> {
        shared_of(self.shared.len(), owner)
    }

    /// A child maps what its parent maps.
    pub(super) fn inherit_shared(&mut self, parent: Pid, child: Pid) {
        for memory in &mut self.shared {
            let parents = memory.mappers.iter().filter(|(pid, _)| *pid == parent);
            let childs: Vec<_> = parents.map(|(_, base)| (child, *base)).collect();
            memory.mappers.extend(childs);
        }
    }

    /// A process has unmapped something. What nobody maps any more gives its pages back.
    pub(super) fn leave_shared(&mut self, pid: Pid) {
        for number in 0..self.shared.len() {
            let areas = self.processes[pid.index()].space.areas();
            let memory = &mut self.shared[number];
            let before = memory.mappers.len();
            memory.mappers.retain(|(mapper, base)| {
                let maps = |area: &Area| {
                    let shared = area.shared;
                    shared.is_some_and(|it| it.id.0 as usize == number && it.base == *base)
                };
                *mapper != pid || areas.iter().any(maps)
            });
            if before > 0 && memory.mappers.is_empty() {
                self.drop_shared(number);
            }
        }
    }

    fn drop_shared(&mut self, number: usize) {
        let pages: Vec<_> = self.shared[number].pages().collect();
        let parts = &mut self.shared[number].parts;
        parts.iter_mut().for_each(|part| *part = Part::empty());
        for (frame, page_size) in pages {
            match page_size {
                PageSize::Base => self.memory.release(frame),
                PageSize::Huge | PageSize::Giant => self.memory.release_huge(frame),
            }
        }
    }

    /// Maps what shared memory has at an address, or a new page of it (`shmem_fault`, `do_set_pmd`). The page's size and the
    /// cycles it took; `None` where memory is used up.
    pub(super) fn fault_shared(
        &mut self,
        pid: Pid,
        area: &Area,
        shared: Shared,
        address: u64,
    ) -> Option<(PageSize, u64)> {
        self.need_span(pid, address)?;
        let region = Region::containing(address);
        let page = (address - shared.base) / BASE_PAGE_SIZE;
        let found = &self.shared[shared.id.0 as usize].parts[part_of(page)];
        if let Part::Huge(first) = *found
            && shared.fits_huge(area, region)
            && matches!(self.process(pid).space.entry(region), Entry::None)
        {
            let table = self.table(pid)?;
            self.map_shared_huge(pid, region, first, table, Bits::ALL);
            return Some((PageSize::Huge, self.costs.fault));
        }
        let mut took = self.costs.fault;
        let frame = match found.frame(place_of(page)) {
            Some(frame) => frame,
            None => {
                took += self.costs.zero_page;
                self.add_shared_page(shared.id, page, pid)?
            }
        };
        self.need_base(pid, region)?;
        if let Some(Entry::Base(pages)) = self.process_mut(pid).space.entry_mut(region) {
            pages.map(offset_of(address), frame);
            self.memory.share(frame);
        }
        self.debug_check_mappings(frame);
        Some((PageSize::Base, took))
    }

    fn add_shared_page(&mut self, id: SharedId, page: u64, pid: Pid) -> Option<Frame> {
        let owner = Owner::new(holder_of(id), page);
        let (frame, _) = self.allocate(Pages::Base(owner), self.node_of(pid), false);
        let frame = frame?;
        self.shared[id.0 as usize].relocated(page, frame);
        Some(frame)
    }

    fn map_shared_huge(
        &mut self,
        pid: Pid,
        region: Region,
        frame: Frame,
        table: Frame,
        filled: Bits,
    ) {
        self.memory.share_huge(frame);
        self.set_huge(
            pid,
            region,
            HugePage {
                frame,
                marks: Marks::SET,
                filled,
                protected: false,
                table,
            },
        );
        self.debug_check_mappings(frame);
    }

    /// Promotes a region that a process maps of shared memory. What came of it, and the cycles that it took.
    pub(super) fn promote_shared(
        &mut self,
        pid: Pid,
        region: Region,
        area: &Area,
        shared: Shared,
    ) -> Done {
        let mapped = match self.process(pid).space.entry(region) {
            Entry::Huge(_) => return (Outcome::AlreadySo, 0),
            Entry::Base(pages) => u64::from(pages.mapped()),
            Entry::None => 0,
        };
        if mapped == 0 || area.advice == Advice::NoHuge || !shared.fits_huge(area, region) {
            return (Outcome::Failed(Cause::NotEligible), 0);
        }
        let page = (region.start() - shared.base) / BASE_PAGE_SIZE;
        let (made, took) = match self.shared[shared.id.0 as usize].parts[part_of(page)] {
            // Another process has had it made huge.
            Part::Huge(first) => (Some((first, Bits::ALL)), self.costs.fault),
            Part::Base(_) => self.collapse_shared(pid, shared.id, page),
        };
        let Some((first, filled)) = made else {
            return (Outcome::Failed(Cause::NoMemory), took);
        };
        let Some(pages) = self.take_base(pid, region) else {
            return (Outcome::Failed(Cause::NotEligible), took);
        };
        for (_, frame) in pages.pages() {
            self.memory.release(frame);
        }
        self.map_shared_huge(pid, region, first, pages.table, filled);
        let done = Outcome::Done {
            resident_before: mapped * BASE_PAGE_SIZE,
            resident_after: HUGE_PAGE_SIZE,
        };
        (done, took)
    }

    /// Makes the part that begins with a page huge: what it has is copied, the rest zeroed, and nobody maps the old pages any more
    /// but, with no page in it, the process that wants it. The huge page, with what was written to, if one was to be had; and the
    /// cycles that took.
    fn collapse_shared(
        &mut self,
        pid: Pid,
        id: SharedId,
        page: u64,
    ) -> (Option<(Frame, Bits)>, u64) {
        let owner = Owner::new(holder_of(id), page);
        let (first, waited) = self.allocate(Pages::Huge(owner), self.node_of(pid), true);
        let Some(first) = first else {
            return (None, waited);
        };
        let part = std::mem::replace(
            &mut self.shared[id.0 as usize].parts[part_of(page)],
            Part::Huge(first),
        );
        let (mut present, mut filled) = (0, Bits::default());
        for place in 0..512 {
            if let Some(old) = part.frame(place) {
                present += 1;
                if self.unmap_shared(id, page + place as u64, old, pid) {
                    filled.set(place);
                }
                self.memory.release(old);
            }
        }
        self.counters.bytes_copied += present * BASE_PAGE_SIZE;
        let moving = present * self.costs.copy_page + (512 - present) * self.costs.zero_page;
        (Some((first, filled)), waited + self.costs.collapse + moving)
    }

    /// Has nobody map a page of shared memory. Page tables that are empty then are freed, so that an entry can map what comes
    /// (`retract_page_tables`), but for that of the process that goes on with it. Whether somebody wrote to the page.
    fn unmap_shared(&mut self, id: SharedId, page: u64, frame: Frame, keeps: Pid) -> bool {
        let mappers: Vec<_> = self.shared[id.0 as usize].mappers_of(page).collect();
        let mut filled = false;
        for (pid, address) in mappers {
            let (region, place) = (Region::containing(address), offset_of(address));
            let Some(Entry::Base(pages)) = self.processes[pid.index()].space.entry_mut(region)
            else {
                continue;
            };
            if pages.frame(place) != Some(frame) {
                continue;
            }
            filled |= pages.filled.get(place);
            pages.unmap(place);
            let is_empty = pages.mapped() == 0;
            self.memory.release(frame);
            if is_empty && pid != keeps {
                self.free_entry(pid, region);
            }
        }
        filled
    }

    /// Replaces the huge page of shared memory that a process alone maps by base pages where it lies. What came of it, and the
    /// cycles that it took. (Linux leaves it to the next touch to map them.)
    pub(super) fn demote_shared(&mut self, pid: Pid, region: Region, shared: Shared) -> Done {
        let Entry::Huge(huge) = self.process(pid).space.entry(region) else {
            return (Outcome::AlreadySo, 0);
        };
        let first = huge.frame;
        let page = (region.start() - shared.base) / BASE_PAGE_SIZE;
        // It, and the memory itself.
        let mut parts = (0..512).map(|place| Frame::in_block(first.block_index(), place));
        if parts.any(|part| self.memory.mappings(part) > 2) {
            return (Outcome::Failed(Cause::Busy), 0);
        }
        self.split_in_place(pid, region);
        self.split_shared(shared.id, page, first);
        let done = Outcome::Done {
            resident_before: HUGE_PAGE_SIZE,
            resident_after: HUGE_PAGE_SIZE,
        };
        (done, self.costs.split)
    }

    /// Shared memory has base pages where it had a huge one that no process maps whole.
    pub(super) fn split_shared(&mut self, id: SharedId, page: u64, first: Frame) {
        let mut frames = [NONE; 512];
        for (frame, number) in frames.iter_mut().zip(first.number()..) {
            *frame = number;
        }
        self.shared[id.0 as usize].parts[part_of(page)] = Part::Base(Box::new(frames));
        self.memory.split_mapping(first);
    }
}

/// Shared memory, of so many, whose page an owner names.
fn shared_of(count: usize, owner: Owner) -> Option<SharedId> {
    let number = (PageCache::HOLDER - 1).checked_sub(owner.holder())?;
    ((number as usize) < count).then_some(SharedId(number))
}

/// Who may map a page, and at which address (`rmap_walk`).
pub(super) fn mappers<'a>(
    families: &'a super::Families,
    shared: &'a [SharedMemory],
    owner: Owner,
) -> impl Iterator<Item = (Pid, u64)> + 'a {
    let memory = shared_of(shared.len(), owner).map(|id| &shared[id.0 as usize]);
    let family = memory
        .is_none()
        .then(|| families.of(Pid(owner.holder())))
        .into_iter()
        .flatten();
    let page = owner.page();
    family.map(move |pid| (pid, page * BASE_PAGE_SIZE)).chain(
        memory
            .into_iter()
            .flat_map(move |memory| memory.mappers_of(page)),
    )
}
