//! `grow --bursts`: memory that grows and is freed again and again, alone or beside a busy area that another thread
//! updates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::access::{map, ready, sum, sum_of_touched, touch};
use super::arguments::{Common, Growth};
use super::first_touch::FirstTouches;
use super::grow::Grown;
use super::pin;
use super::random::Updates;
use super::report::{Done, Reporter};
use super::slices::Work;
use super::stop::Stop;
use crate::error::Error;

/// How long the busy thread works between two looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(
    common: &Common,
    growth: &Growth,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let Some(bytes) = growth.busy else {
        // No area is told: none lasts.
        reporter.ready(Vec::new())?;
        return grow_again_and_again(common, growth.objects, stop);
    };
    let mut area = map(bytes)?;
    touch(&mut area, 1, common.seed);
    let before = sum_of_touched(&area, 1, common.seed);
    ready("busy", &area, common, reporter)?;
    let mut updates = Updates::new(&mut area, 1, common.seed);
    let done = beside(&mut updates, || {
        grow_again_and_again(common, growth.objects, stop)
    })?;
    let expected = before.wrapping_add(updates.added());
    let right = sum(&area) == expected;
    Ok(done.and(right))
}

/// Does `work` while another thread goes on with the updates.
fn beside<R>(updates: &mut Updates<'_>, work: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                updates.work(1, Instant::now() + LOOK);
            }
        });
        // The updates are thread 0's.
        pin::keep_thread(1);
        let result = work();
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Maps, grows, checks and frees until `stop`, at least once.
fn grow_again_and_again(common: &Common, objects: bool, stop: &mut Stop) -> Result<Done, Error> {
    let mut touches = FirstTouches::new()?;
    let (mut bursts, mut wrong) = (0, 0);
    stop.start();
    while bursts == 0 || !stop.reached() {
        let seed = common.seed.wrapping_add(bursts);
        let grown = Grown::new(common.size(), objects, seed, &mut touches)?;
        let (found, expected) = grown.sums();
        wrong += u64::from(found != expected);
        bursts += 1;
    }
    let mut done = Done::new(stop.elapsed(), touches.count())?;
    done.first_touch = Some(touches.summary());
    Ok(done.checked(wrong, 0))
}
