//! The compaction policies by name.

use std::time::Duration;

use serde::Serialize;

use super::{
    BestRatio, CompactionPolicy, LeastOccupied, LowestFirst, Sequential, TwoScanners,
    pages_of_megabytes,
};
use crate::build_error::{BuildError, check_parameters};
use crate::nearest;
use crate::parameters::{ParameterInfo, Parameters, Values};

/// What there is to know about a compaction policy before it is built.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CompactionInfo {
    /// The name it is selected by.
    pub name: &'static str,
    /// How it selects, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it can be adjusted by.
    pub parameters: &'static [ParameterInfo],
    #[serde(skip)]
    build: fn(Values<'_>) -> Box<dyn CompactionPolicy>,
}

/// The name of the compaction policy that is used where none is named.
pub const DEFAULT_COMPACTION: &str = "mega";

const fn period(default: f64, summary: &'static str) -> ParameterInfo {
    ParameterInfo {
        name: "period",
        summary,
        unit: "seconds",
        default,
        min: 0.1,
        max: 86_400.0,
    }
}

const fn budget(default: f64, summary: &'static str) -> ParameterInfo {
    ParameterInfo {
        name: "budget",
        summary,
        unit: "MiB",
        default,
        min: 1.0,
        max: 1_048_576.0,
    }
}

const MEGA_PERIOD: ParameterInfo = period(
    5.0,
    "time from one compaction to the next (MEGA 3.4: every 5 s)",
);
const MEGA_BUDGET: ParameterInfo = budget(200.0, "memory migrated per period (MEGA 3.4: 200 MB)");
const MEGA_DMA32: ParameterInfo = ParameterInfo {
    name: "dma32_contiguity",
    summary: "ZONE_DMA32 is compacted only while free memory in areas of order 9 and above is under this share of its free memory (MEGA 3.4: 33 %)",
    unit: "share",
    default: 0.33,
    min: 0.0,
    max: 1.0,
};
const INGENS_PERIOD: ParameterInfo = period(
    5.0,
    "time from one compaction to the next (MEGA 4.3 on Ingens: every 5 s)",
);
const INGENS_BUDGET: ParameterInfo = budget(
    100.0,
    "memory at the start of each zone that a period goes over (MEGA 4.3 on Ingens: 100 MB)",
);
const TRIDENT_PERIOD: ParameterInfo = period(
    10.0,
    "time from one compaction to the next (khugepaged's scan_sleep_millisecs; Trident compacts on demand)",
);
const TRIDENT_BUDGET: ParameterInfo = budget(
    1024.0,
    "memory migrated per period (one chunk; Trident names no budget)",
);

static REGISTRY: [CompactionInfo; 5] = [
    CompactionInfo {
        name: "mega",
        summary: "the best ratio of benefit to cost first: emptiest, coldest and oldest",
        source: "MEGA (SYSTOR '19), section 3.4",
        parameters: &[MEGA_PERIOD, MEGA_BUDGET, MEGA_DMA32],
        build: |values| {
            Box::new(BestRatio {
                period: seconds(values, &MEGA_PERIOD),
                budget_pages: pages(values, &MEGA_BUDGET),
                dma32_contiguity: values.get(&MEGA_DMA32),
            })
        },
    },
    CompactionInfo {
        name: "trident",
        summary: "the fewest occupied frames first (smart compaction)",
        source: "Trident (MICRO '21), section 5.1.3",
        parameters: &[TRIDENT_PERIOD, TRIDENT_BUDGET],
        build: |values| {
            Box::new(LeastOccupied {
                period: seconds(values, &TRIDENT_PERIOD),
                budget_pages: pages(values, &TRIDENT_BUDGET),
            })
        },
    },
    CompactionInfo {
        name: "ingens",
        summary: "the lowest addresses of each zone, and no others",
        source: "Ingens (OSDI '16), as MEGA describes it in sections 4.3 and 5",
        parameters: &[INGENS_PERIOD, INGENS_BUDGET],
        build: |values| {
            Box::new(LowestFirst {
                period: seconds(values, &INGENS_PERIOD),
                zone_pages: pages(values, &INGENS_BUDGET),
            })
        },
    },
    CompactionInfo {
        name: "sequential",
        summary: "in address order, on from where the last scan ended, unmovable pages found too late",
        source: "Linux as Trident (MICRO '21) compares with it in figures 6 and 7",
        parameters: &[TRIDENT_PERIOD, TRIDENT_BUDGET],
        build: |values| {
            Box::new(Sequential::new(
                seconds(values, &TRIDENT_PERIOD),
                pages(values, &TRIDENT_BUDGET),
            ))
        },
    },
    CompactionInfo {
        name: "linux",
        summary: "the kernel compacts everything by its two scanners; no choice and no budget",
        source: "Linux, /proc/sys/vm/compact_memory",
        parameters: &[],
        build: |_| Box::new(TwoScanners),
    },
];

fn seconds(values: Values<'_>, parameter: &ParameterInfo) -> Duration {
    Duration::from_secs_f64(values.get(parameter))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn pages(values: Values<'_>, parameter: &ParameterInfo) -> u64 {
    // The range of a budget is far inside both types.
    pages_of_megabytes(values.get(parameter) as u64)
}

/// Every compaction policy, the default first.
#[must_use]
pub fn registry() -> &'static [CompactionInfo] {
    &REGISTRY
}

/// Builds the named compaction policy, with `parameters` in place of its defaults.
///
/// # Errors
///
/// When the name, a parameter's name or its value is not one there is.
pub fn build(name: &str, parameters: &Parameters) -> Result<Box<dyn CompactionPolicy>, BuildError> {
    let Some(info) = registry().iter().find(|info| info.name == name) else {
        let nearest = nearest(name, registry().iter().map(|info| info.name));
        return Err(BuildError::UnknownPolicy {
            name: name.to_owned(),
            nearest,
        });
    };
    check_parameters(info.name, info.parameters, parameters)?;
    Ok((info.build)(Values(parameters)))
}
