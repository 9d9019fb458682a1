//! mega.ko of the fake kernel: giant pages of its processes, or answers as a test scripts them.

use std::io;

use mega_core::{GIANT_PAGE_SIZE, PAGES_PER_REGION, REGIONS_PER_SPAN, Region, Span};

use super::{FakeRegion, FakeState, errno};
use crate::kernel::module::ModuleRequest;
use crate::kernel::module::interface::{
    self, Demote, Exchange, FreeZero, Info, Pair, Promote, ScanTask,
};

type Script = Box<dyn FnMut(ModuleRequest<'_>) -> io::Result<()> + Send>;

/// The kernel module.
pub struct FakeModule {
    /// What it answers when it is asked what it can do.
    pub info: Info,
    /// The error number that it answers instead.
    pub info_error: Option<i32>,
    /// What answers all else; without one it makes giant pages.
    script: Option<Script>,
}

impl FakeModule {
    /// The module on a kernel that has giant pages.
    #[must_use]
    pub fn with_giant_pages() -> Self {
        let info = Info {
            version: interface::VERSION,
            features: interface::FEATURE_SCAN_TASK
                | interface::FEATURE_GIANT
                | interface::FEATURE_FREE_ZERO
                | interface::FEATURE_EXCHANGE_PAIRS,
            ..Info::default()
        };
        FakeModule {
            info,
            info_error: None,
            script: None,
        }
    }

    /// A module that answers every request but `INFO` by `script`.
    #[must_use]
    pub fn scripted(
        script: impl FnMut(ModuleRequest<'_>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let info = Info {
            version: interface::VERSION,
            ..Info::default()
        };
        FakeModule {
            info,
            info_error: None,
            script: Some(Box::new(script)),
        }
    }

    pub(super) fn answer(
        &mut self,
        state: &mut FakeState,
        request: ModuleRequest<'_>,
    ) -> io::Result<()> {
        match (request, &mut self.script) {
            (ModuleRequest::Info(info), _) => {
                *info = self.info;
                self.info_error.map_or(Ok(()), |number| Err(errno(number)))
            }
            (request, Some(script)) => script(request),
            (
                ModuleRequest::ScanTask {
                    process,
                    request,
                    regions,
                },
                None,
            ) => state.scan_task(process.pid(), request, regions),
            (ModuleRequest::Promote { process, request }, None) => {
                state.promote(process.pid(), request)
            }
            (ModuleRequest::Demote { process, request }, None) => {
                state.demote(process.pid(), request)
            }
            (ModuleRequest::FreeZero { process, request }, None) => {
                state.free_zero(process.pid(), request)
            }
            (
                ModuleRequest::Exchange {
                    process,
                    request,
                    pairs,
                },
                None,
            ) => state.exchange(process.pid(), request, pairs),
            (ModuleRequest::ScanBlocks { .. } | ModuleRequest::Compact { .. }, None) => {
                Err(errno(libc::ENOTTY))
            }
        }
    }
}

impl FakeState {
    /// Of each region: how much of it is mapped, and by which page.
    fn scan_task(
        &self,
        pid: u32,
        request: &mut ScanTask,
        regions: &mut [interface::Region],
    ) -> io::Result<()> {
        let process = self.processes.get(&pid).ok_or_else(|| errno(libc::ESRCH))?;
        request.next = request.start + request.length;
        let seen = process.regions.range(request.start..request.next);
        for ((&address, seen), out) in seen.zip(regions) {
            request.count += 1;
            *out = interface::Region {
                address,
                mapped: seen.mapped,
                page_shift: match (process.is_giant(Region::containing(address)), seen.huge) {
                    (true, _) => 30,
                    (false, true) => 21,
                    (false, false) => 12,
                },
                ..interface::Region::default()
            };
        }
        Ok(())
    }

    fn promote(&mut self, pid: u32, request: &mut Promote) -> io::Result<()> {
        let span = Span::of(Region::containing(request.start));
        let collapse = request.flags & interface::PROMOTE_COLLAPSE != 0;
        let (stop, collapsed) = self.make_giant(pid, span, collapse)?;
        request.stop = stop;
        if request.stop == interface::PROMOTE_DONE {
            request.moved = self.giant_moves + collapsed;
            request.exchanged = self.giant_exchanges;
        }
        self.run_hook();
        Ok(())
    }

    /// How a promotion stops, and how many regions of base pages it collapses for it.
    fn make_giant(&mut self, pid: u32, span: Span, collapse: bool) -> io::Result<(u32, u32)> {
        let process = self
            .processes
            .get_mut(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        let Some(mapping) = process.mapping(span.start()) else {
            return Ok((interface::PROMOTE_NOT_ELIGIBLE, 0));
        };
        if mapping.range.end < span.end() || mapping.no_huge {
            return Ok((interface::PROMOTE_NOT_ELIGIBLE, 0));
        }
        let regions: Vec<FakeRegion> = process
            .regions
            .range(span.start()..span.end())
            .map(|(_, region)| *region)
            .filter(|region| region.huge || collapse && region.mapped > 0)
            .collect();
        let stop = if process.giants.contains(&span.start()) {
            interface::PROMOTE_ALREADY
        } else if regions.len() < REGIONS_PER_SPAN {
            interface::PROMOTE_NOT_HUGE
        } else if regions.iter().any(|region| region.busy || region.shared) {
            interface::PROMOTE_BUSY
        } else if self.free_chunks == 0 {
            interface::PROMOTE_NO_CHUNK
        } else {
            self.free_chunks -= 1;
            process.giants.insert(span.start());
            interface::PROMOTE_DONE
        };
        let mut collapsed = 0;
        if stop == interface::PROMOTE_DONE {
            let base_pages = process.regions.range_mut(span.start()..span.end());
            for (_, region) in base_pages.filter(|(_, region)| !region.huge) {
                (region.huge, region.mapped) = (true, PAGES_PER_REGION);
                collapsed += 1;
            }
        }
        Ok((stop, collapsed))
    }

    fn demote(&mut self, pid: u32, request: &mut Demote) -> io::Result<()> {
        let process = self
            .processes
            .get_mut(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        request.stop = match process.giants.remove(&request.start) {
            true => interface::DEMOTE_DONE,
            false => interface::DEMOTE_NOT_GIANT,
        };
        Ok(())
    }

    fn free_zero(&mut self, pid: u32, request: &mut FreeZero) -> io::Result<()> {
        let process = self
            .processes
            .get_mut(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        let span = request.start..request.start + GIANT_PAGE_SIZE;
        for seen in process.regions.range(span.clone()).map(|(_, seen)| seen) {
            let is_zero = seen.huge && seen.zero_filled == PAGES_PER_REGION;
            request.looked += u32::from(seen.huge);
            request.zero += u32::from(is_zero);
            request.busy += u32::from(is_zero && seen.busy);
        }
        request.freed = request.zero - request.busy;
        if request.freed > 0 {
            process.giants.remove(&request.start);
        }
        process.regions.retain(|address, seen| {
            let is_zero = seen.huge && seen.zero_filled == PAGES_PER_REGION;
            !span.contains(address) || !is_zero || seen.busy
        });
        self.run_hook();
        Ok(())
    }

    fn exchange(&mut self, pid: u32, request: &mut Exchange, pairs: &mut [Pair]) -> io::Result<()> {
        for pair in &mut *pairs {
            pair.result = self.exchange_pair(pid, *pair)?;
            request.exchanged += u32::from(pair.result == interface::PAIR_EXCHANGED);
        }
        self.run_hook();
        Ok(())
    }

    /// What comes of it.
    fn exchange_pair(&mut self, pid: u32, pair: Pair) -> io::Result<u32> {
        let process = self
            .processes
            .get_mut(&pid)
            .ok_or_else(|| errno(libc::ESRCH))?;
        let both = [pair.first, pair.second];
        if both.iter().any(|&at| process.mapping(at).is_none()) {
            return Ok(interface::PAIR_NOT_ELIGIBLE);
        }
        let [Some(first), Some(second)] = both.map(|at| process.regions.get(&at).copied()) else {
            return Ok(interface::PAIR_NOT_HUGE);
        };
        if !first.huge || !second.huge {
            Ok(interface::PAIR_NOT_HUGE)
        } else if first.shared || second.shared {
            Ok(interface::PAIR_SHARED)
        } else if first.busy || second.busy {
            Ok(interface::PAIR_HELD)
        } else {
            process.regions.insert(pair.first, second);
            process.regions.insert(pair.second, first);
            for at in both {
                process
                    .giants
                    .remove(&Span::of(Region::containing(at)).start());
            }
            Ok(interface::PAIR_EXCHANGED)
        }
    }

    /// What the target does in the moment after.
    fn run_hook(&mut self) {
        if let Some(hook) = self.hooks.pop_front() {
            hook(self);
        }
    }
}
