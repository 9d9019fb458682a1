//! The order in which programs start and take turns, the number of turns, and their length.

use std::time::Duration;

/// A turn: two slices of one thread and two of all of them.
const TURN: Duration = Duration::from_millis(200);

/// How many turns each program has, and how long each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// An even number: every second cycle is the reverse of the one before, so that what gets steadily faster or slower
    /// meanwhile is the same for all.
    pub(super) count: u32,
    pub(super) length: Duration,
}

impl Turns {
    /// As many as it takes until each has worked for `measured`, at least two.
    pub(super) fn of(measured: Duration) -> Self {
        let pairs = measured.as_nanos().div_ceil(2 * TURN.as_nanos()).max(1);
        Turns {
            count: u32::try_from(2 * pairs).unwrap_or(u32::MAX - 1),
            length: TURN.min(measured / 2),
        }
    }

    /// How far into its program's turn a manager goes on, whose last observation was so made that the next one is due at
    /// once. It makes as many observations in each second that its program works as in any other, and over the turns
    /// they fall into all parts of them alike.
    pub(super) fn manager_after(self, turn: u32, interval: Duration) -> Duration {
        let share = (f64::from(turn) + 0.5) / f64::from(self.count);
        interval.mul_f64(share.clamp(0.0, 1.0))
    }
}

/// The order in which the programs of so many modes are started in a round, from 1 on: each is the first one in turn,
/// as who comes first gets other physical memory.
pub(in crate::live) fn of_starts(modes: usize, round: u32) -> Vec<usize> {
    rotated(modes, round.saturating_sub(1) as usize)
}

/// The order in which they work in a turn, from 0 on: each pair of turns there and back, the next one beginning with the
/// next program.
pub(super) fn of_turn(modes: usize, round: u32, turn: u32) -> Vec<usize> {
    let first = round.saturating_sub(1) as usize + (turn / 2) as usize;
    let mut order = rotated(modes, first);
    if turn % 2 == 1 {
        order.reverse();
    }
    order
}

fn rotated(modes: usize, by: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..modes).collect();
    order.rotate_left(by.checked_rem(modes).unwrap_or(0));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{prop_assert, prop_assert_eq};

    #[test]
    fn the_first_rounds() {
        assert_eq!(of_starts(3, 1), [0, 1, 2]);
        assert_eq!(of_starts(3, 2), [1, 2, 0]);
        assert_eq!(of_starts(3, 4), [0, 1, 2]);
        assert_eq!(of_turn(3, 1, 0), [0, 1, 2]);
        assert_eq!(of_turn(3, 1, 1), [2, 1, 0]);
        assert_eq!(of_turn(3, 1, 2), [1, 2, 0]);
        assert_eq!(of_turn(3, 2, 0), [1, 2, 0]);
        assert!(of_turn(0, 1, 1).is_empty());
    }

    #[test]
    fn turns_are_of_a_fifth_of_a_second_where_there_is_time() {
        let of = |milliseconds| Turns::of(Duration::from_millis(milliseconds));
        let turns = |count, milliseconds| Turns {
            count,
            length: Duration::from_millis(milliseconds),
        };
        assert_eq!(of(3000), turns(16, 200));
        assert_eq!(of(4000), turns(20, 200));
        assert_eq!(of(4001), turns(22, 200));
        assert_eq!(of(100), turns(2, 50));
    }

    #[test]
    fn a_managers_observations_are_spread_over_the_turn() {
        let turns = Turns::of(Duration::from_secs(4));
        let after = |turn| turns.manager_after(turn, Duration::from_millis(800));
        assert_eq!(after(0), Duration::from_millis(20));
        assert_eq!(after(19), Duration::from_millis(780));
    }

    proptest::proptest! {
        #[test]
        fn every_program_has_its_turn_as_early_as_the_others(
            modes in 1..20_usize, round in 1..100_u32, pairs in 1..50_u32
        ) {
            let mut places = vec![0; modes];
            for turn in 0..2 * pairs {
                for (place, program) in of_turn(modes, round, turn).into_iter().enumerate() {
                    places[program] += place;
                }
            }
            let each = pairs as usize * (modes - 1);
            prop_assert!(places.iter().all(|sum| *sum == each), "{places:?}");
        }

        #[test]
        fn every_program_is_the_first_one_as_often(modes in 1..20_usize) {
            let rounds = u32::try_from(modes).unwrap();
            let mut first: Vec<usize> = (1..=rounds).map(|round| of_starts(modes, round)[0]).collect();
            first.sort_unstable();
            prop_assert_eq!(first, (0..modes).collect::<Vec<_>>());
        }

        #[test]
        fn the_turns_are_at_least_what_is_measured(milliseconds in 10..3_600_000_u64) {
            let measured = Duration::from_millis(milliseconds);
            let turns = Turns::of(measured);
            prop_assert!(turns.count >= 2 && turns.count.is_multiple_of(2));
            prop_assert!(turns.length * turns.count >= measured);
        }

        #[test]
        fn a_manager_goes_on_within_its_interval(
            milliseconds in 10..3_600_000_u64, interval in 10..3_600_000_u64
        ) {
            let turns = Turns::of(Duration::from_millis(milliseconds));
            let interval = Duration::from_millis(interval);
            prop_assert!((0..turns.count).all(|turn| turns.manager_after(turn, interval) < interval));
        }
    }
}
