//! When the programs of recordings begin: once each of them has the memory that it had at its first look.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use mega_sim::{Memory, Work};

/// How often it is asked whether all have begun.
pub(super) const POLL: Duration = Duration::from_millis(10);

/// Shared by all that begin together.
#[derive(Clone, Debug, Default)]
pub struct Start(Rc<RefCell<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Programs that are not ready yet.
    missing: usize,
    /// When all were, in cycles.
    began: Option<u64>,
}

impl Start {
    /// One more will have to be ready.
    pub(super) fn wait_for_one_more(&self) {
        self.0.borrow_mut().missing += 1;
    }

    /// One is ready, at a time in cycles.
    pub(super) fn ready(&self, now: u64) {
        let mut waiting = self.0.borrow_mut();
        waiting.missing = waiting.missing.saturating_sub(1);
        if waiting.missing == 0 {
            waiting.began.get_or_insert(now);
        }
    }

    /// When the recordings began to run, in cycles. `None` until then.
    #[must_use]
    pub fn began(&self) -> Option<u64> {
        self.0.borrow().began
    }
}

/// Rests until a time in cycles; goes on where that is past.
pub(super) fn rest_until(memory: &Memory<'_>, at: u64, hertz: u64) -> Work {
    match at.saturating_sub(memory.now()) {
        0 => Work::GoesOn,
        #[allow(clippy::cast_precision_loss)] // times of one experiment
        cycles => Work::Rests(Duration::from_secs_f64(cycles as f64 / hertz as f64)),
    }
}

/// A time in cycles; the longest where there are more.
pub(super) fn cycles(time: Duration, hertz: u64) -> u64 {
    let cycles = time.as_nanos() * u128::from(hertz) / 1_000_000_000;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}
