//! The demo's three runs on the simulated machine: for where the live ones cannot be.

use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, Machine as _};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::hardware;
use super::numbers::number;
use super::scale::Scale;
use super::system::{ADAPTIVE, BASE, System, THP};
use super::testbed::Testbed;
use crate::error::Error;
use crate::random::{Random, below};

/// What the simulated machine is, in words.
pub(crate) const MACHINE: &str = "16 GiB, a core of a Skylake-SP at 2.3 GHz for each program";
/// Its memory.
pub(crate) const MEMORY: u64 = 16 << 30;
/// How long it waits for huge pages at most, and how often it looks for them.
const LONGEST_SETTLE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
/// Of the area that is used, the part that counts as all of it.
const SETTLED: u64 = 99;
/// How long the speed is measured in the demo.
pub(crate) const MEASURED: Duration = Duration::from_secs(2);
/// One page in this many of the sparse area is touched.
const SPARSE: u64 = 8;
/// Bytes of what is updated.
const WORD: u64 = 8;
/// Updates before others have their turn.
const AT_ONCE: u64 = 256;

/// How the program gets its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Base pages only.
    Base,
    /// THP always.
    ThpAlways,
    /// Base pages from faults, and mega with its default policy.
    Mega,
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated {
    pub(crate) updates_per_second: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) huge_bytes: u64,
    pub(crate) first_touch_p99_9_ns: u64,
    /// Simulated seconds that it took.
    pub(crate) seconds: f64,
    pub(crate) manager_cpu_seconds: f64,
}

/// Runs the demo's program over so many bytes used at random, and as many touched sparsely; measures its speed for that long.
///
/// # Errors
/// Where the program could not have its memory.
pub(crate) fn simulate(pages: Pages, bytes: u64, measured: Duration) -> Result<Simulated, Error> {
    let hardware = hardware::trident_server();
    let system = system(pages);
    let mut bed = Testbed::new(system, &[MEMORY], Scale::new(1), hardware)?;
    let pid = bed.start(Updates::new(bytes));
    let touches = |bed: &Testbed| bed.machine.counts(pid).map_or(0, |counts| counts.touches);
    loop {
        bed.run_for(LOOK);
        let is_filled = touches(&bed) > first_touches(bytes);
        let is_huge = bed.mapped(pid).huge >= bytes / 100 * SETTLED;
        let is_settled = is_filled && (pages != Pages::Mega || is_huge);
        if is_settled || !bed.machine.is_busy() || bed.machine.now() >= LONGEST_SETTLE {
            break;
        }
    }
    let (before, from) = (touches(&bed), bed.machine.now());
    bed.run_for(measured);
    let passed = bed.machine.now().saturating_sub(from);
    if let Some(ended) = bed.machine.ended(pid) {
        return Err(Error::Failed(format!(
            "simulating the demo's program: it ended too early, {:?}",
            ended.fault
        )));
    }
    let mapped = bed.mapped(pid);
    let faults = bed.machine.kernel().process(pid).all_faults();
    let first_touch = hardware.costs.time(faults.per_mille(999));
    Ok(Simulated {
        updates_per_second: number(touches(&bed) - before) / passed.as_secs_f64(),
        resident_bytes: mapped.resident(),
        huge_bytes: mapped.huge,
        first_touch_p99_9_ns: u64::try_from(first_touch.as_nanos()).unwrap_or(u64::MAX),
        seconds: bed.machine.now().as_secs_f64(),
        manager_cpu_seconds: bed.machine.cpu_time().as_secs_f64(),
    })
}

/// Pages of both areas that the program touches before it uses one.
const fn first_touches(bytes: u64) -> u64 {
    bytes / BASE_PAGE_SIZE + (bytes / BASE_PAGE_SIZE).div_ceil(SPARSE)
}

fn system(pages: Pages) -> System {
    match pages {
        Pages::Base => BASE,
        Pages::ThpAlways => THP,
        Pages::Mega => ADAPTIVE,
    }
}

/// The demo's program (`workload/mixed.rs`): it fills one area, touches one page in eight of another, and then updates words of
/// the first at random.
struct Updates {
    bytes: u64,
    /// The first addresses of both areas.
    areas: Option<[u64; 2]>,
    /// Pages touched for the first time, of both areas together.
    touched: u64,
    random: Random,
}

impl Updates {
    fn new(bytes: u64) -> Self {
        Updates {
            bytes,
            areas: None,
            touched: 0,
            random: Random::new(1),
        }
    }

    /// The address of a page that is touched for the first time; `None` where all are.
    fn next_page(&self, [dense, sparse]: [u64; 2]) -> Option<u64> {
        let pages = self.bytes / BASE_PAGE_SIZE;
        match self.touched.checked_sub(pages) {
            None => Some(dense + self.touched * BASE_PAGE_SIZE),
            Some(page) => {
                let offset = page * SPARSE * BASE_PAGE_SIZE;
                (offset < self.bytes).then_some(sparse + offset)
            }
        }
    }
}

impl Program for Updates {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let bytes = self.bytes;
        let areas = *self
            .areas
            .get_or_insert_with(|| [(); 2].map(|()| memory.map(bytes, Advice::None)));
        let words = usize::try_from(bytes / WORD).unwrap_or(usize::MAX);
        for _ in 0..AT_ONCE {
            let address = match self.next_page(areas) {
                Some(page) => {
                    self.touched += 1;
                    page
                }
                None => areas[0] + below(self.random.word(), words) as u64 * WORD,
            };
            memory.touch(address)?;
        }
        Ok(Work::GoesOn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the demo shows: mega is faster than base pages and as small, and its faults are as fast.
    #[test]
    fn mega_is_fast_and_stays_small() {
        let bytes = 16 << 20;
        let [base, always, mega] = [Pages::Base, Pages::ThpAlways, Pages::Mega]
            .map(|pages| simulate(pages, bytes, Duration::from_millis(20)).unwrap());
        assert_eq!(base.huge_bytes, 0);
        assert_eq!(base.resident_bytes, bytes / 8 * 9);
        assert_eq!(always.resident_bytes, 2 * bytes);
        assert_eq!(
            (mega.resident_bytes, mega.huge_bytes),
            (bytes / 8 * 9, bytes)
        );
        assert!(mega.updates_per_second > base.updates_per_second);
        assert_eq!(mega.first_touch_p99_9_ns, base.first_touch_p99_9_ns);
        assert!(always.first_touch_p99_9_ns > base.first_touch_p99_9_ns);
        assert!(mega.manager_cpu_seconds > 0.0 && base.manager_cpu_seconds == 0.0);
    }
}
