//! Work on several things at the same time, as many as there are CPUs.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does the work for each thing; what comes of it is in the order of the things. Once one has failed, no other is begun.
///
/// # Errors
/// The failure of the first thing that failed, in their order.
pub(super) fn side_by_side<T: Sync, R: Send, E: Send>(
    things: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(place) else {
                return done;
            };
            let result = work(thing);
            if result.is_err() {
                next.store(things.len(), Ordering::Relaxed);
            }
            done.push((place, result));
        }
    };
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let mut done: Vec<(usize, Result<R, E>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cpus.min(things.len()))
            .map(|_| scope.spawn(worker))
            .collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_things() {
        let things: Vec<u64> = (0..50).collect();
        let slower_at_first = |thing: &u64| {
            thread::sleep(std::time::Duration::from_micros(500 / (thing + 1)));
            Ok::<u64, ()>(thing * 2)
        };
        let expected: Vec<u64> = things.iter().map(|thing| thing * 2).collect();
        assert_eq!(side_by_side(&things, slower_at_first), Ok(expected));
        assert_eq!(side_by_side(&[], |()| Ok::<(), ()>(())), Ok(Vec::new()));
    }

    #[test]
    fn nothing_is_begun_after_a_failure() {
        let things: Vec<u64> = (0..10_000).collect();
        let begun = AtomicUsize::new(0);
        let fails = |thing: &u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            Err::<(), u64>(*thing)
        };
        assert!(side_by_side(&things, fails).is_err());
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        assert!(begun.into_inner() <= cpus);
    }
}
