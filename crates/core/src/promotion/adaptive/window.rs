//! How long an observation watched, and what observations of that length see.
//!
//! The longer a program is watched, the more of its pages it uses (Denning's working set, of a window): one that asks for keys by Zipf's
//! law uses three times as many in ten seconds as in three. So what two observations saw is only compared where they watched for about as
//! long.

/// Lengths double from one to the next.
const LENGTHS: usize = 6;
/// The shortest is up to this, somewhat more than the engine's shortest interval; the longest is more than 16 times this, 4.8 s.
const SHORTEST: f64 = 0.3;

/// About how long an observation watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window(usize);

impl Window {
    pub(super) const LONGEST: Window = Window(LENGTHS - 1);

    /// That of an observation over so many seconds.
    pub(super) fn of(seconds: f64) -> Window {
        let longer = |doublings: &usize| seconds > SHORTEST * f64::from(1 << doublings);
        Window((0..LENGTHS - 1).filter(longer).count())
    }
}

/// The most translations seen, by how long was watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct MostSeen([f64; LENGTHS]);

impl MostSeen {
    pub(super) fn new(translations: f64, window: Window) -> MostSeen {
        let mut most = MostSeen([0.0; LENGTHS]);
        most.see(translations, window);
        most
    }

    /// Who watches for longer sees no fewer.
    pub(super) fn see(&mut self, translations: f64, window: Window) {
        for most in &mut self.0[window.0..] {
            *most = most.max(translations);
        }
    }

    /// What is seen at most in such a window, at least 1. Where nobody watched for as short, it is what the next longer one saw.
    pub(super) fn within(&self, window: Window) -> f64 {
        let seen = self.0[window.0..].iter().find(|most| **most > 0.0);
        seen.map_or(1.0, |most| most.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::Interval;

    #[test]
    fn intervals_that_the_engine_takes_have_windows_of_their_own() {
        let seconds = [0.0, 0.25, 0.375, 1.0, 2.4, 4.0, 9.6];
        let windows = seconds.map(|seconds| Window::of(seconds).0);
        assert_eq!(windows, [0, 0, 1, 2, 3, 4, 5]);
        let of = |interval: Duration| Window::of(interval.as_secs_f64());
        assert_eq!(of(Interval::SHORTEST), Window::default());
        assert_eq!(of(Interval::LONGEST), Window::LONGEST);
        assert_eq!(of(Duration::MAX), Window::LONGEST);
    }

    proptest! {
        /// It is the most of all that watched for no longer.
        #[test]
        fn who_watches_for_longer_sees_no_fewer(seen in prop::collection::vec((0.0..1e6_f64, 0..LENGTHS), 1..20)) {
            let mut most = MostSeen::new(seen[0].0, Window(seen[0].1));
            for (translations, length) in &seen[1..] {
                most.see(*translations, Window(*length));
            }
            for length in 0..LENGTHS {
                let within = seen.iter().filter(|(_, other)| *other <= length);
                let expected = within.fold(0.0, |most: f64, (translations, _)| most.max(*translations));
                let found = most.within(Window(length));
                prop_assert!(found >= expected);
                if expected >= 1.0 {
                    prop_assert!(found <= expected);
                }
            }
        }
    }
}
