//! What huge pages would gain a process: its touches, each at what this machine saves on it.
//!
//! How far touches wait for each other decides what is saved, and their rate only bounds it. So every interval here reaches from what
//! touches save of which none waits for another to what they save that wait as far as the rate allows, the long walks most; the value is
//! what they save that wait so, all alike.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::calibration::MOST_SAVED;
use super::touches::IDLE;
use super::{Calibration, Estimate, Locality, RegionTouches, Reuse, Touches};
use crate::page::HUGE_PAGE_SIZE;

/// The share of the gain that [`Worth::most`] is about.
pub const MOST: f64 = 0.9;

/// What huge pages would gain a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// Touches of base pages a second of its CPU time.
    pub touches_per_second: Estimate,
    /// CPUs that it used meanwhile; 1.0 is one whole CPU.
    pub cpu_share: f64,
    /// Bytes of base pages that it keeps touching.
    pub working_set: u64,
    /// How near its touches are to each other.
    #[serde(flatten)]
    pub locality: Locality,
    /// The share of its neighbouring base pages whose frames are neighbours too, 0 to 1; `None` where frames are not shown.
    pub frames_together: Option<f64>,
    /// Nanoseconds that a huge page saves at each touch.
    pub saved_ns: Estimate,
    /// The share of its CPU time that huge pages would save, 0 to 1.
    pub saved_share: Estimate,
    /// How many times as fast it would run where it waits for nothing but its CPU; 1 is as fast as now.
    pub speed_up: Estimate,
    /// Bytes in its regions that base pages map: what can be made huge.
    pub promotable: u64,
    /// Bytes of those that give [`MOST`] of the gain.
    pub most: u64,
    /// CPU seconds that it takes to make all of them huge.
    pub cost_cpu_seconds: f64,
    /// Seconds until its savings exceed that; `None` where it may gain nothing.
    pub payback_seconds: Option<f64>,
    /// Which share of the gain the regions give that are touched most: from nothing to all, in ascending order.
    pub curve: Vec<CurvePoint>,
    /// Its mappings, in address order.
    pub mappings: Vec<MappingWorth>,
    /// The share of its CPU time that giant pages would save on what huge pages map now; `None` where there are no giant
    /// pages, or no huge ones.
    pub saved_by_giant_share: Option<Estimate>,
}

/// One point of the curve of what is promoted against what that gains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The share of [`Worth::promotable`] that is made huge, 0 to 1, the regions touched most first.
    pub promoted: f64,
    /// The share of the gain that this gives, 0 to 1.
    pub gain: f64,
}

/// What huge pages would gain in one mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappingWorth {
    /// Its addresses.
    pub range: Range<u64>,
    /// The file's path, or the kernel's name in brackets, or nothing.
    pub name: String,
    /// Bytes resident in whole eligible regions.
    pub resident: u64,
    /// Of those, bytes that huge or giant pages map.
    pub huge: u64,
    /// The share of the process's CPU time that huge pages would save here, 0 to 1.
    pub saved_share: f64,
}

impl Worth {
    /// Whether the process rested while it was measured: what it touches at work is not known.
    #[must_use]
    pub fn rested(&self) -> bool {
        self.cpu_share < IDLE
    }

    /// Whether huge pages would gain anything for sure: the interval of the saving holds no zero.
    #[must_use]
    pub fn gains(&self) -> bool {
        self.saved_share.low > 0.0
    }

    /// Sets the saving and what follows from it.
    fn set_saved_share(&mut self, saved: Estimate) {
        self.saved_share = saved;
        self.speed_up = Estimate {
            value: speed_up(saved.value),
            low: speed_up(saved.low),
            high: speed_up(saved.high),
        };
        let saved_a_second = saved.value * self.cpu_share;
        self.payback_seconds =
            (self.gains() && saved_a_second > 0.0).then(|| self.cost_cpu_seconds / saved_a_second);
    }
}

/// Predicts what huge pages would gain a process that touches pages so, on the machine of that calibration.
#[must_use]
pub fn predict(touches: &Touches, calibration: &Calibration) -> Worth {
    let rate = touches.per_cpu_second;
    let calibration = &calibration.for_frames(touches.frames_together);
    let overlapped = calibration.overlapped();
    let locality = touches.locality();
    let of = |calibration: &Calibration, waits: Waits, per_second: f64| {
        let saved_ns = |working_set, part| {
            calibration.saved_ns(working_set, 1e9 / per_second / part, locality)
        };
        over(&touches.reuse, touches.working_set, waits, saved_ns)
    };
    let ends = [
        (calibration, Waits::Alike),
        (&overlapped, Waits::Alike),
        (calibration, Waits::TheLongest),
    ];
    let [share, at_least, at_most] =
        ends.map(|(calibration, waits)| saved_share(rate, |rate| of(calibration, waits, rate)));
    let share = share.reaching(at_least).reaching(at_most);
    let regions: f64 = touches.regions.iter().map(|region| region.weight).sum();
    let curve = curve(&touches.regions);
    let most = promoted_for(&curve, MOST) * regions;
    let [ns, least_ns, most_ns] =
        ends.map(|(calibration, waits)| of(calibration, waits, rate.value));
    let ns = ns.reaching(least_ns).reaching(most_ns);
    let mut worth = Worth {
        touches_per_second: rate,
        cpu_share: touches.cpu_share,
        working_set: touches.working_set,
        locality,
        frames_together: touches.frames_together,
        saved_ns: ns,
        saved_share: share,
        speed_up: Estimate::exact(1.0),
        promotable: bytes(regions),
        most: bytes(most),
        cost_cpu_seconds: regions * calibration.promotion.value,
        payback_seconds: None,
        curve,
        mappings: mappings(touches, ns.value, share.value),
        saved_by_giant_share: saved_by_giant_share(touches, calibration, &overlapped),
    };
    worth.set_saved_share(share);
    worth
}

/// The share of each second that is saved, by the touches in it. The errors of the rate and of the nanoseconds have
/// nothing to do with each other. Where the rate is not known at all, the interval says so.
fn saved_share(rate: Estimate, saved_ns: impl Fn(f64) -> Estimate) -> Estimate {
    let share = |per_second: f64, ns: f64| {
        if per_second <= 0.0 {
            return 0.0;
        }
        (per_second * ns * 1e-9).clamp(0.0, MOST_SAVED)
    };
    if rate.value <= 0.0 {
        let most = if rate.high > 0.0 {
            share(rate.high, saved_ns(rate.high).high)
        } else {
            0.0
        };
        return Estimate::within(0.0, 0.0, most);
    }
    let at = saved_ns(rate.value);
    let value = share(rate.value, at.value);
    let by_rate = [rate.low, rate.high].map(|rate| share(rate, saved_ns(rate.max(1.0)).value));
    let by_cost = [at.low, at.high].map(|ns| share(rate.value, ns));
    let below = f64::hypot(
        value - by_rate[0].min(by_rate[1]).min(value),
        value - by_cost[0],
    );
    let above = f64::hypot(
        by_rate[0].max(by_rate[1]).max(value) - value,
        by_cost[1] - value,
    );
    Estimate {
        value,
        low: (value - below).max(0.0),
        high: (value + above).min(MOST_SAVED),
    }
}

/// By this power of how much shorter it is a walk counts as one that is as long: of half the length as a sixteenth of one, and of nine
/// tenths still as two thirds, as chance alone makes such differences.
const ALIKE: i32 = 4;

/// Which touches wait for another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// All alike: those with shorter walks are soon done, and hide as much less of a long one.
    Alike,
    /// Those with the longest walks, and those with much shorter ones hide nothing of them: of a search of a graph each vertex waits for its row,
    /// and the marks of all its neighbours are looked up at once.
    TheLongest,
}

/// What touches save in the mean, of what they save by the working set in which they come back; by that of the whole program where
/// none was seen. `saved_ns` hears how large that is, and which part of all touches may overlap with these.
fn over(
    reuse: &[Reuse],
    working_set: u64,
    waits: Waits,
    saved_ns: impl Fn(u64, f64) -> Estimate,
) -> Estimate {
    if reuse.is_empty() {
        return saved_ns(working_set, 1.0);
    }
    let walks: Vec<(f64, f64)> = reuse
        .iter()
        .map(|reuse| (reuse.share, saved_ns(reuse.working_set, 1.0).value))
        .collect();
    let mut mean = Estimate::default();
    for (reuse, &(_, walk)) in reuse.iter().zip(&walks) {
        let saved = saved_ns(reuse.working_set, overlapping(walk, &walks, waits));
        mean += saved.scaled(reuse.share);
    }
    mean
}

/// Which part of all touches may overlap with one that saves `walk`, of touches with these shares that save so much.
fn overlapping(walk: f64, walks: &[(f64, f64)], waits: Waits) -> f64 {
    let part = |&(share, other): &(f64, f64)| match waits {
        _ if other >= walk => share,
        Waits::Alike => share * other / walk,
        Waits::TheLongest => share * (other / walk).powi(ALIKE),
    };
    walks.iter().map(part).sum::<f64>().min(1.0)
}

fn saved_by_giant_share(
    touches: &Touches,
    calibration: &Calibration,
    overlapped: &Calibration,
) -> Option<Estimate> {
    let huge = touches.huge.as_ref()?;
    calibration.giant.as_ref()?;
    let share = |calibration: &Calibration| {
        // Neighbouring huge pages lie 16 MiB apart in a line: no sample tells, so none are taken to be touched together.
        saved_share(huge.per_cpu_second, |per_second| {
            let saved_ns = |working_set, part| {
                let pace = 1e9 / per_second / part;
                let saved = calibration.saved_by_giant_ns(working_set, pace, Locality::SCATTERED);
                saved.unwrap_or_default()
            };
            over(&huge.reuse, huge.working_set, Waits::Alike, saved_ns)
        })
    };
    Some(share(calibration).reaching(share(overlapped)))
}

fn speed_up(saved: f64) -> f64 {
    1.0 / (1.0 - saved.min(MOST_SAVED))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number of regions, not negative
fn bytes(regions: f64) -> u64 {
    (regions * HUGE_PAGE_SIZE as f64).round() as u64
}

fn mappings(touches: &Touches, saved_ns: f64, at_most: f64) -> Vec<MappingWorth> {
    let of = |mapping: &super::MappingTouches| MappingWorth {
        range: mapping.range.clone(),
        name: mapping.name.clone(),
        resident: mapping.resident,
        huge: mapping.huge,
        // Not -0.
        saved_share: (mapping.per_cpu_second * saved_ns * 1e-9).clamp(0.0, at_most) + 0.0,
    };
    touches.mappings.iter().map(of).collect()
}

/// The regions touched most come first; each stands for as many as its weight says.
fn curve(regions: &[RegionTouches]) -> Vec<CurvePoint> {
    let mut sorted: Vec<&RegionTouches> = regions.iter().collect();
    sorted.sort_by(|one, other| other.per_cpu_second.total_cmp(&one.per_cpu_second));
    let gain_of = |region: &RegionTouches| region.per_cpu_second.max(0.0) * region.weight;
    let all: f64 = regions.iter().map(|region| region.weight).sum();
    let whole: f64 = regions.iter().map(gain_of).sum();
    let mut curve = vec![CurvePoint {
        promoted: 0.0,
        gain: 0.0,
    }];
    if all <= 0.0 || whole <= 0.0 {
        return curve;
    }
    let (mut promoted, mut gain) = (0.0, 0.0);
    for region in sorted {
        promoted += region.weight;
        gain += gain_of(region);
        curve.push(CurvePoint {
            promoted: (promoted / all).min(1.0),
            gain: (gain / whole).min(1.0),
        });
    }
    curve
}

/// The smallest share promoted that gives this share of the gain; 0 where nothing gains.
#[must_use]
pub fn promoted_for(curve: &[CurvePoint], gain: f64) -> f64 {
    let point = curve.iter().find(|point| point.gain >= gain);
    point.map_or(0.0, |point| point.promoted)
}
