//! Work in slices of time, in one thread, or in one and in several in turn, so that one run measures both rates under
//! the same conditions.

use std::thread;
use std::time::{Duration, Instant};

use super::pin;
use super::rates::Rates;
use super::report::{AllThreads, Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

/// How long a slice is where all are alike.
const ALONE: Duration = Duration::from_millis(100);
/// How long a slice is where so many operations are to be done, and hardly more.
const COUNTED: Duration = Duration::from_millis(10);
/// How long a slice is where one thread and several take turns: long against starting threads, and short against what
/// changes a virtual machine's speed.
const IN_TURN: Duration = Duration::from_millis(50);

/// Work over memory that any number of threads can share.
pub(super) trait Work {
    /// Goes on with the work in that many threads until `end`; returns the operations of all of them.
    fn work(&mut self, threads: usize, end: Instant) -> u64;
}

/// Works until `stop`: in one thread, or, where `threads` is more than one, in one and in all of them in turn. Where it is
/// told to rest, it has done as many slices of the one kind as of the other, and no rate counts the rest.
///
/// # Errors
/// When standard output cannot be written, or this process's resident memory not be read.
pub(super) fn run(
    work: &mut impl Work,
    threads: usize,
    reporter: &Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut one = Rates::default();
    let mut all = Rates::default();
    let mut operations = 0;
    let wanted = stop.operations();
    let alone = wanted.map_or(ALONE, |_| COUNTED);
    stop.start();
    loop {
        if threads > 1 {
            operations += slice(work, 1, &mut one, stop, stop.slice_end(IN_TURN, 2));
            slice(work, threads, &mut all, stop, stop.slice_end(IN_TURN, 2));
        } else {
            operations += slice(work, 1, &mut one, stop, stop.slice_end(alone, 1));
        }
        if let Some(rest) = stop.to_rest() {
            reporter.resting(stop.elapsed())?;
            stop.rest(rest);
        }
        if stop.reached() || wanted.is_some_and(|wanted| operations >= wanted) {
            break;
        }
    }
    let elapsed = stop.elapsed();
    // Resident memory is taken before the caller's checks, which touch every page.
    let mut done = Done::new(elapsed, operations)?;
    done.operations_per_second = one.since(0.0).unwrap_or_default();
    done.operations_per_second_over_time = one;
    done.steady_operations_per_second = done.rate_over_last(elapsed / 4);
    done.all_threads = (threads > 1).then_some(AllThreads {
        threads,
        operations_per_second_over_time: all,
    });
    Ok(done)
}

/// One slice; returns its operations.
fn slice(
    work: &mut impl Work,
    threads: usize,
    rates: &mut Rates,
    stop: &Stop,
    end: Instant,
) -> u64 {
    let from = stop.elapsed();
    let operations = work.work(threads, end);
    rates.push(from, stop.elapsed(), operations);
    operations
}

/// Works on every part in a thread of its own; returns the sum of what they return.
pub(super) fn in_threads<P: Send>(
    parts: impl Iterator<Item = P>,
    work: impl Fn(P) -> u64 + Sync,
) -> u64 {
    let work = &work;
    thread::scope(|scope| {
        let start = |(number, part)| {
            scope.spawn(move || {
                pin::keep_thread(number);
                work(part)
            })
        };
        let threads: Vec<_> = parts.enumerate().map(start).collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(operations) => operations,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .sum()
    })
}

/// Has a batch done after the other until `end`, at least one, as a thread may be late; returns the sum of the operations
/// that each says it did.
pub(super) fn until(end: Instant, mut batch: impl FnMut() -> u64) -> u64 {
    let mut operations = batch();
    while Instant::now() < end {
        operations += batch();
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it is asked for.
    struct Count(Vec<usize>);

    fn reporter() -> Reporter {
        Reporter::new("count", 1, true)
    }

    impl Work for Count {
        fn work(&mut self, threads: usize, end: Instant) -> u64 {
            self.0.push(threads);
            in_threads(0..threads, |_| until(end, || 1))
        }
    }

    #[test]
    fn one_thread_and_all_of_them_take_turns() {
        let mut count = Count(Vec::new());
        let done = run(
            &mut count,
            3,
            &reporter(),
            &mut Stop::new(Some(0.02), false),
        )
        .unwrap();
        assert_eq!(count.0[..2], [1, 3]);
        assert!(done.operations > 0 && done.operations_per_second > 0.0);
        assert_eq!(done.all_threads.as_ref().unwrap().threads, 3);
        assert!(done.all_threads_rate_over_last(Duration::from_secs(1)) > Some(0.0));
    }

    #[test]
    fn it_ends_once_enough_is_done() {
        let mut count = Count(Vec::new());
        let done = run(&mut count, 1, &reporter(), &mut Stop::after(1)).unwrap();
        assert_eq!(count.0.len(), 1);
        let more = done.operations + 1;
        let mut count = Count(Vec::new());
        let done = run(&mut count, 1, &reporter(), &mut Stop::after(more)).unwrap();
        assert!(done.operations >= more);
    }

    #[test]
    fn one_thread_alone_has_all_the_time() {
        let mut count = Count(Vec::new());
        let done = run(
            &mut count,
            1,
            &reporter(),
            &mut Stop::new(Some(0.01), false),
        )
        .unwrap();
        assert_eq!(count.0, [1]);
        assert_eq!(done.all_threads, None);
        assert_eq!(done.operations_per_second_over_time.0.len(), 1);
        let shortest = run(&mut count, 1, &reporter(), &mut Stop::new(Some(0.0), false)).unwrap();
        assert_eq!(shortest.operations, 1);
    }
}
