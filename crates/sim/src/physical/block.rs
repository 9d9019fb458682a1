//! What is known of a block of physical memory, and of its frames where it is split.
//!
//! A block that is wholly free, or wholly one page, needs no record of its frames. So memory of 4 TB costs 100 MB as long as
//! nobody splits it.

use std::time::Duration;

use mega_core::compaction::PAGES_PER_BLOCK;

use super::frame::{FRAMES_PER_BLOCK, Owner};
use super::mappings::Mappings;
use super::mobility::Mobility;

/// The link that leads nowhere.
pub(super) const NONE: u32 = u32::MAX;

/// What is in a block.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    /// It begins a free area of this order, 9 or 10.
    Free { order: u8 },
    /// It is the second half of a free area of order 10.
    FreeTail,
    /// One huge page.
    Huge(Owner),
    /// It begins pages of the kernel's own, of order 9 or 10.
    Kernel { order: u8 },
    /// It is the second half of such pages of order 10.
    KernelTail,
    /// Smaller areas, free and in use.
    Split(Box<Frames>),
    /// Taken out of the free lists; what comes into it is said before anybody looks.
    Taken,
}

/// Neighbours in a free list, by the number of their first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Links {
    pub(super) const NONE: Links = Links {
        previous: NONE,
        next: NONE,
    };
}

/// A block.
#[derive(Clone, Debug)]
pub(super) struct BlockRecord {
    pub(super) contents: Contents,
    /// Where it stands in its free list, if it begins a free area.
    pub(super) links: Links,
    /// The kind of pages that it is for.
    pub(super) mobility: Mobility,
    /// The place of its zone among the zones.
    pub(super) zone: u8,
    pub(super) free: u16,
    pub(super) movable: u16,
    pub(super) unmovable: u16,
    /// When a page in it was last mapped anew.
    pub(super) mapped_at: Duration,
    /// What maps its pages beyond the first entry of each; `None` where that was never so.
    pub(super) mappings: Option<Box<Mappings>>,
}

impl BlockRecord {
    pub(super) fn new(zone: u8) -> Self {
        BlockRecord {
            contents: Contents::Taken,
            links: Links::NONE,
            mobility: Mobility::Movable,
            zone,
            free: PAGES_PER_BLOCK,
            movable: 0,
            unmovable: 0,
            mapped_at: Duration::ZERO,
            mappings: None,
        }
    }

    /// The records of its frames. `None` where it is not split.
    pub(super) fn frames(&self) -> Option<&Frames> {
        match &self.contents {
            Contents::Split(frames) => Some(frames),
            _ => None,
        }
    }

    /// The records of its frames, made where there are none yet.
    pub(super) fn split(&mut self) -> &mut Frames {
        if !matches!(self.contents, Contents::Split(_)) {
            self.contents = Contents::Split(Box::default());
        }
        match &mut self.contents {
            Contents::Split(frames) => frames,
            _ => unreachable!("it was split just now"),
        }
    }
}

/// What begins at a frame of a split block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Nothing: it belongs to what began before it.
    Tail,
    /// A free area of this order, 0 to 8.
    Free(u8),
    /// A movable base page.
    Movable,
    /// Pages of the kernel's own, of this order, 0 to 8.
    Kernel(u8),
}

/// The records of the frames of a split block: 9 bytes for each.
///
/// A frame's word holds the links of a free area, or the owner of a movable page.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    words: [u64; FRAMES_PER_BLOCK],
    kinds: [u8; FRAMES_PER_BLOCK],
}

const TAIL: u8 = 0;
const FREE: u8 = 0x10;
const MOVABLE: u8 = 0x20;
const KERNEL: u8 = 0x30;
const ORDER: u8 = 0x0f;

impl Default for Frames {
    fn default() -> Self {
        Frames {
            words: [0; FRAMES_PER_BLOCK],
            kinds: [TAIL; FRAMES_PER_BLOCK],
        }
    }
}

impl Frames {
    pub(super) fn kind(&self, offset: usize) -> FrameKind {
        let kind = self.kinds[offset];
        match kind & !ORDER {
            FREE => FrameKind::Free(kind & ORDER),
            MOVABLE => FrameKind::Movable,
            KERNEL => FrameKind::Kernel(kind & ORDER),
            _ => FrameKind::Tail,
        }
    }

    pub(super) fn set_kind(&mut self, offset: usize, kind: FrameKind) {
        self.kinds[offset] = match kind {
            FrameKind::Tail => TAIL,
            FrameKind::Free(order) => FREE | order,
            FrameKind::Movable => MOVABLE,
            FrameKind::Kernel(order) => KERNEL | order,
        };
    }

    pub(super) fn owner(&self, offset: usize) -> Owner {
        Owner::from_word(self.words[offset])
    }

    pub(super) fn set_owner(&mut self, offset: usize, owner: Owner) {
        self.words[offset] = owner.to_word();
    }

    pub(super) fn links(&self, offset: usize) -> Links {
        let word = self.words[offset];
        #[allow(clippy::cast_possible_truncation)] // each half of the word is one link
        let (previous, next) = ((word >> 32) as u32, word as u32);
        Links { previous, next }
    }

    pub(super) fn set_links(&mut self, offset: usize, links: Links) {
        self.words[offset] = u64::from(links.previous) << 32 | u64::from(links.next);
    }

    /// What begins in the block, in order: its place, what it is and how many frames it has.
    pub(super) fn areas(&self) -> impl Iterator<Item = (usize, FrameKind, usize)> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let offset = next;
            if offset >= FRAMES_PER_BLOCK {
                return None;
            }
            let kind = self.kind(offset);
            let frames = match kind {
                FrameKind::Free(order) | FrameKind::Kernel(order) => 1 << order,
                FrameKind::Movable | FrameKind::Tail => 1,
            };
            next += frames;
            Some((offset, kind, frames))
        })
    }
}
