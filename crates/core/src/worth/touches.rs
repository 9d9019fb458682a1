//! What the touch meter found out about one process.
//!
//! A touch is the first access of a visit to a page: a program that reads a row of 1 KiB touches one page, one that reads
//! all of memory in order touches each page once a pass. So touches are what can miss in the TLB. All rates are per second of
//! the process's CPU time, all its threads together: a program on two CPUs for a second uses two.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::page::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, Region};

use super::{Estimate, Locality, Reuse, Sampling};

/// The share of one CPU below which a process does next to nothing.
pub(super) const IDLE: f64 = 1e-3;
/// How far all looks together may be off, as a share: a program is another one while it is looked at. So far were the means of
/// measurements of programs that count their touches (`cargo bench -p mega-linux --bench touches`).
const OFF: f64 = 0.1;

/// How often a process touches pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Touches {
    /// Touches of memory that base pages map.
    pub per_cpu_second: Estimate,
    /// CPUs that it used while it was measured, 0 or more; 1.0 is one whole CPU.
    pub cpu_share: f64,
    /// Bytes of base pages that it keeps touching, estimated: pages touched less often than once in some milliseconds do
    /// not count where others are touched far more often.
    pub working_set: u64,
    /// Touched entries in each touched cache line of eight page table entries, 1 to 8: 1 where touches are scattered, 8 in
    /// a stream. 1 where nothing was touched.
    pub pages_per_line: f64,
    /// Touches of a region that follow each other before another region is touched, 1 to 512: 1 where touches are scattered, hundreds in
    /// a stream. In the mean over visits.
    pub touches_per_visit: f64,
    /// The share of neighbouring base pages whose frames are neighbours too, 0 to 1; `None` where frames are not known.
    pub frames_together: Option<f64>,
    /// What else is touched between two touches of a page, the least first. The shares add up to 1; none where nothing was touched.
    pub reuse: Vec<Reuse>,
    /// The same one level up: touches of huge pages, which giant pages would make cheaper. `None` where none are mapped.
    pub huge: Option<HugeTouches>,
    /// Its mappings that have eligible memory resident, in address order.
    pub mappings: Vec<MappingTouches>,
    /// The sampled regions that base pages map, in address order, each once.
    pub regions: Vec<RegionTouches>,
}

impl Touches {
    /// What samplings tell of a process that used `cpu_share` CPUs meanwhile: of its base pages, and of its huge pages if it has
    /// some. What was sampled times `per_cpu` is what a second of CPU time has; the rates of `mappings` and `regions` are so
    /// already.
    #[must_use]
    pub fn told(
        base: &Sampling,
        huge: Option<&Sampling>,
        cpu_share: f64,
        per_cpu: f64,
        mappings: Vec<MappingTouches>,
        regions: Vec<RegionTouches>,
    ) -> Self {
        Touches {
            per_cpu_second: rate(base).scaled(per_cpu),
            cpu_share,
            working_set: bytes(base.working_set(), BASE_PAGE_SIZE),
            pages_per_line: base.pages_per_line(),
            touches_per_visit: base.touches_per_visit(),
            frames_together: None,
            reuse: base.reuse(BASE_PAGE_SIZE),
            huge: huge.map(|huge| HugeTouches {
                per_cpu_second: rate(huge).scaled(per_cpu),
                working_set: bytes(huge.working_set(), HUGE_PAGE_SIZE),
                reuse: huge.reuse(HUGE_PAGE_SIZE),
            }),
            mappings,
            regions,
        }
    }

    /// How near its touches are to each other.
    #[must_use]
    pub fn locality(&self) -> Locality {
        Locality {
            pages_per_line: self.pages_per_line,
            touches_per_visit: self.touches_per_visit,
        }
    }

    /// Whether it was looked at often enough to say how often it touches memory that base pages map. Otherwise that may be
    /// anything.
    #[must_use]
    pub fn tell_how_often(&self) -> bool {
        self.per_cpu_second.high < f64::MAX
    }
}

/// How often a process touches huge pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugeTouches {
    /// Touches of huge pages a second of CPU time.
    pub per_cpu_second: Estimate,
    /// Bytes of huge pages that it keeps touching, estimated.
    pub working_set: u64,
    /// What else is touched between two touches of a huge page, the least first. The shares add up to 1.
    pub reuse: Vec<Reuse>,
}

/// How often a process touches one of its mappings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappingTouches {
    /// Its addresses.
    pub range: Range<u64>,
    /// The file's path, or the kernel's name in brackets, or nothing.
    pub name: String,
    /// Bytes resident in whole eligible regions.
    pub resident: u64,
    /// Of those, bytes that huge or giant pages map.
    pub huge: u64,
    /// Touches a second of CPU time, of what base pages map.
    pub per_cpu_second: f64,
}

/// How often a process touches one region that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionTouches {
    /// Which.
    pub region: Region,
    /// Base pages mapped in it, 1 to 512.
    pub mapped: u16,
    /// Touches a second of CPU time.
    pub per_cpu_second: f64,
    /// How many of the process's regions it stands for, at least 1.
    pub weight: f64,
}

/// The factor that turns a sampled rate into touches in a second of CPU time. `knows_cpu_time`: the samples count
/// the process's CPU time, and not the time that passed.
#[must_use]
pub fn per_cpu_second(cpu_share: f64, knows_cpu_time: bool) -> f64 {
    // A process that did next to nothing has no rates to speak of.
    match (cpu_share < IDLE, knows_cpu_time) {
        (true, _) => 0.0,
        (false, true) => 1.0,
        (false, false) => 1.0 / cpu_share,
    }
}

/// Touches a second; anything at all where there were too few rounds to tell. How far the rounds lie apart does not tell how far
/// all of them are off.
fn rate(sampling: &Sampling) -> Estimate {
    let Some(rate) = sampling.rate() else {
        return Estimate {
            value: 0.0,
            low: 0.0,
            high: f64::MAX,
        };
    };
    let off = OFF * rate.value;
    Estimate {
        value: rate.value,
        low: rate.value - f64::hypot(rate.value - rate.low, off).min(rate.value),
        high: rate.value + f64::hypot(rate.high - rate.value, off),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of pages that exist"
)]
fn bytes(pages: f64, size: u64) -> u64 {
    (pages * size as f64) as u64
}
