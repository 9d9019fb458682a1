//! What huge pages would gain a managed process, as its manager measured it last.

use mega_core::engine::MeasuredGain;
use mega_core::worth::Estimate;
use serde::{Deserialize, Serialize};

/// What huge pages would gain a process. The fields mean what those of `mega worth` do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GainReport {
    /// The share of its CPU time that they would save, 0 to 1.
    pub(crate) saved_share: Estimate,
    /// CPUs that it used meanwhile.
    pub(crate) cpu_share: f64,
    /// CPU time that it takes to make all of its memory huge.
    pub(crate) cost_cpu_seconds: f64,
    /// Until what is saved exceeds that; `null` where it may gain nothing.
    pub(crate) payback_seconds: Option<f64>,
    /// How long before the latest step it was measured.
    pub(crate) seconds_ago: f64,
}

impl From<&MeasuredGain> for GainReport {
    fn from(measured: &MeasuredGain) -> Self {
        let gain = &measured.gain;
        GainReport {
            saved_share: gain.saved_share,
            cpu_share: gain.cpus,
            cost_cpu_seconds: gain.cost_cpu_seconds,
            payback_seconds: gain.payback_seconds,
            seconds_ago: measured.ago.as_secs_f64(),
        }
    }
}

impl GainReport {
    /// CPUs that huge pages save it.
    pub(crate) fn saved_cpus(&self) -> Estimate {
        self.saved_share.scaled(self.cpu_share)
    }

    /// As "31 % (27 to 35 %) of its CPU time, for 4.1 s of CPU, paid back in 13 s".
    pub(crate) fn in_words(&self) -> String {
        let payback = self.payback_seconds.map_or_else(
            || "perhaps never paid back".to_owned(),
            |payback| format!("paid back in {}", seconds(payback)),
        );
        format!(
            "{} of its CPU time, for {} of CPU, {payback}",
            share(self.saved_share),
            seconds(self.cost_cpu_seconds)
        )
    }
}

/// A share with its interval, as "31 % (27 to 35 %)".
pub(crate) fn share(share: Estimate) -> String {
    format!(
        "{} % ({} to {} %)",
        percent(share.value),
        percent(share.low),
        percent(share.high)
    )
}

/// A share in per cent, with a decimal where it is small.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = usize::from(percent < 10.0);
    format!("{percent:.decimals$}")
}

/// A time, with a decimal where it is short.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{seconds:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_told_with_its_price() {
        let gain = GainReport {
            saved_share: Estimate::within(0.31, 0.27, 0.35),
            cpu_share: 2.0,
            cost_cpu_seconds: 4.1,
            payback_seconds: Some(13.2),
            seconds_ago: 2.0,
        };
        assert_eq!(
            gain.in_words(),
            "31 % (27 to 35 %) of its CPU time, for 4.1 s of CPU, paid back in 13 s"
        );
        assert!(gain.saved_cpus().holds(0.62));
        let nothing = GainReport {
            saved_share: Estimate::within(0.0, 0.0, 0.015),
            payback_seconds: None,
            ..gain
        };
        assert_eq!(
            nothing.in_words(),
            "0.0 % (0.0 to 1.5 %) of its CPU time, for 4.1 s of CPU, perhaps never paid back"
        );
    }
}
