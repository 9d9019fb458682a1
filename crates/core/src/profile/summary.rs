//! What the memory of a program was like in one run.

use super::class::MappingClass;

/// What one class of mappings was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MappingSummary {
    /// Which class.
    pub class: MappingClass,
    /// Regions with at least one page.
    pub touched_regions: u64,
    /// Of these, regions whose touched base pages are known: base pages mapped them, and as many in two looks.
    pub known_regions: u64,
    /// Base pages that the program touched in those, 0 to 512 each.
    pub known_pages: u64,
    /// Of the touched regions, those that were huge when they were seen last.
    pub huge_regions: u64,
    /// From the first touched region to nine in ten of them, in seconds.
    pub filled_seconds: f64,
    /// The share of zero-filled base pages in huge regions whose every page the program is known to have touched.
    /// `None` where none was looked into.
    pub zeros_when_full: Option<f64>,
    /// The same for huge regions whose touched pages are unknown.
    pub zeros_when_unknown: Option<f64>,
}

/// What one run was like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSummary {
    /// The classes with a touched region, in order.
    pub mappings: Vec<MappingSummary>,
    /// The most that was resident in them at one look, in bytes.
    pub resident: u64,
    /// Whether most regions were huge before it was known what the program touches of them.
    pub started_huge: bool,
    /// How long it was looked at, in seconds.
    pub seconds: f64,
}
