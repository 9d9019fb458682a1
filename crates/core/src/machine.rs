//! The trait in which policy and mechanism meet.

use std::time::Duration;

use crate::action::{Action, Outcome};
use crate::gain::Gain;
use crate::observation::{Glance, Observation, RegionRef};
use crate::process::ProcessId;

/// Something with processes, memory and huge pages: the live kernel, a simulator, or a test's own.
pub trait Machine {
    /// Why an observation could not be made at all. One process that vanished is not an error; it is
    /// left out of the observation.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Time since some fixed moment, never going backwards.
    fn now(&self) -> Duration;

    /// CPU time the manager itself has used since some fixed moment.
    fn cpu_time(&self) -> Duration;

    /// Says of which processes the policy wants to know what they access, from the next [`Machine::observe`] on: of all, where nobody
    /// says otherwise. To find it out makes a process that works slower for a moment, so of others the machine need not
    /// ([`crate::observation::ProcessObservation::accesses_known`]).
    fn watch(&mut self, _wanted: &dyn Fn(ProcessId) -> bool) {}

    /// Reports every managed process's regions with what was accessed since the last call, and starts
    /// the next interval (clears the Accessed bits).
    ///
    /// # Errors
    ///
    /// When nothing can be observed any more, for example because a privilege was dropped.
    fn observe(&mut self) -> Result<Observation, Self::Error>;

    /// Whether it can look again soon after [`Machine::observe`] cleared Accessed bits, without clearing them.
    fn can_glance(&self) -> bool {
        false
    }

    /// What processes that are watched accessed since [`Machine::observe`] cleared their Accessed bits: of the regions that base pages map
    /// and whose bits it cleared. Clears nothing, so the next observation sees it again.
    fn glance(&mut self) -> Vec<Glance> {
        Vec::new()
    }

    /// Counts the zero-filled base pages of one region, 0 to 512. `None` when it cannot be read (gone,
    /// or not permitted). Costs about one pass over the region's memory.
    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16>;

    /// Whether it can say what a process would gain from huge pages.
    fn measures(&self) -> bool {
        false
    }

    /// What a process would gain from huge pages; `None` where that cannot be measured now. Takes some tenths of a second.
    fn gain(&mut self, _process: ProcessId) -> Option<Gain> {
        None
    }

    /// For how long a process has lived, as far as the machine knows; zero where it does not, which takes it for a young one.
    fn age(&self, _process: ProcessId) -> Duration {
        Duration::ZERO
    }

    /// CPU seconds that the promotion of a region into a block that is backed takes here, as somebody measured it once; `None`
    /// where nobody has.
    fn promotion_seconds(&self) -> Option<f64>;

    /// Prepares the next `promotions` promotions to huge pages, so that their targets stand still for less time. May do nothing.
    fn prepare(&mut self, _promotions: usize) {}

    /// Lets time pass, in which the targets run.
    fn rest(&mut self, time: Duration);

    /// Performs `actions` in order, verifies each by looking again, and reports one outcome for each,
    /// in the same order. Actions of one process on neighbouring regions may share one system call.
    /// Holds no target's mmap lock longer than the machine's lock bound, as far as what it does can be cut.
    fn act(&mut self, actions: &[Action]) -> Vec<Outcome>;
}
