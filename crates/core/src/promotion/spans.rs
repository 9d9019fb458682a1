//! Regions by the spans they lie in.

use crate::observation::{ProcessObservation, RegionObservation, RegionRef};
use crate::page::{REGIONS_PER_SPAN, Span};
use crate::process::ProcessId;

/// The span that a region lies in.
pub(super) fn span_of(region: &RegionObservation) -> Span {
    Span::of(region.region)
}

/// A process's regions span by span, in address order.
pub(super) fn by_span(
    process: &ProcessObservation,
) -> impl Iterator<Item = (Span, &[RegionObservation])> {
    process
        .regions
        .chunk_by(|left, right| span_of(left) == span_of(right))
        .filter_map(|regions| Some((span_of(regions.first()?), regions)))
}

/// Whether these regions of one span are all of it. A region without memory cannot be given any from outside
/// the process, so a span with such a hole cannot be mapped by a giant page.
pub(super) fn is_whole(regions: &[RegionObservation]) -> bool {
    regions.len() == REGIONS_PER_SPAN
}

/// How actions name a span: by its first region.
pub(super) fn target(process: ProcessId, span: Span) -> RegionRef {
    RegionRef {
        process,
        region: span.first_region(),
    }
}
