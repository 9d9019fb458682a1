//! What a touch costs: the TLBs, the walk on a miss, and the caches that data and page tables share.
//!
//! Walks are native, or nested as in a guest. A walk reads an entry of each level that no page-walk cache holds, each through
//! the caches of data; tables are taken to lie in one piece, so that neighbouring pages share lines. Cycles are those of one
//! touch that waits for all of it: out-of-order execution, several walks at once and prefetching are not modelled, so page
//! walks weigh more here than they do in programs whose touches do not depend on each other.

mod calibration;
mod expected;
mod processor;
mod set_associative;

use mega_core::PageSize;

pub use calibration::{calibrate, touch_time};
pub use expected::InUse;
pub use processor::{
    Cache, GiantL2, HASWELL, PROCESSORS, Processor, SAPPHIRE_RAPIDS, SKYLAKE_SP, WalkCaches, ZEN_2,
    ZEN_5,
};

use calibration::scattered;
use set_associative::SetAssociative;

/// Bits of an address that each level of page tables takes.
const LEVEL_BITS: u32 = 9;
/// Bits of an address within a base page.
const PAGE_BITS: u32 = 12;
/// Levels of x86-64 page tables.
const LEVELS: u32 = 4;
/// The level of page directories, 0 for the root.
const DIRECTORY: u32 = 2;
/// Marks the tags of huge pages in the TLB that they share with base pages.
const HUGE_TAG: u64 = 1 << 62;
/// Marks those of entries of a page directory there, of the program's and of the host's.
const DIRECTORY_TAGS: [u64; 2] = [1 << 61, 1 << 61 | 1 << 60];
/// Entries of a table in a line of 64 bytes.
const ENTRIES_PER_LINE: u64 = 8;
/// Of base pages that are touched in a row, so many are looked up: those of one line of entries. What they take is what the others
/// take, but for the entry of the table above.
const ASKED_IN_ROW: u64 = ENTRIES_PER_LINE;

/// Where addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// On the machine itself.
    Native,
    /// In a guest, whose memory the host maps by pages of that size.
    Nested(PageSize),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches.
    pub touches: u64,
    /// Of them, those that missed the L1 TLB.
    pub l1_misses: u64,
    /// Of them, those that missed both.
    pub walks: u64,
    /// Page table entries that walks read.
    pub reads: u64,
    /// Cycles of translation: L2 hits and walks.
    pub translation: u64,
    /// All cycles of touches.
    pub cycles: u64,
}

impl Counts {
    /// Both together.
    pub(crate) fn plus(self, other: &Counts) -> Counts {
        Counts {
            touches: self.touches + other.touches,
            l1_misses: self.l1_misses + other.l1_misses,
            walks: self.walks + other.walks,
            reads: self.reads + other.reads,
            translation: self.translation + other.translation,
            cycles: self.cycles + other.cycles,
        }
    }
}

/// The memory management of one core.
#[derive(Clone, Debug)]
pub struct Mmu {
    processor: Processor,
    walk: Walk,
    l1: [SetAssociative; 3],
    l2: SetAssociative,
    l2_giant: Option<SetAssociative>,
    /// Of the program's own tables, and of the host's.
    walk_caches: [UpperEntries; 2],
    caches: [SetAssociative; 3],
    counts: Counts,
    /// Rows touched, of each of which a part was looked up.
    rows: u64,
}

/// Where the upper entries of one's tables are kept, as [`WalkCaches`] says.
#[derive(Clone, Debug)]
enum UpperEntries {
    Own([SetAssociative; 3]),
    DirectoriesInL2(SetAssociative),
}

/// Tables whose lines must not be taken for each other's, or for data.
#[derive(Clone, Copy)]
enum Space {
    Data,
    Guest,
    Host,
}

impl Mmu {
    /// A core of a processor, with nothing cached.
    #[must_use]
    pub fn new(processor: &Processor, walk: Walk) -> Self {
        let make = |cache: &Cache| SetAssociative::new(cache.entries, cache.ways);
        let walk_caches = || match &processor.walk_caches {
            WalkCaches::Own(caches) => UpperEntries::Own(caches.each_ref().map(make)),
            WalkCaches::DirectoriesInL2(cache) => UpperEntries::DirectoriesInL2(make(cache)),
        };
        Mmu {
            processor: *processor,
            walk,
            l1: processor.l1.each_ref().map(make),
            l2: make(&processor.l2),
            l2_giant: match &processor.l2_giant {
                GiantL2::Own(cache) => Some(make(cache)),
                GiantL2::AsHuge | GiantL2::None => None,
            },
            walk_caches: [walk_caches(), walk_caches()],
            caches: processor.caches.each_ref().map(|(cache, _)| make(cache)),
            counts: Counts::default(),
            rows: 0,
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts from zero, with all that is cached.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }

    /// Touches an address that a page of that size maps. The cycles it took.
    pub fn touch(&mut self, address: u64, page_size: PageSize) -> u64 {
        let translation = self.translate(address, page_size);
        let data = self.read_line(Space::Data, 0, address / 64);
        self.counts.touches += 1;
        self.counts.translation += translation;
        self.counts.cycles += translation + data;
        translation + data
    }

    /// Touches so many base pages of one region in a row, which pages of that size map. Only the eight of one line of entries are looked up,
    /// of another line each time, so that what a TLB does not hold of all of them is not found in it: each of the others takes what these
    /// took on average. Where a larger page maps them, the first one's translation does for all.
    pub fn touch_row(&mut self, address: u64, pages: u64, page_size: PageSize) -> u64 {
        let before = self.counts;
        let asked = pages.min(ASKED_IN_ROW);
        let lines = (pages / ASKED_IN_ROW).max(1);
        self.rows += 1;
        let first = scattered(self.rows) % lines * ASKED_IN_ROW;
        for page in first..first + asked {
            self.touch(address + page * PageSize::Base.bytes(), page_size);
        }
        let others = |asked_took: u64| asked_took * (pages - asked) / asked.max(1);
        let counts = &mut self.counts;
        let data = |counts: &Counts| counts.cycles - counts.translation;
        let mut cycles = others(data(counts) - data(&before));
        if page_size == PageSize::Base {
            let translation = others(counts.translation - before.translation);
            counts.l1_misses += others(counts.l1_misses - before.l1_misses);
            counts.walks += others(counts.walks - before.walks);
            counts.reads += others(counts.reads - before.reads);
            counts.translation += translation;
            cycles += translation;
        }
        counts.touches += pages - asked;
        counts.cycles += cycles;
        counts.cycles - before.cycles
    }

    fn translate(&mut self, address: u64, page_size: PageSize) -> u64 {
        let number = address / page_size.bytes();
        let l1 = if self.processor.shares_l1 {
            0
        } else {
            page_size as usize
        };
        // Pages of different sizes have tags of their own where they share.
        let tag = number << 2 | page_size as u64;
        let l1_tag = if self.processor.shares_l1 {
            tag
        } else {
            number
        };
        if self.l1[l1].take(l1_tag) {
            return 0;
        }
        self.counts.l1_misses += 1;
        if self.is_in_l2(address, number, page_size) {
            return self.processor.l2_hit;
        }
        self.counts.walks += 1;
        self.processor.l2_hit + self.walk(address, page_size)
    }

    fn is_in_l2(&mut self, address: u64, number: u64, page_size: PageSize) -> bool {
        match (page_size, self.processor.l2_giant) {
            // The set is chosen by the page's number, as its low bits in the tag.
            (PageSize::Base, _) => self.l2.take(number),
            (PageSize::Huge, _) => self.l2.take(number | HUGE_TAG),
            (PageSize::Giant, GiantL2::AsHuge) => {
                self.l2.take((address / PageSize::Huge.bytes()) | HUGE_TAG)
            }
            (PageSize::Giant, _) => match &mut self.l2_giant {
                Some(giant) => giant.take(number),
                None => false,
            },
        }
    }

    /// Reads the tables of a page; the cycles.
    fn walk(&mut self, address: u64, page_size: PageSize) -> u64 {
        let levels = levels(page_size);
        let mut took = 0;
        for level in self.first_level(0, address, levels)..levels {
            let entry = address >> shift(level);
            if let Walk::Nested(host) = self.walk {
                // The table lies at a guest address, which the host translates.
                took += self.host_walk(table_address(level, entry), host);
            }
            took += self.read_entry(Space::Guest, level, entry);
        }
        if let Walk::Nested(host) = self.walk {
            took += self.host_walk(address, host);
        }
        took
    }

    /// The host's translation of a guest's address.
    fn host_walk(&mut self, address: u64, page_size: PageSize) -> u64 {
        let levels = levels(page_size);
        (self.first_level(1, address, levels)..levels)
            .map(|level| self.read_entry(Space::Host, level, address >> shift(level)))
            .sum()
    }

    /// The first level that has to be read, 0 for the root: the page-walk caches hold those above. Entries that map a page are
    /// not in them.
    fn first_level(&mut self, whose: usize, address: u64, levels: u32) -> u32 {
        let above = levels.saturating_sub(1).min(3);
        let mut first = 0;
        for level in 0..above {
            if self.is_kept(whose, level, address >> shift(level)) {
                first = level + 1;
            }
        }
        first
    }

    /// Whether an upper entry need not be read. It is kept afterwards.
    fn is_kept(&mut self, whose: usize, level: u32, entry: u64) -> bool {
        match &mut self.walk_caches[whose] {
            UpperEntries::Own(caches) => caches[level as usize].take(entry),
            UpperEntries::DirectoriesInL2(_) if level == DIRECTORY => {
                self.l2.take(entry | DIRECTORY_TAGS[whose])
            }
            // Entries of both levels are there, so the tags say which.
            UpperEntries::DirectoriesInL2(cache) => cache.take(entry << 1 | u64::from(level)),
        }
    }

    fn read_entry(&mut self, space: Space, level: u32, entry: u64) -> u64 {
        self.counts.reads += 1;
        self.read_line(space, level, entry / ENTRIES_PER_LINE)
    }

    /// Reads a line through the caches of data.
    fn read_line(&mut self, space: Space, level: u32, line: u64) -> u64 {
        let tag = line | (space as u64) << 60 | u64::from(level) << 58;
        let mut took = None;
        for (cache, (_, cycles)) in self.caches.iter_mut().zip(self.processor.caches) {
            // Whatever is read comes into all of them.
            if cache.take(tag) && took.is_none() {
                took = Some(cycles);
            }
        }
        took.unwrap_or(self.processor.memory)
    }
}

/// Where the guest keeps an entry of a level: beyond its data, each level's tables in one piece.
const fn table_address(level: u32, entry: u64) -> u64 {
    (1 << 46) | ((level as u64) << 40) | (entry * 8)
}

/// Levels of tables down to a page of that size.
const fn levels(page_size: PageSize) -> u32 {
    match page_size {
        PageSize::Base => LEVELS,
        PageSize::Huge => LEVELS - 1,
        PageSize::Giant => LEVELS - 2,
    }
}

/// Bits of an address below those that choose the entry of a level.
const fn shift(level: u32) -> u32 {
    PAGE_BITS + LEVEL_BITS * (LEVELS - 1 - level)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A processor that caches nothing of a walk.
    fn forgetful() -> Processor {
        let nothing = Cache {
            entries: 0,
            ways: 1,
        };
        Processor {
            walk_caches: WalkCaches::Own([nothing; 3]),
            l2: nothing,
            l1: [nothing; 3],
            l2_giant: GiantL2::None,
            ..SKYLAKE_SP
        }
    }

    /// Trident, section 2: up to 4, 3 and 2 reads natively; 24, 15 and 8 in a guest.
    #[test]
    fn walks_read_as_many_entries_as_the_paper_says() {
        for (size, native, nested) in [
            (PageSize::Base, 4, 24),
            (PageSize::Huge, 3, 15),
            (PageSize::Giant, 2, 8),
        ] {
            for (walk, reads) in [(Walk::Native, native), (Walk::Nested(size), nested)] {
                let mut mmu = Mmu::new(&forgetful(), walk);
                mmu.touch(5 * GIB, size);
                assert_eq!(mmu.counts().reads, reads, "{size:?} {walk:?}");
            }
        }
    }

    /// On AMD's processors pages push out the entries of page directories, and those of the levels above stay.
    #[test]
    fn page_directories_share_the_l2_tlb_with_pages() {
        let mut mmu = Mmu::new(&ZEN_2, Walk::Native);
        let mut reads = |address: u64| {
            let before = mmu.counts().reads;
            mmu.touch(address, PageSize::Base);
            mmu.counts().reads - before
        };
        assert_eq!(reads(GIB), 4);
        assert_eq!(reads(GIB + 4096), 1, "the directory's entry is kept");
        for page in 0..16_384 {
            reads(GIB + (2 << 20) + page * 4096);
        }
        assert_eq!(reads(GIB), 2, "that of its own region is gone");
    }

    /// Touches of so many bytes, spread over them; translation cycles for each, once all is warm.
    fn translation(processor: &Processor, bytes: u64, size: PageSize) -> f64 {
        let mut mmu = Mmu::new(processor, Walk::Native);
        let mut place = 1u64;
        for touch in 0..60_000 {
            if touch == 30_000 {
                mmu.reset_counts();
            }
            place = place
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            mmu.touch(GIB + (place >> 20) % bytes, size);
        }
        let counts = mmu.counts();
        counts.translation as f64 / counts.touches as f64
    }

    #[test]
    fn what_a_tlb_covers_costs_nothing_and_larger_pages_never_cost_more() {
        for processor in PROCESSORS {
            assert_eq!(
                translation(processor, 128 << 10, PageSize::Base),
                0.0,
                "{}",
                processor.name
            );
            assert!(
                translation(processor, 16 << 20, PageSize::Huge) < 0.1,
                "{}",
                processor.name
            );
            for bytes in [64 << 20, GIB, 32 * GIB] {
                let base = translation(processor, bytes, PageSize::Base);
                let huge = translation(processor, bytes, PageSize::Huge);
                assert!(huge < base, "{}: {bytes} {huge} {base}", processor.name);
            }
        }
    }

    /// Rows that are looked up in part only take what they take if all is looked up: within a tenth, of more than the caches hold. What
    /// is looked up fills them 64 times as slowly, so what they would hold takes too long at first.
    #[test]
    fn a_part_of_a_row_tells_what_all_of_it_takes() {
        const ROWS: u64 = 64;
        for processor in PROCESSORS {
            for walk in [Walk::Native, Walk::Nested(PageSize::Huge)] {
                for page_size in [PageSize::Base, PageSize::Huge] {
                    let [mut all, mut part] = [0, 1].map(|_| Mmu::new(processor, walk));
                    for region in 0..3 * ROWS {
                        let first = GIB + region % ROWS * PageSize::Huge.bytes();
                        for page in 0..512 {
                            all.touch(first + page * 4096, page_size);
                        }
                        part.touch_row(first, 512, page_size);
                    }
                    let [all, part] = [all, part].map(|mmu| mmu.counts());
                    assert_eq!(part.touches, all.touches);
                    let ratio = part.cycles as f64 / all.cycles as f64;
                    assert!((0.9..1.1).contains(&ratio), "{}: {ratio}", processor.name);
                    for (what, part, all) in [
                        ("misses of the L1 TLB", part.l1_misses, all.l1_misses),
                        ("walks", part.walks, all.walks),
                        ("reads", part.reads, all.reads),
                    ] {
                        let ratio = part as f64 / all.max(1) as f64;
                        let is_near = (0.85..1.15).contains(&ratio) || part == all;
                        assert!(is_near, "{}: {what} {ratio}", processor.name);
                    }
                }
            }
        }
    }

    #[test]
    fn giant_pages_help_where_huge_ones_do_not_reach() {
        let huge = translation(&SKYLAKE_SP, 32 * GIB, PageSize::Huge);
        let giant = translation(&SKYLAKE_SP, 32 * GIB, PageSize::Giant);
        assert!(giant < huge, "{giant} {huge}");
    }

    #[test]
    fn nested_walks_cost_more() {
        let run = |walk| {
            let mut mmu = Mmu::new(&SKYLAKE_SP, walk);
            for page in 0..50_000u64 {
                mmu.touch(page * 7919 % (1 << 24) * 4096, PageSize::Base);
            }
            mmu.counts().translation
        };
        let (native, base, huge) = (
            run(Walk::Native),
            run(Walk::Nested(PageSize::Base)),
            run(Walk::Nested(PageSize::Huge)),
        );
        assert!(native < huge && huge < base, "{native} {huge} {base}");
    }
}
