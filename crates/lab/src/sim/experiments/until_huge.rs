//! How soon the memory of some processes is huge.

use std::time::Duration;

use mega_core::Machine;
use mega_sim::kernel::Pid;

use crate::sim::numbers::share;
use crate::sim::testbed::Testbed;

/// The part that counts as nearly all.
const NEARLY_ALL: f64 = 0.95;
/// How exactly it is told when that was so.
const STEP: Duration = Duration::from_secs(5);

/// How it was once nearly all was huge, or in the end.
#[derive(Clone, Copy)]
pub(super) struct UntilHuge {
    /// Seconds until nearly all was; `None` where it did not come to that.
    pub(super) time: Option<f64>,
    /// The part that was huge.
    pub(super) huge: f64,
}

/// Runs until nearly all of the processes' memory, of so many bytes together, is huge, but no longer than `limit`.
pub(super) fn until_huge(bed: &mut Testbed, pids: &[Pid], all: u64, limit: Duration) -> UntilHuge {
    let mut huge = 0.0;
    let is_huge = bed.run_until(limit, STEP, |bed| {
        huge = share(pids.iter().map(|pid| bed.mapped(*pid).huge).sum(), all);
        huge >= NEARLY_ALL
    });
    UntilHuge {
        time: is_huge.then(|| bed.machine.now().as_secs_f64()),
        huge,
    }
}
