//! The parameters of `adaptive`.

use crate::parameters::{ParameterInfo, Removed, Values};
use crate::promotion::info::PolicyInfo;

use super::Adaptive;

const PAYBACK_HORIZON: ParameterInfo = ParameterInfo {
    name: "payback_horizon",
    summary: "seconds within which what is done must be paid back; never longer than the memory has lived",
    unit: "seconds",
    default: 600.0,
    min: 1.0,
    max: 86_400.0,
};
const BLOAT_ALLOWED: ParameterInfo = ParameterInfo::share(
    "bloat_allowed",
    "what promotions may add to a process, as a share of what it has resident",
    0.02,
);
const KEEP_FREE: ParameterInfo = ParameterInfo::share(
    "keep_free",
    "share of memory, of the machine and of a limited memory cgroup, to keep available: below, nothing is promoted and bloat is given back until half as much again is",
    0.1,
);
const TLB_ENTRIES: ParameterInfo = ParameterInfo {
    name: "tlb_entries",
    summary: "translations that fit the processor's TLB: a process that uses no more is left alone (1536: Intel cores since Skylake; newer ones have 2048)",
    unit: "entries",
    default: 1536.0,
    min: 0.0,
    max: 65535.0,
};

/// What there was before all was one comparison.
const REMOVED: &[Removed] = &[
    Removed::by_price("min_utilization"),
    Removed::by_price("max_utilization"),
    Removed::by_price("plentiful_contiguity"),
    Removed::by_price("min_age"),
    Removed::by_price("cold_intervals"),
    Removed::by_price("min_zero_filled"),
    Removed::by_price("hot_zero_filled"),
    Removed::by_price("giant_in_use"),
    Removed {
        name: "full_mapped",
        instead: "all that promotions add counts now: set 'bloat_allowed'",
    },
    Removed {
        name: "bloat_budget",
        instead: "it is called 'bloat_allowed' now",
    },
    Removed {
        name: "pressure_start",
        instead: "it is called 'keep_free' now",
    },
    Removed {
        name: "pressure_stop",
        instead: "it is always 1.5 times 'keep_free' now",
    },
];

pub(in crate::promotion) const INFO: PolicyInfo = PolicyInfo {
    name: "adaptive",
    summary: "promotes what saves more CPU time than it costs, at the price that blocks and memory have now; demotes by the same comparison while memory is short",
    source: "this project; what it takes from MEGA, Ingens and HawkEye is in its documentation",
    parameters: &[PAYBACK_HORIZON, BLOAT_ALLOWED, KEEP_FREE, TLB_ENTRIES],
    removed: REMOVED,
    for_giant_pages: false,
    sequential_chunks: false,
    ordered: &[],
    build: |values| Box::new(Adaptive::new(Settings::new(values))),
};

/// The parameters' values; what each means is said above.
pub(super) struct Settings {
    pub(super) payback_horizon: f64,
    pub(super) bloat_allowed: f64,
    pub(super) keep_free: f64,
    pub(super) tlb_entries: f64,
}

impl Settings {
    fn new(values: Values<'_>) -> Self {
        Settings {
            payback_horizon: values.get(&PAYBACK_HORIZON),
            bloat_allowed: values.get(&BLOAT_ALLOWED),
            keep_free: values.get(&KEEP_FREE),
            tlb_entries: values.get(&TLB_ENTRIES),
        }
    }

    /// Seconds that memory is expected to live which has lived so long: as long again, but no longer than the horizon.
    pub(super) fn life(&self, lived: f64) -> f64 {
        lived.min(self.payback_horizon)
    }
}
