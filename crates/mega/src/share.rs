//! A part of a whole, and how people read it.

/// `part` of `whole`, 0 to 1; `None` where there is no whole.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    reason = "a share is shown with three digits"
)]
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A share as people read it: "98.4 %", or a dash where it is not known.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}
