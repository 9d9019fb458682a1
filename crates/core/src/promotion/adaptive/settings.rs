//! The parameters of `adaptive`: what an operator can judge. All else follows from what was measured (`deal`).

use crate::parameters::{ParameterInfo, Values};
use crate::promotion::info::PolicyInfo;

use super::Adaptive;

const PAYBACK_HORIZON: ParameterInfo = ParameterInfo {
    name: "payback_horizon",
    summary: "seconds within which a process must be paid back for its promotions, and no more than it has lived",
    unit: "seconds",
    default: 600.0,
    min: 1.0,
    max: 86_400.0,
};
const BLOAT_BUDGET: ParameterInfo = ParameterInfo::share(
    "bloat_budget",
    "what promotions of regions that are less than nine tenths mapped may add, as a share of what the process has resident",
    0.01,
);
const KEEP_AVAILABLE: ParameterInfo = ParameterInfo::share(
    "keep_available",
    "share of memory, of the machine or the cgroup, that is to stay available: with less nothing is promoted and bloat is given back until half as much again is",
    0.10,
);
const TLB_ENTRIES: ParameterInfo = ParameterInfo {
    name: "tlb_entries",
    summary: "translations that fit the TLB: a process that uses no more is left alone (1536: the second-level TLB of Intel cores since Skylake; newer ones have 2048)",
    unit: "entries",
    default: 1536.0,
    min: 0.0,
    max: 65535.0,
};

pub(in crate::promotion) const INFO: PolicyInfo = PolicyInfo {
    name: "adaptive",
    summary: "promotes what saves more CPU time than it costs, at the price that blocks and memory have now; demotes zero-filled huge pages only while memory is short",
    source: "this project; what it takes from MEGA, Ingens and HawkEye is in its documentation",
    parameters: &[PAYBACK_HORIZON, BLOAT_BUDGET, KEEP_AVAILABLE, TLB_ENTRIES],
    for_giant_pages: false,
    asks_for_gains: true,
    settings: &[],
    ordered: &[],
    build: |values| Box::new(Adaptive::new(Settings::new(values))),
};

/// The parameters' values; what each means is said above.
pub(super) struct Settings {
    pub(super) payback_horizon: f64,
    pub(super) bloat_budget: f64,
    pub(super) keep_available: f64,
    pub(super) tlb_entries: f64,
}

impl Settings {
    fn new(values: Values<'_>) -> Self {
        Settings {
            payback_horizon: values.get(&PAYBACK_HORIZON),
            bloat_budget: values.get(&BLOAT_BUDGET),
            keep_available: values.get(&KEEP_AVAILABLE),
            tlb_entries: values.get(&TLB_ENTRIES),
        }
    }
}
