//! The course of a policy on a recording: what the engine did with it, over time.

use std::collections::BTreeSet;
use std::time::Duration;

use mega_core::engine::{Engine, ProcessSummary, StepReport, Totals};
use mega_core::{ActionKind, RegionRef};

use super::player::Player;
use super::translation::Translation;

/// Points that a course keeps. Where there are more, every second one goes.
const MOST_POINTS: usize = 2048;

/// How it was at one step of the engine, before the step did anything. All in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// When the look was that the step went by, since the beginning of the recording.
    pub at: Duration,
    /// Resident in the recording.
    pub recorded: u64,
    /// Of that in huge pages in the recording, which hide what is used of their base pages.
    pub recorded_huge: u64,
    /// Resident under the policy.
    pub resident: u64,
    /// Of that in huge pages.
    pub huge: u64,
    /// Of that in giant pages.
    pub giant: u64,
    /// Of the resident memory, what the policy sees no more: huge pages of the recording that it demoted.
    pub blind: u64,
    /// Free under the policy.
    pub free: u64,
    /// Of that in blocks of at least 2 MiB.
    pub contiguity: u64,
    /// Free in such blocks when it was recorded.
    pub recorded_contiguity: u64,
    /// Copied by promotions until then.
    pub copied: u64,
    /// Promotions until then.
    pub promoted: u64,
    /// Demotions until then.
    pub demoted: u64,
    /// Base pages that compaction moved until then: to empty blocks and chunks for promotions.
    pub moved: u64,
    /// Time in which addresses were translated until then, on the processor of the terms. `None` where there is none, and until
    /// touches were measured.
    pub translation: Option<Duration>,
    /// The same by the pages that it was recorded with.
    pub recorded_translation: Option<Duration>,
}

/// What a policy did on a recording.
#[derive(Clone, Debug)]
pub struct Course {
    /// Its name.
    pub policy: String,
    /// How it was at each step, or at every second one and so on where there were many.
    pub points: Vec<Point>,
    /// How it was at the last step at which something was resident.
    pub last: Point,
    /// What was done in all.
    pub totals: Totals,
    /// The part of resident memory that was in huge pages, 0 to 1: a mean over time. `None` where nothing was resident.
    pub mean_coverage: Option<f64>,
    /// The same in the recording.
    pub recorded_coverage: Option<f64>,
    /// Resident memory over that of the recording: a mean over time. `None` where nothing was resident.
    pub mean_growth: Option<f64>,
    /// CPU time of the manager.
    pub cpu: Duration,
    /// The regions that were promoted and not demoted since, after the step of `last`: some programs unmap all of their memory
    /// before they end.
    pub promoted: BTreeSet<RegionRef>,
    /// Looks that were missed when it was recorded.
    pub missed: u64,
    /// Bytes that the hypervisor exchanged for giant pages instead of a copy, for a manager that ran when it was recorded.
    pub recorded_exchanged: u64,
    /// Observations that had more than one look to go by.
    pub merged: u64,
    /// What translating addresses took. `None` where the terms have no processor, and where nobody measured touches.
    pub translation: Option<Translation>,
}

/// Has an engine take its steps on a recording until that is over. Returns what came of it, and the machine at its end.
pub fn follow<M: Player>(mut engine: Engine, mut machine: M) -> (Course, M) {
    let mut points = Points::default();
    let mut means = Means::default();
    let mut last = Point::default();
    let mut promoted = BTreeSet::new();
    while let Ok(report) = engine.step(&mut machine) {
        let point = point(&report, engine.totals(), &machine);
        means.add(points.last.as_ref(), &point);
        points.add(point);
        if point.recorded > 0 {
            last = point;
            promoted = machine.promoted();
        }
        machine.keep_ahead(&report.unmet);
        machine.rest(report.next_interval);
    }
    let course = Course {
        policy: engine.policy_name().to_owned(),
        last,
        points: points.kept,
        totals: engine.totals().clone(),
        mean_coverage: ratio(means.huge, means.resident),
        recorded_coverage: ratio(means.recorded_huge, means.recorded),
        mean_growth: ratio(means.resident, means.recorded),
        cpu: machine.cpu_time(),
        promoted,
        missed: machine.playback().missed(),
        recorded_exchanged: machine.playback().exchanged(),
        merged: machine.playback().merged(),
        translation: machine.playback().translation(),
    };
    (course, machine)
}

/// How it was at a step that has just been taken.
fn point<M: Player>(report: &StepReport, totals: &Totals, machine: &M) -> Point {
    let sum = |of: fn(&ProcessSummary) -> u64| report.processes.iter().map(of).sum::<u64>();
    let at_observation = machine.at_observation();
    let translation = machine.playback().translation();
    Point {
        at: at_observation.at,
        recorded: at_observation.recorded,
        recorded_huge: at_observation.recorded_huge,
        resident: sum(|seen| seen.mapped_bytes) + at_observation.blind,
        huge: sum(|seen| seen.huge_bytes),
        giant: sum(|seen| seen.giant_bytes),
        blind: at_observation.blind,
        free: report.memory.free,
        contiguity: report.memory.contiguity,
        recorded_contiguity: machine.playback().contiguity(),
        copied: totals.bytes_copied - report.actions.bytes_copied,
        promoted: totals.done[ActionKind::Promote] - report.actions.done[ActionKind::Promote],
        demoted: totals.done[ActionKind::Demote] - report.actions.done[ActionKind::Demote],
        translation: translation.map(|taken| taken.time),
        recorded_translation: translation.map(|taken| taken.recorded),
        moved: machine.moved(),
    }
}

/// The points that are kept.
#[derive(Default)]
struct Points {
    kept: Vec<Point>,
    last: Option<Point>,
    /// One point in this many is kept; a power of two.
    step: u32,
    count: u64,
}

impl Points {
    fn add(&mut self, point: Point) {
        if self.count.is_multiple_of(1 << self.step) {
            self.kept.push(point);
        }
        self.count += 1;
        self.last = Some(point);
        if self.kept.len() > MOST_POINTS {
            self.step += 1;
            let mut is_kept = false;
            self.kept.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }
}

/// Bytes times seconds.
#[derive(Default)]
struct Means {
    recorded: f64,
    recorded_huge: f64,
    resident: f64,
    huge: f64,
}

impl Means {
    /// From the last point to this one it was as at the last.
    fn add(&mut self, last: Option<&Point>, now: &Point) {
        let Some(last) = last else {
            return;
        };
        let seconds = now.at.saturating_sub(last.at).as_secs_f64();
        self.recorded += bytes(last.recorded) * seconds;
        self.recorded_huge += bytes(last.recorded_huge) * seconds;
        self.resident += bytes(last.resident) * seconds;
        self.huge += bytes(last.huge) * seconds;
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[allow(clippy::cast_precision_loss, reason = "exact enough for a mean")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_are_thinned_evenly() {
        let mut points = Points::default();
        for second in 0..100_000 {
            points.add(Point {
                at: Duration::from_secs(second),
                ..Point::default()
            });
        }
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&points.kept.len()));
        let gaps: Vec<Duration> = points
            .kept
            .windows(2)
            .map(|two| two[1].at - two[0].at)
            .collect();
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{gaps:?}");
        assert_eq!(
            points.last.map(|last| last.at),
            Some(Duration::from_secs(99_999))
        );
    }
}
