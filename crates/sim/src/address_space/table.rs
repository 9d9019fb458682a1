//! Page tables: what maps each region, with Accessed bits, and with what the simulation knows beyond them.

use crate::physical::Frame;

use super::bits::Bits;

/// The frame number that stands for no page.
const NONE: u32 = u32::MAX;

/// The page tables of one span: a PMD table and what it leads to.
#[derive(Clone, Debug)]
pub(crate) struct SpanTable {
    /// The giant page that maps all of it. Its parts stay noted below, as huge pages.
    pub(crate) giant: Option<Marks>,
    /// Each region, by its place in the span.
    pub(crate) regions: Box<[Entry]>,
    /// Where the table itself lies.
    pub(crate) table: Frame,
}

impl SpanTable {
    pub(crate) fn new(table: Frame) -> Self {
        SpanTable {
            giant: None,
            regions: (0..512).map(|_| Entry::None).collect(),
            table,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.regions
            .iter()
            .all(|entry| matches!(entry, Entry::None))
    }
}

/// What maps a region.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    None,
    Base(Box<BasePages>),
    Huge(Box<HugePage>),
}

/// Whether a larger page was accessed: since a manager looked at the process last, and since one looked at physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) accessed: bool,
    pub(crate) young: bool,
}

impl Marks {
    pub(crate) const SET: Marks = Marks {
        accessed: true,
        young: true,
    };
}

/// A region that base pages map.
#[derive(Clone, Debug)]
pub(crate) struct BasePages {
    frames: [u32; 512],
    /// The Accessed bits, for whoever looks at processes.
    pub(crate) accessed: Bits,
    /// The same for whoever looks at physical memory, as `PG_young` keeps the two apart in Linux.
    pub(crate) young: Bits,
    /// Pages that the process wrote something other than zeros to.
    pub(crate) filled: Bits,
    /// Pages that a write faults on, since a fork: another process may map them, too.
    pub(crate) protected: Bits,
    mapped: u16,
    /// Where the PTE table itself lies.
    pub(crate) table: Frame,
}

impl BasePages {
    pub(crate) fn new(table: Frame) -> Self {
        BasePages {
            frames: [NONE; 512],
            accessed: Bits::default(),
            young: Bits::default(),
            filled: Bits::default(),
            protected: Bits::default(),
            mapped: 0,
            table,
        }
    }

    pub(crate) fn frame(&self, place: usize) -> Option<Frame> {
        let number = self.frames[place];
        (number != NONE).then(|| Frame::new(number))
    }

    /// Whether the pages of places from one to before another are all mapped. Not so where there are
    /// no such places.
    pub(crate) fn are_mapped(&self, from: usize, to: usize) -> bool {
        let frames = self.frames.get(from..to);
        frames.is_some_and(|frames| frames.iter().all(|&frame| frame != NONE))
    }

    /// Base pages that are mapped, 0 to 512.
    pub(crate) fn mapped(&self) -> u16 {
        self.mapped
    }

    /// Whether one of the pages that are mapped can be written to without a fault.
    pub(crate) fn is_writable(&self) -> bool {
        self.protected.count() < self.mapped
    }

    /// Maps a page that was not mapped.
    pub(crate) fn map(&mut self, place: usize, frame: Frame) {
        debug_assert_eq!(self.frames[place], NONE);
        self.frames[place] = frame.number();
        self.mapped += 1;
    }

    /// A page lies elsewhere now.
    pub(crate) fn moved(&mut self, place: usize, frame: Frame) {
        debug_assert_ne!(self.frames[place], NONE);
        self.frames[place] = frame.number();
    }

    /// Those pages that lay in one block lie in another now, each as far from its start. Whether there were some.
    pub(crate) fn moved_block(&mut self, from: Frame, to: Frame) -> bool {
        let mut found = false;
        for frame in &mut self.frames {
            let offset = frame.checked_sub(from.number());
            if let Some(offset) = offset.filter(|offset| *offset < 512) {
                *frame = to.number() + offset;
                found = true;
            }
        }
        found
    }

    /// Forgets a page, and where it lay.
    pub(crate) fn unmap(&mut self, place: usize) -> Option<Frame> {
        let frame = self.frame(place)?;
        self.frames[place] = NONE;
        self.mapped -= 1;
        self.accessed.clear(place);
        self.young.clear(place);
        self.filled.clear(place);
        self.protected.clear(place);
        Some(frame)
    }

    /// The pages that are mapped: place and frame.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (usize, Frame)> + '_ {
        (0..512).filter_map(|place| Some((place, self.frame(place)?)))
    }
}

/// A region that a huge page maps.
#[derive(Clone, Debug)]
pub(crate) struct HugePage {
    /// Its first frame.
    pub(crate) frame: Frame,
    pub(crate) marks: Marks,
    /// Base pages in it that hold something other than zeros.
    pub(crate) filled: Bits,
    /// Whether a write faults, since a fork: another process may map it, too. Never so for a part of a giant page.
    pub(crate) protected: bool,
    /// Where the PTE table lies that is kept for a split (`pgtable_trans_huge_deposit`).
    pub(crate) table: Frame,
}
