//! What huge pages gain a process, and what making them costs: both in CPU time, so that one can be held against the other.

/// What a process would gain if huge pages mapped all that base pages map now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// CPU time saved, in seconds a second, 0 or more: the most that a measurement does not rule out.
    pub saved: f64,
    /// CPUs that the process uses. While it stands still it loses so many seconds a second.
    pub cpus: f64,
}

/// What the promotion of one region costs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// How long its process stands still.
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
