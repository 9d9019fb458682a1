//! One working set, touched in every way, in turns over its two layouts.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_core::worth::calibration::PAGES_PER_LINE;
use mega_core::worth::{Point, Touching};

use super::layout::Half;
use super::statistics::{median, median_with_interval};
use super::touching::{Random, touch, warm};
use crate::kernel::{Kernel, LiveKernel};

/// How often the ways of touching have their turns in each layout that are slow by waiting for each touch: their times scatter the most.
/// Odd, so that there is a middle one.
const TURNS: usize = 27;
/// One in so many of these is a turn of the other ways, too.
const OF_ALL_WAYS: usize = 3;
/// How long it is timed in a turn. The machine's own changes of speed last for longer, so that they meet both layouts.
const SLICE: Duration = Duration::from_millis(2);
/// How often it uses each line of page table entries before, so that the caches hold what they hold of a program that does nothing else:
/// they keep the lines that are used again, and drop the data that is not. Right after the page tables were read, chains of touches over
/// 2 GiB save 60 instead of 130 ns; after the other layout, overlapping touches take 46 instead of 35 ns (Intel Xeon, model 207).
const USES_TO_SETTLE: usize = 16;
/// The most slices that this may take.
const SETTLES_WITHIN: usize = 10;
/// Bytes whose page table entries share a cache line.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is 8
const OF_LINE: u64 = PAGES_PER_LINE as u64 * BASE_PAGE_SIZE;
/// Touches by which the pace is found that decides how many a slice takes.
const TRIAL: usize = 4000;

/// Nanoseconds for each touch, by way of touching and then by turn.
type Times = Vec<Vec<f64>>;

/// Measures a working set of `size` bytes, a power of two, in a layout of smaller pages and one of larger. In its turns it is touched in
/// every way, in one layout and at once in the other: the first of them changes from turn to turn. `work` is what is read beside it.
pub(super) fn take(halves: [Half<'_>; 2], work: &[AtomicU64], size: u64) -> Vec<Point> {
    let mut random = Random::new();
    let touches = paces(halves[0], work, &mut random);
    let mut times = [(); 2].map(|()| vec![Vec::new(); Touching::ALL.len()]);
    // A hypervisor may back memory at its first use only.
    halves.into_iter().for_each(warm);
    for turn in 0..TURNS {
        for (way, (&how, &touches)) in Touching::ALL.iter().zip(&touches).enumerate() {
            let order = [turn % 2, 1 - turn % 2];
            for layout in order.into_iter().filter(|_| has_its_turn(how, turn)) {
                let half = halves[layout];
                // The other layout had its turn before.
                let first = to_settle(how, size, touches);
                touch(how, half, work, first, &mut random);
                times[layout][way].push(timed(how, half, work, touches, &mut random));
            }
        }
    }
    points(size, &times)
}

fn has_its_turn(how: Touching, turn: usize) -> bool {
    let scatters = matches!(how, Touching::Serial | Touching::Busy);
    scatters || turn.is_multiple_of(OF_ALL_WAYS)
}

/// How many touches it takes until each line of page table entries was used [`USES_TO_SETTLE`] times, with so many in a slice; a slice at
/// least, and what [`SETTLES_WITHIN`] allows. Who is busy with other memory finds little in the caches from the start.
fn to_settle(how: Touching, size: u64, of_slice: usize) -> usize {
    if how == Touching::Busy {
        return of_slice;
    }
    #[allow(clippy::cast_possible_truncation, reason = "x86-64: usize is u64")]
    let lines = (size / OF_LINE) as usize;
    let touches = lines * USES_TO_SETTLE * how.pages_of_line();
    touches.clamp(of_slice, SETTLES_WITHIN * of_slice)
}

/// How many touches a slice takes, for each way.
fn paces(words: Half<'_>, work: &[AtomicU64], random: &mut Random) -> Vec<usize> {
    warm(words);
    let of = |&how: &Touching| {
        let ns = timed(how, words, work, TRIAL, random).max(0.1);
        let touches = SLICE.as_nanos() as f64 / ns;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 15 million
        let touches = touches as usize;
        touches.max(TRIAL / 4)
    };
    Touching::ALL.iter().map(of).collect()
}

fn timed(
    how: Touching,
    words: Half<'_>,
    work: &[AtomicU64],
    touches: usize,
    random: &mut Random,
) -> f64 {
    let before = cpu_time();
    touch(how, words, work, touches, random);
    (cpu_time().saturating_sub(before)).as_nanos() as f64 / touches as f64
}

/// CPU time of this thread: what others use of the CPU meanwhile is not in it.
pub(super) fn cpu_time() -> Duration {
    LiveKernel.thread_cpu_time()
}

fn points(size: u64, [smaller, larger]: &[Times; 2]) -> Vec<Point> {
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
