//! Whether neighbouring base pages lie in neighbouring frames. Where they do not, a page walk under a hypervisor costs more, and no
//! processor joins them in its TLB.

use crate::kernel::Kernel;
use crate::observe::tracker::pagemap::{self, ENTRIES, Entry};

/// The share of neighbouring base pages of the regions at these addresses whose frames are neighbours, too. `None` where pagemap shows
/// none: without `CAP_SYS_ADMIN`, or where nothing is mapped.
pub(crate) fn together(
    kernel: &dyn Kernel,
    pid: u32,
    regions: impl Iterator<Item = u64>,
) -> Option<f64> {
    let pagemap = pagemap::open(kernel, &pid.to_string()).ok()?;
    let mut entries = [Entry::default(); ENTRIES];
    let (mut neighbours, mut together) = (0_u32, 0_u32);
    for start in regions {
        if pagemap::read(kernel, &pagemap, start, &mut entries).is_err() {
            continue;
        }
        for pair in entries.windows(2) {
            if let (Some(first), Some(second)) = (pair[0].frame(), pair[1].frame()) {
                neighbours += 1;
                together += u32::from(first + 1 == second);
            }
        }
    }
    (neighbours > 0).then(|| f64::from(together) / f64::from(neighbours))
}
