//! Writes to pages that a fork protected.

use mega_core::{BASE_PAGE_SIZE, PageSize, Region};

use super::{Fault, Kernel, Pid};
use crate::address_space::{Entry, offset_of};
use crate::physical::{Frame, Owner, Pages};

/// Base pages of a region that may be shared where khugepaged, or mega, promotes it (`max_ptes_shared`: half of them).
pub(crate) const MOST_SHARED: u16 = 256;

impl Kernel {
    /// A write to a page that is mapped (`do_wp_page`, `do_huge_pmd_wp_page`). A page that nobody else maps any more becomes
    /// writable. Otherwise a base page is copied; of a huge page base entries map the parts from then on, and one is copied. The
    /// size of the page, and the cycles it took; `None` where nothing is mapped.
    pub(super) fn fault_protected(
        &mut self,
        pid: Pid,
        address: u64,
    ) -> Result<Option<(PageSize, u64)>, Fault> {
        let region = Region::containing(address);
        let mut took = 0;
        if let Some(Entry::Huge(page)) = self.processes[pid.index()].space.entry_mut(region) {
            if !self.memory.is_shared(page.frame) {
                page.protected = false;
                return Ok(Some((PageSize::Huge, self.costs.reuse)));
            }
            self.split_in_place(pid, region);
            self.counters.split_on_write += 1;
            took += self.costs.split_entry;
        }
        let written = self.write_base(pid, address)?;
        Ok(written.map(|cycles| (PageSize::Base, took + cycles)))
    }

    /// A write to a base page. The cycles it took; `None` where none is mapped.
    fn write_base(&mut self, pid: Pid, address: u64) -> Result<Option<u64>, Fault> {
        let (region, place) = (Region::containing(address), offset_of(address));
        let Some(Entry::Base(pages)) = self.processes[pid.index()].space.entry_mut(region) else {
            return Ok(None);
        };
        let Some(from) = pages.frame(place) else {
            return Ok(None);
        };
        if !self.memory.is_shared(from) {
            pages.protected.clear(place);
            return Ok(Some(self.costs.reuse));
        }
        let owner = Owner::new(pid.0, address / BASE_PAGE_SIZE);
        let (to, _) = self.allocate(Pages::Base(owner), self.node_of(pid), false);
        let to = to.ok_or(Fault::NoMemory(address))?;
        if let Some(Entry::Base(pages)) = self.processes[pid.index()].space.entry_mut(region) {
            pages.moved(place, to);
            pages.protected.clear(place);
        }
        self.memory.release(from);
        self.debug_check_mappings(from);
        self.debug_check_mappings(to);
        self.counters.copied_on_write += 1;
        Ok(Some(self.costs.fault + self.costs.copy_page))
    }

    /// Base pages of a region that a process maps by base entries and shares with another since a fork.
    pub(crate) fn shared_pages(&self, pid: Pid, region: Region) -> u16 {
        let Entry::Base(pages) = self.process(pid).space.entry(region) else {
            return 0;
        };
        let is_private = |frame: Frame| {
            let owner = self.memory.owner_of(frame);
            owner.is_some_and(|owner| self.shared_of(owner).is_none())
        };
        let shared = pages.pages();
        let shared =
            shared.filter(|(_, frame)| self.memory.is_shared(*frame) && is_private(*frame));
        shared.count().try_into().unwrap_or(u16::MAX)
    }

    /// Whether a huge page maps a region that another process maps, too, or a part of it.
    pub(crate) fn is_shared_huge(&self, pid: Pid, region: Region) -> bool {
        match self.process(pid).space.entry(region) {
            Entry::Huge(page) => self.memory.is_shared(page.frame),
            Entry::None | Entry::Base(_) => false,
        }
    }
}
