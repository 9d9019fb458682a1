//! What huge pages gain a process, and what making them costs: both in CPU time, so that one can be held against the other.

use serde::Serialize;

use crate::worth::{Estimate, Worth};

/// How many times as old as at its last measurement a process must be, by the clock or by its CPU time, to be measured again, where that
/// lets nothing be promoted. So what measurements cost falls with time; and one that rested for days is measured soon once it works.
pub const MEASURE_AGAIN: f64 = 2.0;
/// How many times as much it must have to gain from to have grown since: it was measured while it filled its memory.
pub const HAS_GROWN: f64 = 1.5;

/// What a process would gain if huge pages mapped all that base pages map now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The share of its CPU time that huge pages would save, 0 to 1.
    pub saved_share: Estimate,
    /// CPUs that the process uses: the CPU seconds that it loses in each second that it stands still.
    pub cpus: f64,
    /// CPU seconds that it takes to make all of its memory huge.
    pub cost_cpu_seconds: f64,
    /// Seconds until its savings exceed that; `None` where it may gain nothing.
    pub payback_seconds: Option<f64>,
    /// The share of its CPU time that giant pages would save on what huge pages map; `None` where that is not known.
    pub saved_by_giant_share: Option<Estimate>,
    /// Bytes of base pages that it keeps touching, as far as a measurement can tell ([`Worth::working_set`]).
    #[serde(skip)]
    pub working_set: u64,
}

impl Gain {
    /// CPU time saved, in seconds a second: the most that the measurement does not rule out.
    #[must_use]
    pub fn saved_at_most(&self) -> f64 {
        self.saved_share.high * self.cpus
    }
}

impl From<&Worth> for Gain {
    fn from(worth: &Worth) -> Self {
        Gain {
            saved_share: worth.saved_share,
            cpus: worth.cpu_share,
            cost_cpu_seconds: worth.cost_cpu_seconds,
            payback_seconds: worth.payback_seconds,
            saved_by_giant_share: worth.saved_by_giant_share,
            working_set: worth.working_set,
        }
    }
}

/// What the promotion of one region costs, in seconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// The copy: the manager works, and the process stands still.
    pub copy: f64,
    /// What it takes to have a free block backed by the hypervisor: the manager works, and the process runs on.
    pub block: f64,
    /// How much of a CPU the manager takes from others while it works, 0 to 1: none where one is idle.
    pub busy: f64,
}

impl Default for Price {
    /// Before anything was measured: what a copy into a block that is backed takes on a 2-core virtual machine (Linux 6.18).
    fn default() -> Self {
        Price {
            copy: 0.6e-3,
            block: 0.0,
            busy: 0.5,
        }
    }
}

impl Price {
    /// Seconds of CPU time for the promotion of a region of a process with that gain. While a process stands still, the manager
    /// works on the CPUs that it leaves.
    #[must_use]
    pub fn cpu_seconds(&self, gain: &Gain) -> f64 {
        self.for_cpus(gain.cpus)
    }

    /// The same for a process that uses one CPU.
    #[must_use]
    pub fn of_one_cpu(&self) -> f64 {
        self.for_cpus(1.0)
    }

    fn for_cpus(&self, cpus: f64) -> f64 {
        self.copy * cpus.max(self.busy) + self.block * self.busy
    }

    /// Whether a promotion has become more than twice as dear as it was at `before`, for a process that uses one CPU.
    #[must_use]
    pub fn is_dearer_than(&self, before: &Price) -> bool {
        self.of_one_cpu() > 2.0 * before.of_one_cpu()
    }
}

/// What a policy is told before it decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circumstances {
    /// Whether the interval counts where the policy counts intervals: short ones count only together.
    pub counts: bool,
    /// Whether the machine can measure what a process would gain ([`crate::Policy::unmeasured`]).
    pub measures: bool,
    /// What a promotion to a huge page costs at present.
    pub price: Price,
    /// Whether it was seen a short time ago what it takes to have a block backed ([`crate::Policy::asks_for_price`]).
    pub knows_blocks: bool,
}

impl Default for Circumstances {
    fn default() -> Self {
        Circumstances {
            counts: true,
            measures: false,
            price: Price::default(),
            knows_blocks: true,
        }
    }
}
