//! The `module` tracker: the kernel module reads page tables and clears Accessed bits in the same pass.
//!
//! It costs a fraction of reading and clearing apart, holds the target's mmap lock for reading and for a bounded
//! batch only, and tells the module which physical blocks are in use, which compaction asks it for. As the kernel's
//! own idle page tracking it does not flush the TLB: a page whose translation stays there all interval looks
//! untouched.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use mega_core::{PAGES_PER_REGION, PageSize, RegionObservation};

use super::finish::finish;
use super::whole::{USER_END, whole_regions};
use super::{Bits, TrackError, TrackedProcess, Tracker, TrackerKind, Unavailable};
use crate::kernel::Kernel;
use crate::module::Device;
use crate::module::interface::{self, ScanTask};

/// Regions per call: 8 GiB, 64 KiB of answer.
const BATCH: u32 = 4096;

/// Asks `/dev/mega`.
pub struct ModuleTracker {
    device: Device,
    clears: bool,
    regions: Vec<interface::Region>,
}

impl ModuleTracker {
    /// Opens the module's device.
    ///
    /// # Errors
    /// Where the module is not loaded, speaks another version, or the privilege is missing.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<ModuleTracker, Unavailable> {
        let clears = !kernel.is_read_only();
        let device = Device::open(kernel).map_err(|error| Unavailable::Module(Box::new(error)))?;
        let most = BATCH.min(device.info().max_regions.max(1));
        let regions = vec![interface::Region::default(); most as usize];
        Ok(ModuleTracker {
            device,
            clears,
            regions,
        })
    }

    fn look(
        &mut self,
        target: &TrackedProcess<'_>,
        range: &Range<u64>,
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        let pid = target.process.pid;
        let flags = if self.clears {
            interface::TASK_CLEAR
        } else {
            0
        };
        let mut start = range.start;
        while start < range.end {
            let length = range.end - start;
            let mut request = ScanTask {
                flags,
                start,
                length,
                ..ScanTask::default()
            };
            match self
                .device
                .scan_task(target.handle, &mut request, &mut self.regions)
            {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    return Err(TrackError::Gone { pid });
                }
                Err(error) => {
                    return Err(TrackError::Refused {
                        attempted: "scan through /dev/mega",
                        pid,
                        error,
                    });
                }
            }
            let found = self.regions.iter().take(request.count as usize);
            out.extend(found.filter(|region| region.mapped > 0).map(observation));
            if request.next <= start || request.next > range.end {
                return Err(TrackError::Nonsense {
                    tracker: TrackerKind::Module,
                    what: format!("the scan of {start:#x} went on to {:#x}", request.next),
                });
            }
            start = request.next;
        }
        Ok(())
    }
}

fn observation(found: &interface::Region) -> RegionObservation {
    let mapped = found.mapped.min(PAGES_PER_REGION);
    RegionObservation {
        region: mega_core::Region::containing(found.address),
        mapped,
        accessed: found.accessed.min(mapped),
        page_size: match found.page_shift {
            30 => PageSize::Giant,
            21 => PageSize::Huge,
            _ => PageSize::Base,
        },
        zero_filled: None,
        swapped: 0,
    }
}

impl Tracker for ModuleTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Module
    }

    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        out.clear();
        let mut whole = whole_regions(ranges, USER_END);
        let result = whole.try_for_each(|range| self.look(target, &range, out));
        finish(target, result, out)
    }

    fn peek(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        let clears = std::mem::replace(&mut self.clears, false);
        let result = self.scan(target, ranges, out);
        self.clears = clears;
        result
    }

    fn read_bits(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
    ) -> Result<Option<Bits>, TrackError> {
        let mut bits = Bits::default();
        self.peek(target, ranges, &mut bits.regions)?;
        Ok(Some(bits))
    }

    fn clears_itself(&self) -> bool {
        self.clears
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use mega_core::{HUGE_PAGE_SIZE, ProcessId};

    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeModule};
    use crate::kernel::{ProcessHandle, ReadOnly};
    use crate::module::ModuleRequest;
    use crate::module::interface::Region;

    type Answers = Vec<Result<(Vec<Region>, u64), i32>>;

    /// A module that answers each SCAN_TASK with what is next: an error number, or the regions and where it stopped.
    /// It keeps the flags it was asked with.
    fn scripted(answers: Answers, flags: Arc<Mutex<Vec<u32>>>) -> FakeModule {
        let mut answers = VecDeque::from(answers);
        FakeModule::scripted(move |request| {
            let ModuleRequest::ScanTask {
                request, regions, ..
            } = request
            else {
                return Err(io::Error::from_raw_os_error(libc::ENOTTY));
            };
            flags.lock().expect("nobody panicked").push(request.flags);
            let answer = answers.pop_front().expect("an answer for each request");
            let (found, next) = answer.map_err(io::Error::from_raw_os_error)?;
            regions[..found.len()].copy_from_slice(&found);
            request.count = u32::try_from(found.len()).expect("a few");
            request.next = next;
            Ok(())
        })
    }

    fn scan(
        answers: Answers,
        clears: bool,
    ) -> (Result<Vec<RegionObservation>, TrackError>, Vec<u32>) {
        let flags = Arc::default();
        let kernel = FakeKernel::new();
        let mut module = scripted(answers, Arc::clone(&flags));
        module.info.max_regions = 4;
        kernel.state().module = Some(module);
        let boundary: Arc<dyn Kernel> = match clears {
            true => Arc::new(kernel),
            false => Arc::new(ReadOnly(kernel)),
        };
        let mut tracker = ModuleTracker::open(boundary).expect("the module is there");
        let handle = ProcessHandle::new(7, None);
        let target = TrackedProcess {
            process: ProcessId {
                pid: 7,
                start_time: 1,
            },
            handle: &handle,
        };
        let mut out = Vec::new();
        let result = tracker.scan(
            &target,
            std::slice::from_ref(&(0..8 * HUGE_PAGE_SIZE)),
            &mut out,
        );
        if result.is_err() {
            assert!(out.is_empty(), "an error leaves nothing behind");
        }
        let flags = flags.lock().expect("nobody panicked").clone();
        (result.map(|()| out), flags)
    }

    fn region(index: u64, mapped: u16, accessed: u16, page_shift: u8) -> Region {
        Region {
            address: index * HUGE_PAGE_SIZE,
            mapped,
            accessed,
            page_shift,
            ..Region::default()
        }
    }

    #[test]
    fn a_scan_goes_on_where_the_module_stopped() {
        let answers = vec![
            Ok((
                vec![region(0, 3, 2, 12), region(1, 0, 0, 21)],
                4 * HUGE_PAGE_SIZE,
            )),
            Err(libc::EINTR),
            Ok((
                vec![region(5, 512, 512, 21), region(6, 512, 0, 30)],
                8 * HUGE_PAGE_SIZE,
            )),
        ];
        let (seen, flags) = scan(answers, true);
        let seen: Vec<_> = seen
            .expect("it got through")
            .iter()
            .map(|r| {
                (
                    r.region.start() / HUGE_PAGE_SIZE,
                    r.mapped,
                    r.accessed,
                    r.page_size,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, 3, 2, PageSize::Base),
                (5, 512, 512, PageSize::Huge),
                (6, 512, 0, PageSize::Giant)
            ]
        );
        assert_eq!(flags, [interface::TASK_CLEAR; 3]);
    }

    #[test]
    fn a_dry_run_clears_nothing() {
        let (_, flags) = scan(vec![Ok((Vec::new(), 8 * HUGE_PAGE_SIZE))], false);
        assert_eq!(flags, [0]);
    }

    #[test]
    fn to_peek_clears_nothing_and_the_next_scan_does() {
        let flags = Arc::default();
        let end = || Ok((Vec::new(), HUGE_PAGE_SIZE));
        let kernel = FakeKernel::new();
        kernel.state().module = Some(scripted(vec![end(), end()], Arc::clone(&flags)));
        let mut tracker = ModuleTracker::open(Arc::new(kernel)).expect("the module is there");
        let handle = ProcessHandle::new(7, None);
        let process = ProcessId {
            pid: 7,
            start_time: 1,
        };
        let target = TrackedProcess {
            process,
            handle: &handle,
        };
        let range = 0..HUGE_PAGE_SIZE;
        let ranges = std::slice::from_ref(&range);
        tracker.peek(&target, ranges, &mut Vec::new()).unwrap();
        assert_eq!(*flags.lock().expect("nobody panicked"), [0]);
        assert!(tracker.clears_itself());
        tracker.scan(&target, ranges, &mut Vec::new()).unwrap();
        let seen = flags.lock().expect("nobody panicked").clone();
        assert_eq!(seen, [0, interface::TASK_CLEAR]);
    }

    #[test]
    fn a_process_that_is_gone_a_refusal_and_nonsense_are_told_apart() {
        let half = || Ok((vec![region(0, 1, 1, 12)], 4 * HUGE_PAGE_SIZE));
        assert!(matches!(
            scan(vec![half(), Err(libc::ESRCH)], true).0,
            Err(TrackError::Gone { pid: 7 })
        ));
        assert!(matches!(
            scan(vec![half(), Err(libc::EPERM)], true).0,
            Err(TrackError::Refused { .. })
        ));
        let stuck = Ok((Vec::new(), 4 * HUGE_PAGE_SIZE));
        assert!(matches!(
            scan(vec![half(), stuck], true).0,
            Err(TrackError::Nonsense { .. })
        ));
        let beyond = Ok((Vec::new(), 9 * HUGE_PAGE_SIZE));
        assert!(matches!(
            scan(vec![beyond], true).0,
            Err(TrackError::Nonsense { .. })
        ));
    }

    #[test]
    fn counts_beyond_a_region_are_cut() {
        let (seen, _) = scan(
            vec![Ok((vec![region(0, 600, 700, 12)], 8 * HUGE_PAGE_SIZE))],
            true,
        );
        let seen = seen.expect("it got through");
        assert_eq!((seen[0].mapped, seen[0].accessed), (512, 512));
    }
}
