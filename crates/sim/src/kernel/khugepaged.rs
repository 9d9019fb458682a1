//! khugepaged: the kernel's own promotion, without regard to what is used.

use mega_core::{Outcome, PageSize, Region, Span};

use super::copy_on_write::MOST_SHARED;
use super::settings::KhugepagedSettings;
use super::{Kernel, Pid, Thp};
use crate::address_space::{Advice, Entry};

/// Where khugepaged is on its way through all processes.
#[derive(Clone, Debug)]
pub struct Khugepaged {
    settings: KhugepagedSettings,
    process: usize,
    address: u64,
    /// Regions that it made huge.
    pub collapsed: u64,
}

impl Khugepaged {
    /// At the first process.
    #[must_use]
    pub fn new(settings: KhugepagedSettings) -> Self {
        Khugepaged {
            settings,
            process: 0,
            address: 0,
            collapsed: 0,
        }
    }

    /// How it was set.
    #[must_use]
    pub fn settings(&self) -> &KhugepagedSettings {
        &self.settings
    }

    /// One round: looks at as many pages as it may, and goes on there in the next (`khugepaged_do_scan`). Calls `stalled` for
    /// each process that stood still.
    pub fn round(&mut self, kernel: &mut Kernel, stalled: &mut dyn FnMut(Pid, u64)) -> u64 {
        let mut took = 0;
        let mut left = u64::from(self.settings.pages);
        let processes = kernel.processes.len();
        let mut passed = 0;
        while left > 0 && passed <= processes {
            let Some((pid, region)) = self.next(kernel) else {
                passed += 1;
                self.process = (self.process + 1) % processes.max(1);
                self.address = 0;
                continue;
            };
            self.address = region.end();
            left = left.saturating_sub(512);
            took += 512 * kernel.costs.look_page;
            if self.wants(kernel, pid, region) {
                let (outcome, cycles) = kernel.promote(pid, region);
                self.collapsed += u64::from(matches!(outcome, Outcome::Done { .. }));
                stalled(pid, cycles);
                took += cycles;
                if matches!(outcome, Outcome::Failed(_)) {
                    // `khugepaged_alloc_sleep`: it does not try again in this round.
                    break;
                }
            }
            took += self.make_giant(kernel, pid, region, stalled);
        }
        took
    }

    /// The next region of the process that it may promote.
    fn next(&self, kernel: &Kernel) -> Option<(Pid, Region)> {
        let process = kernel.processes.get(self.process)?;
        let pid = Pid(u32::try_from(self.process).ok()?);
        let areas = process.space.areas();
        let from = areas.partition_point(|area| area.end <= self.address);
        let allowed = |advice| match (kernel.settings.thp, advice) {
            (Thp::Never, _) | (_, Advice::NoHuge) => false,
            (Thp::Madvise, advice) => advice == Advice::Huge,
            (Thp::Always, _) => true,
        };
        areas
            .iter()
            .skip(from)
            // Shared memory has a switch of its own (`shmem_enabled`), which is off in a distribution.
            .filter(|area| allowed(area.advice) && area.shared.is_none())
            .find_map(|area| area.first_region_from(self.address))
            .map(|region| (pid, region))
    }

    /// Whether enough of a region is mapped by base pages, one of them writable, and not too many shared.
    fn wants(&self, kernel: &Kernel, pid: Pid, region: Region) -> bool {
        match kernel.process(pid).space.entry(region) {
            Entry::Base(pages) => {
                let mapped = pages.mapped();
                mapped > 0
                    && 512 - mapped <= self.settings.most_missing
                    && pages.is_writable()
                    && kernel.shared_pages(pid, region) <= MOST_SHARED
            }
            _ => false,
        }
    }

    /// Trident's khugepaged: after the last region of a span, the span too.
    fn make_giant(
        &self,
        kernel: &mut Kernel,
        pid: Pid,
        region: Region,
        stalled: &mut dyn FnMut(Pid, u64),
    ) -> u64 {
        let span = Span::of(region);
        let is_last = region.end() == span.end();
        let fits = kernel
            .process(pid)
            .space
            .area_of(span.start())
            .is_some_and(|area| area.holds(span.start(), PageSize::Giant));
        if !self.settings.makes_giant || !is_last || !fits {
            return 0;
        }
        let (_, cycles) = kernel.promote_giant(pid, span.first_region());
        stalled(pid, cycles);
        cycles
    }
}
