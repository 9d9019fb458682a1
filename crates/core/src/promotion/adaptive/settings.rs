//! The parameters of `adaptive`.

use crate::parameters::{ParameterInfo, Values};
use crate::promotion::info::PolicyInfo;

use super::Adaptive;

const TLB_ENTRIES: ParameterInfo = ParameterInfo {
    name: "tlb_entries",
    summary: "translations that fit the TLB: a process that uses no more is left alone (1536: the second-level TLB of Intel cores since Skylake; newer ones have 2048)",
    unit: "entries",
    default: 1536.0,
    min: 0.0,
    max: 65535.0,
};
const MIN_UTILIZATION: ParameterInfo = ParameterInfo::share(
    "min_utilization",
    "share of a region's base pages that must be in use to promote it while free blocks are plentiful (8 of 512)",
    1.0 / 64.0,
);
const MAX_UTILIZATION: ParameterInfo = ParameterInfo::share(
    "max_utilization",
    "the same when there are no free blocks, and for regions that add bloat or were demoted before (MEGA's promotion threshold)",
    0.5,
);
const FULL_MAPPED: ParameterInfo = ParameterInfo::share(
    "full_mapped",
    "share of a region mapped from which promoting it counts as adding no bloat (as in Ingens and MEGA)",
    0.9,
);
const BLOAT_BUDGET: ParameterInfo = ParameterInfo::share(
    "bloat_budget",
    "what promotions of less mapped regions may add, as a share of what the process has resident",
    0.01,
);
const PLENTIFUL_CONTIGUITY: ParameterInfo = ParameterInfo::share(
    "plentiful_contiguity",
    "share of memory in free blocks of at least 2 MiB from which they count as plentiful; twice what all candidates need counts as well",
    0.1,
);
const PRESSURE_START: ParameterInfo = ParameterInfo::share(
    "pressure_start",
    "share of memory available below which memory is short: nothing is promoted, bloat is given back",
    0.10,
);
const PRESSURE_STOP: ParameterInfo = ParameterInfo::share(
    "pressure_stop",
    "share of memory available from which memory is no longer short",
    0.15,
);
const MIN_AGE: ParameterInfo = ParameterInfo {
    name: "min_age",
    summary: "whole intervals that a region must have survived to be promoted",
    unit: "intervals",
    default: 1.0,
    min: 1.0,
    max: 100.0,
};
const COLD_INTERVALS: ParameterInfo = ParameterInfo {
    name: "cold_intervals",
    summary: "intervals without an access after which a huge page is cold",
    unit: "intervals",
    default: 3.0,
    min: 1.0,
    max: 255.0,
};
const MIN_ZERO_FILLED: ParameterInfo = ParameterInfo {
    name: "min_zero_filled",
    summary: "zero-filled base pages from which a cold huge page is demoted while memory is short",
    unit: "pages",
    default: 64.0,
    min: 1.0,
    max: 512.0,
};
const HOT_ZERO_FILLED: ParameterInfo = ParameterInfo {
    name: "hot_zero_filled",
    summary: "the same for a huge page that is in use: so many that hardly a translation is lost",
    unit: "pages",
    default: 461.0,
    min: 1.0,
    max: 512.0,
};

const GIANT_IN_USE: ParameterInfo = ParameterInfo::share(
    "giant_in_use",
    "share of a span's huge pages that must not be cold to promote it to a giant page (as max_utilization: it may have to be copied)",
    0.5,
);

const PAYBACK_HORIZON: ParameterInfo = ParameterInfo {
    name: "payback_horizon",
    summary: "seconds within which a process must be paid back for its promotions, and no more than it has lived; asked where its gain can be measured",
    unit: "seconds",
    default: 600.0,
    min: 1.0,
    max: 86_400.0,
};

pub(in crate::promotion) const INFO: PolicyInfo = PolicyInfo {
    name: "adaptive",
    summary: "promotes where it saves translations, at the price that contiguity has now; demotes zero-filled huge pages only while memory is short",
    source: "this project; what it takes from MEGA, Ingens and HawkEye is in its documentation",
    parameters: &[
        TLB_ENTRIES,
        MIN_UTILIZATION,
        MAX_UTILIZATION,
        FULL_MAPPED,
        BLOAT_BUDGET,
        PLENTIFUL_CONTIGUITY,
        PRESSURE_START,
        PRESSURE_STOP,
        MIN_AGE,
        COLD_INTERVALS,
        MIN_ZERO_FILLED,
        HOT_ZERO_FILLED,
        GIANT_IN_USE,
        PAYBACK_HORIZON,
    ],
    for_giant_pages: false,
    settings: &[],
    ordered: &[
        (&MIN_UTILIZATION, &MAX_UTILIZATION),
        (&PRESSURE_START, &PRESSURE_STOP),
        (&MIN_ZERO_FILLED, &HOT_ZERO_FILLED),
    ],
    build: |values| Box::new(Adaptive::new(Settings::new(values))),
};

/// The parameters' values; what each means is said above.
pub(super) struct Settings {
    pub(super) tlb_entries: f64,
    pub(super) min_utilization: f64,
    pub(super) max_utilization: f64,
    pub(super) full_mapped: f64,
    pub(super) bloat_budget: f64,
    pub(super) plentiful_contiguity: f64,
    pub(super) pressure_start: f64,
    pub(super) pressure_stop: f64,
    pub(super) min_age: u16,
    pub(super) cold_intervals: u16,
    pub(super) min_zero_filled: u16,
    pub(super) hot_zero_filled: u16,
    pub(super) giant_in_use: f64,
    pub(super) payback_horizon: f64,
}

impl Settings {
    fn new(values: Values<'_>) -> Self {
        Settings {
            tlb_entries: values.get(&TLB_ENTRIES),
            min_utilization: values.get(&MIN_UTILIZATION),
            max_utilization: values.get(&MAX_UTILIZATION),
            full_mapped: values.get(&FULL_MAPPED),
            bloat_budget: values.get(&BLOAT_BUDGET),
            plentiful_contiguity: values.get(&PLENTIFUL_CONTIGUITY),
            pressure_start: values.get(&PRESSURE_START),
            pressure_stop: values.get(&PRESSURE_STOP),
            min_age: values.count(&MIN_AGE),
            cold_intervals: values.count(&COLD_INTERVALS),
            min_zero_filled: values.count(&MIN_ZERO_FILLED),
            hot_zero_filled: values.count(&HOT_ZERO_FILLED),
            giant_in_use: values.get(&GIANT_IN_USE),
            payback_horizon: values.get(&PAYBACK_HORIZON),
        }
    }
}
