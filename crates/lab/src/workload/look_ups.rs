//! Look-ups in read-only memory, by any number of threads.

use std::time::Instant;

use super::slices::{Work, in_threads, until};

/// Look-ups between two looks at the clock: at most some milliseconds.
const BATCH: u64 = 1 << 10;

/// Look-ups, each told by its number, and how many of them found something wrong.
pub(super) struct LookUps<F> {
    /// Where each thread is.
    places: Vec<Place>,
    /// Does the look-up of a number; whether it found the right thing.
    one: F,
}

/// In cache lines of its own, as the next one is another thread's; processors fetch them in pairs.
#[repr(align(128))]
struct Place {
    next: u64,
    wrong: u64,
}

impl<F: Fn(u64) -> bool + Sync> LookUps<F> {
    /// Look-ups by up to that many threads, which start evenly spread over `0..numbers` and go on beyond.
    pub(super) fn new(threads: usize, numbers: u64, one: F) -> Self {
        let step = numbers / threads.max(1) as u64;
        let places = (0..threads.max(1) as u64)
            .map(|thread| Place {
                next: thread * step,
                wrong: 0,
            })
            .collect();
        LookUps { places, one }
    }

    /// Whether all look-ups so far found the right thing.
    pub(super) fn all_right(&self) -> bool {
        self.places.iter().all(|place| place.wrong == 0)
    }
}

impl<F: Fn(u64) -> bool + Sync> Work for LookUps<F> {
    fn work(&mut self, threads: usize, end: Instant) -> u64 {
        let one = &self.one;
        in_threads(self.places.iter_mut().take(threads), |place| {
            until(end, || {
                for number in place.next..place.next.wrapping_add(BATCH) {
                    place.wrong += u64::from(!one(number));
                }
                place.next = place.next.wrapping_add(BATCH);
                BATCH
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_that_finds_the_wrong_thing_is_told() {
        let end = || Instant::now() + Duration::from_millis(2);
        let mut right = LookUps::new(2, 1000, |_| true);
        assert!(right.work(2, end()) >= 2 * BATCH);
        assert!(right.all_right());
        let mut wrong = LookUps::new(2, 1000, |number| number != 500);
        wrong.work(2, end());
        assert!(!wrong.all_right());
    }
}
