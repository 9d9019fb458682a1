//! The buddy algorithm: an area is split in halves until it fits, and freed halves become one again.

use super::PhysicalMemory;
use super::block::NONE;
use super::frame::Frame;
use super::free_list::{BLOCK_ORDER, LARGEST_ORDER};
use super::mobility::Mobility;

impl PhysicalMemory {
    /// Takes the first area of the least order that is large enough (`__rmqueue_smallest`).
    pub(super) fn take_smallest(
        &mut self,
        zone: usize,
        order: u8,
        mobility: Mobility,
    ) -> Option<Frame> {
        (order..=LARGEST_ORDER).find_map(|found| {
            let first = self.zones[zone].lists.list(found, mobility).first;
            (first != NONE).then(|| {
                let first = Frame::new(first);
                self.remove(first, found, mobility);
                self.expand(first, order, found, mobility);
                first
            })
        })
    }

    /// Gives back the upper halves of an area of order `high` until `low` is left (`expand`).
    pub(super) fn expand(&mut self, first: Frame, low: u8, high: u8, mobility: Mobility) {
        for order in (low..high).rev() {
            self.add_to_head(first.plus(1 << order), order, mobility);
        }
    }

    /// Gives an area back and joins it with its buddies as far as they are free (`__free_one_page`).
    pub(super) fn give_back(&mut self, first: Frame, order: u8, mobility: Mobility) {
        let (mut first, mut order) = (first, order);
        while order < LARGEST_ORDER {
            let buddy = first.buddy(order);
            if !self.is_free_buddy(first, buddy, order) {
                break;
            }
            let of_buddy = self.mobility_of(buddy);
            if order >= BLOCK_ORDER
                && of_buddy != mobility
                && !(of_buddy.is_mergeable() && mobility.is_mergeable())
            {
                break;
            }
            self.remove(buddy, order, of_buddy);
            if of_buddy != mobility {
                // So that what `expand` gives back later lands in the right list.
                self.blocks[buddy.block_index() as usize].mobility = mobility;
            }
            first = first.aligned(order + 1);
            order += 1;
        }
        if self.will_merge(first, order) {
            self.add_to_tail(first, order, mobility);
        } else {
            self.add_to_head(first, order, mobility);
        }
    }

    fn is_free_buddy(&self, first: Frame, buddy: Frame, order: u8) -> bool {
        self.free_order(buddy) == Some(order)
            && self.zone_of(buddy.block_index()) == self.zone_of(first.block_index())
    }

    /// Whether the next larger buddy is free: then this area is used last, in the hope that it joins that one
    /// (`buddy_merge_likely`).
    fn will_merge(&self, first: Frame, order: u8) -> bool {
        if order >= LARGEST_ORDER - 1 {
            return false;
        }
        let larger = first.aligned(order + 1);
        let buddy = larger.buddy(order + 1);
        self.is_free_buddy(first, buddy, order + 1)
    }

    pub(super) fn mobility_of(&self, frame: Frame) -> Mobility {
        self.blocks[frame.block_index() as usize].mobility
    }
}
