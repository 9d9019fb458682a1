//! What an experiment is to show: a bound on a ratio between two modes, or on a value.

use super::mode::Mode;

/// What a mode is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// Another mode.
    Mode(&'static Mode),
    /// Whichever of the static modes ([`Mode::STATIC`]) has the best median of the metric.
    BestStatic,
    /// Nothing: the value itself is bounded.
    Nothing,
}

/// Where the ratio, or the value, must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// Whether a value lies within it.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtMost(limit) => value <= limit,
            Bound::AtLeast(limit) => value >= limit,
        }
    }
}

/// One thing that an experiment is to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    /// The metric's id.
    pub(crate) metric: &'static str,
    /// The mode that is held to it.
    pub(crate) of: &'static Mode,
    pub(crate) against: Against,
    pub(crate) bound: Bound,
}

/// The mode that goals speak of: mega as it comes.
pub(crate) const MEGA: &Mode = &Mode::Mega(mega_core::promotion::DEFAULT_POLICY);

impl Goal {
    /// mega against another mode.
    pub(crate) const fn ratio(metric: &'static str, against: &'static Mode, bound: Bound) -> Self {
        Goal {
            metric,
            of: MEGA,
            against: Against::Mode(against),
            bound,
        }
    }

    /// mega against the best static mode.
    pub(crate) const fn best_static(metric: &'static str, bound: Bound) -> Self {
        Goal {
            metric,
            of: MEGA,
            against: Against::BestStatic,
            bound,
        }
    }
}
