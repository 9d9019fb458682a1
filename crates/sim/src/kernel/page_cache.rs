//! The page cache: pages of files, which the kernel reclaims when memory is short.

use std::collections::VecDeque;

use super::{Kernel, Pid};
use crate::physical::{Frame, Owner, Pages};

/// The frame number that stands for no page.
const NONE: u32 = u32::MAX;

/// Pages of one file, by their number. Reclaim goes through them in the order in which they came, and gives those that were
/// used since a second chance.
#[derive(Clone, Debug, Default)]
pub(super) struct PageCache {
    frames: Vec<u32>,
    used: Vec<bool>,
    queue: VecDeque<u32>,
    /// Pages that are there.
    count: u64,
}

impl PageCache {
    /// Who its pages belong to.
    pub(super) const HOLDER: u32 = Owner::HOLDERS - 1;

    pub(super) fn relocated(&mut self, page: u64, to: Frame) {
        let place = usize::try_from(page).unwrap_or(usize::MAX);
        if let Some(frame) = self.frames.get_mut(place) {
            *frame = to.number();
        }
    }

    /// Forgets the page that is to go next, and where it lay.
    pub(super) fn evict(&mut self) -> Option<Frame> {
        while let Some(page) = self.queue.pop_front() {
            let place = page as usize;
            if std::mem::take(&mut self.used[place]) {
                self.queue.push_back(page);
                continue;
            }
            let frame = std::mem::replace(&mut self.frames[place], NONE);
            if frame != NONE {
                self.count -= 1;
                return Some(Frame::new(frame));
            }
        }
        None
    }

    /// The pages that are there: number and frame.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, Frame)> + '_ {
        let there = (0..).zip(&self.frames).filter(|(_, frame)| **frame != NONE);
        there.map(|(page, &frame)| (page, Frame::new(frame)))
    }
}

impl Kernel {
    /// Reads a page of the file that a simulation has. Whether it is in the page cache afterwards: not where memory is used
    /// up.
    pub fn read_file(&mut self, page: u32, node: u32) -> bool {
        self.debug_check_sometimes();
        let place = page as usize;
        if self.cache.frames.len() <= place {
            self.cache.frames.resize(place + 1, NONE);
            self.cache.used.resize(place + 1, false);
        }
        if self.cache.frames[place] != NONE {
            self.cache.used[place] = true;
            return true;
        }
        let owner = Owner::new(PageCache::HOLDER, page.into());
        let (Some(frame), _) = self.allocate(Pages::Base(owner), node, false) else {
            return false;
        };
        self.cache.frames[place] = frame.number();
        self.cache.count += 1;
        self.cache.queue.push_back(page);
        true
    }

    /// Frees a page of the file, if it is there.
    pub fn drop_file_page(&mut self, page: u32) {
        self.debug_check_sometimes();
        let Some(frame) = self.cache.frames.get_mut(page as usize) else {
            return;
        };
        let frame = std::mem::replace(frame, NONE);
        if frame != NONE {
            self.cache.count -= 1;
            self.memory.free(Frame::new(frame));
        }
    }

    /// Base pages of the page cache.
    #[must_use]
    pub const fn cached(&self) -> u64 {
        self.cache.count
    }

    /// The node that a process allocates on.
    pub(super) fn node_of(&self, pid: Pid) -> u32 {
        self.process(pid).node
    }
}
