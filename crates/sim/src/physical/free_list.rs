//! The free lists of a zone: one for each order and mobility, linked through the areas themselves.

use super::block::NONE;
use super::mobility::Mobility;

/// The largest order of a free area: 4 MiB (`MAX_PAGE_ORDER` of Linux).
pub const LARGEST_ORDER: u8 = 10;
/// The order of a block (`pageblock_order` of Linux).
pub const BLOCK_ORDER: u8 = 9;
/// Orders that there are.
pub(super) const ORDERS: usize = LARGEST_ORDER as usize + 1;

/// One list, by the first frames of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeList {
    pub(super) first: u32,
    pub(super) last: u32,
    /// Areas in it.
    pub(super) count: u64,
}

impl FreeList {
    const EMPTY: FreeList = FreeList {
        first: NONE,
        last: NONE,
        count: 0,
    };
}

/// All lists of a zone.
#[derive(Clone, Debug)]
pub(super) struct FreeLists([[FreeList; Mobility::COUNT]; ORDERS]);

impl Default for FreeLists {
    fn default() -> Self {
        FreeLists([[FreeList::EMPTY; Mobility::COUNT]; ORDERS])
    }
}

impl FreeLists {
    pub(super) fn list(&self, order: u8, mobility: Mobility) -> &FreeList {
        &self.0[usize::from(order)][mobility as usize]
    }

    pub(super) fn list_mut(&mut self, order: u8, mobility: Mobility) -> &mut FreeList {
        &mut self.0[usize::from(order)][mobility as usize]
    }

    /// Base pages in the lists of a kind.
    pub(super) fn pages(&self, mobility: Mobility) -> u64 {
        let areas = self.0.iter().map(|lists| lists[mobility as usize].count);
        (0..).zip(areas).map(|(order, areas)| areas << order).sum()
    }

    /// Free areas of each order, of all kinds.
    pub(super) fn areas(&self) -> [u64; ORDERS] {
        self.0
            .map(|lists| lists.iter().map(|list| list.count).sum())
    }
}
