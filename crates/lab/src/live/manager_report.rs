//! What a `mega run` reports about itself at its end.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::error::Error;

/// CPU time of a manager as a share of one core, over its time from start to end without the `rested` part of it, for
/// which its program did not work and it was stopped.
///
/// # Errors
/// When the report cannot be read, or tells no times.
pub(super) fn cpu_share(report: &Path, rested: Duration) -> Result<f64, Error> {
    let attempted = format!("reading the manager's report {}", report.display());
    let text = std::fs::read_to_string(report).map_err(|e| Error::io(&*attempted, e))?;
    share_in(&text, rested).ok_or_else(|| {
        Error::Failed(format!(
            "{attempted}: it tells no CPU time, or of no longer a time than its program rested"
        ))
    })
}

fn share_in(report: &str, rested: Duration) -> Option<f64> {
    let report: Value = serde_json::from_str(report).ok()?;
    let cpu_seconds = report.pointer("/manager/cpu_seconds")?.as_f64()?;
    let working = report.get("uptime_seconds")?.as_f64()? - rested.as_secs_f64();
    (working > 0.0).then(|| cpu_seconds / working)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str, rested: u64) -> Option<f64> {
        share_in(text, Duration::from_secs(rested))
    }

    #[test]
    fn the_time_that_was_rested_does_not_count() {
        let report = r#"{"uptime_seconds": 10.0, "manager": {"cpu_seconds": 0.5}}"#;
        assert_eq!(share(report, 0), Some(0.05));
        assert_eq!(share(report, 8), Some(0.25));
        assert_eq!(share(report, 10), None);
        assert_eq!(share(report, 11), None);
    }

    #[test]
    fn what_is_no_report_has_no_share() {
        for text in ["", "[]", "{}", r#"{"uptime_seconds": 10.0}"#] {
            assert_eq!(share(text, 0), None, "{text}");
        }
        let missing = cpu_share(Path::new("/nonexistent"), Duration::ZERO);
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("report /nonexistent"), "{error}");
    }
}
