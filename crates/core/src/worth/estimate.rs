//! A value and how sure it is.

use serde::{Deserialize, Serialize};

/// A value with the interval that holds the truth 95 times in 100. `low <= value <= high`, all finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// A value that is known.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Estimate {
            value,
            low: value,
            high: value,
        }
    }

    /// A value in an interval, which is widened where it does not hold the value.
    #[must_use]
    pub fn within(value: f64, low: f64, high: f64) -> Self {
        Estimate {
            value,
            low: low.min(value),
            high: high.max(value),
        }
    }

    /// The same value where the truth may just as well lie in the `other` interval.
    #[must_use]
    pub fn reaching(self, other: Self) -> Self {
        Estimate {
            value: self.value,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// The same in another unit. `factor` is not negative.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Estimate {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// Whether the interval holds `value`.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// How far the interval reaches from the value, as a share of the value. Infinite where the value is 0 and the
    /// interval is not.
    #[must_use]
    pub fn relative_error(self) -> f64 {
        let reach = (self.high - self.value).max(self.value - self.low);
        if reach <= 0.0 {
            0.0
        } else {
            reach / self.value.abs()
        }
    }
}
