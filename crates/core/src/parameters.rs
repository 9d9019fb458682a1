//! The named numbers that adjust a policy.

use std::collections::BTreeMap;

use serde::Serialize;

/// Values for some of a policy's parameters, by name; the rest keep their defaults.
pub type Parameters = BTreeMap<String, f64>;

/// One parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ParameterInfo {
    /// The name it is set by.
    pub name: &'static str,
    /// What it means and where its default comes from, in one sentence.
    pub summary: &'static str,
    /// What it counts: "share", "pages", "intervals", "entries" or "factor".
    pub unit: &'static str,
    /// Its value when it is not set.
    pub default: f64,
    /// The smallest value it takes.
    pub min: f64,
    /// The largest value it takes.
    pub max: f64,
}

impl ParameterInfo {
    /// A parameter that is a part of a whole, 0 to 1.
    pub(crate) const fn share(name: &'static str, summary: &'static str, default: f64) -> Self {
        ParameterInfo {
            name,
            summary,
            unit: "share",
            default,
            min: 0.0,
            max: 1.0,
        }
    }

    /// Whether only whole numbers make sense: everything that is counted rather than a ratio.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.unit, "pages" | "intervals" | "entries")
    }
}

/// Checked values: every name known, every value in its range.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(pub(crate) &'a Parameters);

impl Values<'_> {
    /// The parameter's value, its default if it was not set.
    pub(crate) fn get(self, parameter: &ParameterInfo) -> f64 {
        self.0
            .get(parameter.name)
            .copied()
            .unwrap_or(parameter.default)
    }

    /// The value of a parameter that counts something.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn count(self, parameter: &ParameterInfo) -> u16 {
        self.get(parameter).clamp(0.0, f64::from(u16::MAX)) as u16
    }
}
