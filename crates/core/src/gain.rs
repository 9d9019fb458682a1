//! What huge pages gain a process, and what making them costs: both in CPU time, so that one can be held against the other.

use serde::Serialize;

use crate::worth::{Estimate, Worth};

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
        }
    }
}

/// What the promotion of one region costs, in seconds of CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// What each CPU loses that its process uses, because it stands still.
    pub standstill: f64,
    /// CPU time of the manager that others would have used: none where a CPU is idle.
    pub cpu: f64,
}

impl Default for Price {
    /// Before anything was measured: what a copy into a block that is backed takes on a 2-core virtual machine (Linux 6.18).
    fn default() -> Self {
        Price {
            standstill: 0.6e-3,
            cpu: 0.6e-3,
        }
    }
}

impl Price {
    /// Seconds of CPU time for the promotion of a region of a process with that gain.
    #[must_use]
    pub fn cpu_seconds(&self, gain: &Gain) -> f64 {
        self.standstill * gain.cpus + self.cpu
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
}

impl Default for Circumstances {
    fn default() -> Self {
        Circumstances {
            counts: true,
            measures: false,
            price: Price::default(),
        }
    }
}
