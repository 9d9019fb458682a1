//! One working set, touched in every way, in turns over its layouts.

use std::time::Duration;

use mega_core::worth::{Point, Touching};

use super::layout::{Layout, Layouts};
use super::statistics::{median, median_with_interval};
use super::touching::{Random, touch, warm};
use crate::observe::tracker::own_memory::OwnMemory;

/// How often each layout has its turn. Odd, so that there is a middle one.
const TURNS: usize = 9;
/// How long each way of touching takes in a turn.
const SLICE: Duration = Duration::from_millis(2);
/// Touches by which the pace is found that decides how many a slice takes.
const TRIAL: usize = 4000;

/// What was measured over one working set.
pub(super) struct OfSize {
    /// Base pages against huge pages.
    pub(super) points: Vec<Point>,
    /// Scattered base pages against huge pages; empty where they were not measured.
    pub(super) scattered: Vec<Point>,
}

/// Nanoseconds for each touch, by way of touching and then by turn.
type Times = Vec<Vec<f64>>;

/// Measures a working set of `size` bytes, a power of two. Each turn warms a layout up and touches it in every way. The
/// layouts follow each other always in the same order, so that each finds the caches full of another.
pub(super) fn take(layouts: &Layouts, size: u64) -> OfSize {
    let mut random = Random::new();
    let there: Vec<(Layout, &OwnMemory)> = [Layout::Base, Layout::Scattered, Layout::Huge]
        .into_iter()
        .filter_map(|layout| Some((layout, layouts.memory(layout, size)?)))
        .collect();
    let touches = there
        .first()
        .map_or_else(Vec::new, |(_, memory)| paces(memory, size, &mut random));
    let mut times: Vec<Times> = vec![vec![Vec::new(); Touching::ALL.len()]; there.len()];
    for _ in 0..TURNS {
        for (number, (_, memory)) in there.iter().enumerate() {
            let words = memory.words(size);
            warm(words);
            for (way, &how) in Touching::ALL.iter().enumerate() {
                touch(how, words, touches[way] / 3, &mut random);
                times[number][way].push(timed(how, words, touches[way], &mut random));
            }
        }
    }
    let of = |layout| {
        there
            .iter()
            .position(|(other, _)| *other == layout)
            .map(|number| &times[number])
    };
    let against_huge = |layout| match (of(layout), of(Layout::Huge)) {
        (Some(base), Some(huge)) => points(size, base, huge),
        _ => Vec::new(),
    };
    OfSize {
        points: against_huge(Layout::Base),
        scattered: against_huge(Layout::Scattered),
    }
}

/// How many touches a slice takes, for each way.
fn paces(memory: &OwnMemory, size: u64, random: &mut Random) -> Vec<usize> {
    let words = memory.words(size);
    warm(words);
    let of = |&how: &Touching| {
        let ns = timed(how, words, TRIAL, random).max(0.1);
        let touches = SLICE.as_nanos() as f64 / ns;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 15 million
        let touches = touches as usize;
        touches.max(TRIAL / 4)
    };
    Touching::ALL.iter().map(of).collect()
}

fn timed(
    how: Touching,
    words: &[std::sync::atomic::AtomicU64],
    touches: usize,
    random: &mut Random,
) -> f64 {
    let before = cpu_time();
    touch(how, words, touches, random);
    (cpu_time().saturating_sub(before)).as_nanos() as f64 / touches as f64
}

/// CPU time of this thread: what others use of the CPU meanwhile is not in it.
pub(super) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

fn points(size: u64, smaller: &Times, larger: &Times) -> Vec<Point> {
    let point = |(way, &touching): (usize, &Touching)| {
        let ns = median(&smaller[way]).max(0.1);
        let saved: Vec<f64> = smaller[way]
            .iter()
            .zip(&larger[way])
            .map(|(smaller, larger)| (smaller - larger).min(0.99 * ns))
            .collect();
        Point {
            working_set: size,
            touching,
            ns,
            saved: median_with_interval(&saved),
        }
    };
    Touching::ALL.iter().enumerate().map(point).collect()
}
