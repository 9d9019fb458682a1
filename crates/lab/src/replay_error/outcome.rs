//! What a policy made of a program, predicted or seen.

use std::collections::BTreeSet;

use mega_core::HUGE_PAGE_SIZE;

use crate::workload::report::{AreaReport, Ready};

/// What a policy made of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Bytes resident in eligible regions.
    pub(super) resident: u64,
    /// Bytes of them in huge pages.
    pub(super) huge: u64,
    /// The regions in huge pages, as areas of the program and numbers in them.
    pub(super) regions: BTreeSet<(usize, u64)>,
}

impl Outcome {
    /// The part of what is resident in huge pages, 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn coverage(&self) -> f64 {
        self.huge as f64 / self.resident.max(1) as f64
    }
}

/// Names a region by the area that it lies in, which is elsewhere in each run. `None` where it is in none.
pub(super) fn place(ready: &Ready, address: u64) -> Option<(usize, u64)> {
    let lies_in = |area: &AreaReport| (area.start..area.start + area.bytes).contains(&address);
    let area = ready.areas.iter().position(lies_in)?;
    let start = ready.areas.get(area)?.start;
    Some((area, (address - start) / HUGE_PAGE_SIZE))
}
