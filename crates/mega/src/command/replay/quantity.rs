//! What is shown over time of each policy: in the picture a plot each, in words a table each.

use mega_core::bytes;

use crate::report::{PointReport, ReplayReport};

/// What is shown over time.
pub(super) struct Quantity {
    pub(super) name: &'static str,
    /// Of a policy at a point.
    pub(super) value: fn(&PointReport) -> Option<f64>,
    /// The same of the recording, where it has it.
    pub(super) recorded: Option<fn(&PointReport) -> Option<f64>>,
    /// How values are written.
    pub(super) unit: fn(f64) -> String,
    /// The largest value that there can be; `None` for any.
    pub(super) most: Option<f64>,
}

const ALWAYS: [Quantity; 4] = [
    Quantity {
        name: "in huge pages",
        value: |point| share(point.huge, point.resident),
        recorded: Some(|point| share(point.recorded_huge, point.recorded)),
        unit: |value| format!("{:.0} %", value * 100.0),
        most: Some(1.0),
    },
    Quantity {
        name: "resident",
        value: |point| bytes_of(point.resident),
        recorded: Some(|point| bytes_of(point.recorded)),
        unit: in_bytes,
        most: None,
    },
    Quantity {
        name: "free memory in huge blocks",
        value: |point| bytes_of(point.contiguity),
        recorded: Some(|point| bytes_of(point.recorded_contiguity)),
        unit: in_bytes,
        most: None,
    },
    Quantity {
        name: "copied until then",
        value: |point| bytes_of(point.copied),
        recorded: None,
        unit: in_bytes,
        most: None,
    },
];
/// Where compaction was simulated.
const MOVED: Quantity = Quantity {
    name: "moved by compaction until then",
    value: |point| bytes_of(point.moved),
    recorded: None,
    unit: in_bytes,
    most: None,
};
/// Where a processor was named, and touches had been measured.
const TRANSLATION: Quantity = Quantity {
    name: "translation until then",
    value: |point| point.translation,
    recorded: Some(|point| point.recorded_translation),
    unit: |value| format!("{value:.3} s"),
    most: None,
};

/// All that this report has over time.
pub(super) fn quantities(report: &ReplayReport) -> impl Iterator<Item = Quantity> + use<> {
    let mut policies = report.policies.iter();
    let translates = policies.any(|policy| policy.translation.is_some());
    let moved = report.simulated.then_some(MOVED);
    let translation = translates.then_some(TRANSLATION);
    ALWAYS.into_iter().chain(moved).chain(translation)
}

/// `None` where there is nothing that could be in huge pages.
fn share(part: u64, whole: u64) -> Option<f64> {
    let (part, whole) = bytes_of(part).zip(bytes_of(whole))?;
    (whole > 0.0).then(|| part / whole)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::unnecessary_wraps,
    reason = "exact enough to be shown, and as all values are"
)]
fn bytes_of(bytes: u64) -> Option<f64> {
    Some(bytes as f64)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, not negative"
)]
fn in_bytes(bytes: f64) -> String {
    bytes::format(bytes as u64)
}
