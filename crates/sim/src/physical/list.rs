//! Puts areas into free lists and takes them out: what begins at a frame, the links, the counts.

use super::PhysicalMemory;
use super::block::{Contents, FrameKind, Links, NONE};
use super::frame::Frame;
use super::free_list::BLOCK_ORDER;
use super::mobility::Mobility;

impl PhysicalMemory {
    /// The order of the free area that begins at a frame.
    pub(super) fn free_order(&self, first: Frame) -> Option<u8> {
        let block = self.blocks.get(first.block_index() as usize)?;
        match &block.contents {
            Contents::Free { order } if first.offset() == 0 => Some(*order),
            Contents::Split(frames) => match frames.kind(first.offset()) {
                FrameKind::Free(order) => Some(order),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn add_to_head(&mut self, first: Frame, order: u8, mobility: Mobility) {
        let zone = self.zone_of(first.block_index());
        let next = self.zones[zone].lists.list(order, mobility).first;
        self.begin_free(
            first,
            order,
            Links {
                previous: NONE,
                next,
            },
        );
        if next != NONE {
            self.relink(Frame::new(next), |links| links.previous = first.number());
        }
        let list = self.zones[zone].lists.list_mut(order, mobility);
        list.first = first.number();
        if next == NONE {
            list.last = first.number();
        }
        self.count_in(zone, order, mobility);
        self.debug_check_row(zone, order, mobility, &[NONE, first.number(), next]);
    }

    pub(super) fn add_to_tail(&mut self, first: Frame, order: u8, mobility: Mobility) {
        let zone = self.zone_of(first.block_index());
        let previous = self.zones[zone].lists.list(order, mobility).last;
        self.begin_free(
            first,
            order,
            Links {
                previous,
                next: NONE,
            },
        );
        if previous != NONE {
            self.relink(Frame::new(previous), |links| links.next = first.number());
        }
        let list = self.zones[zone].lists.list_mut(order, mobility);
        list.last = first.number();
        if previous == NONE {
            list.first = first.number();
        }
        self.count_in(zone, order, mobility);
        self.debug_check_row(zone, order, mobility, &[previous, first.number(), NONE]);
    }

    /// Takes a free area out of its list. What it is then, the caller says.
    pub(super) fn remove(&mut self, first: Frame, order: u8, mobility: Mobility) {
        let zone = self.zone_of(first.block_index());
        let Links { previous, next } = self.links(first);
        if previous != NONE {
            self.relink(Frame::new(previous), |links| links.next = next);
        }
        if next != NONE {
            self.relink(Frame::new(next), |links| links.previous = previous);
        }
        let list = self.zones[zone].lists.list_mut(order, mobility);
        if previous == NONE {
            list.first = next;
        }
        if next == NONE {
            list.last = previous;
        }
        list.count -= 1;
        if mobility != Mobility::Isolated {
            self.zones[zone].free -= 1 << order;
        }
        self.end_free(first, order);
        self.debug_check_row(zone, order, mobility, &[previous, next]);
    }

    fn count_in(&mut self, zone: usize, order: u8, mobility: Mobility) {
        let zone = &mut self.zones[zone];
        zone.lists.list_mut(order, mobility).count += 1;
        if mobility != Mobility::Isolated {
            zone.free += 1 << order;
        }
    }

    fn begin_free(&mut self, first: Frame, order: u8, links: Links) {
        let index = first.block_index() as usize;
        let block = &mut self.blocks[index];
        if order < BLOCK_ORDER {
            let frames = block.split();
            frames.set_kind(first.offset(), FrameKind::Free(order));
            frames.set_links(first.offset(), links);
            return;
        }
        block.contents = Contents::Free { order };
        block.links = links;
        if order > BLOCK_ORDER {
            self.blocks[index + 1].contents = Contents::FreeTail;
        }
    }

    fn end_free(&mut self, first: Frame, order: u8) {
        let index = first.block_index() as usize;
        let block = &mut self.blocks[index];
        if order < BLOCK_ORDER {
            block.split().set_kind(first.offset(), FrameKind::Tail);
            return;
        }
        block.contents = Contents::Taken;
        if order > BLOCK_ORDER {
            self.blocks[index + 1].contents = Contents::Taken;
        }
    }

    /// The links of a free area.
    pub(super) fn links(&self, first: Frame) -> Links {
        let block = &self.blocks[first.block_index() as usize];
        match block.frames() {
            Some(frames) => frames.links(first.offset()),
            None => block.links,
        }
    }

    fn relink(&mut self, first: Frame, change: impl FnOnce(&mut Links)) {
        let block = &mut self.blocks[first.block_index() as usize];
        match &mut block.contents {
            Contents::Split(frames) => {
                let mut links = frames.links(first.offset());
                change(&mut links);
                frames.set_links(first.offset(), links);
            }
            _ => change(&mut block.links),
        }
    }
}
