//! Counts as numbers with a fraction.

/// A count; above 2^53 the nearest number there is.
#[allow(clippy::cast_precision_loss)]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// A part of a whole; 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        number(part) / number(whole)
    }
}

/// Every cell of a row of counts.
pub(super) fn cells(counts: impl IntoIterator<Item = u64>) -> Vec<Option<f64>> {
    counts
        .into_iter()
        .map(|count| Some(number(count)))
        .collect()
}
