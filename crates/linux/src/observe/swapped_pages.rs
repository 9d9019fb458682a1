//! Base pages in swap, for trackers that do not count them: a collapse would read them back.

use mega_core::{PAGES_PER_REGION, RegionObservation};

use crate::kernel::Kernel;
use crate::observe::tracker::pagemap::{self, ENTRIES, Entry};

/// Counts the pages in swap of the regions that base pages map in part; others have none. That takes a twelfth of the time of
/// a collapse. Where pagemap is refused, none counts as swapped.
pub(crate) fn count<'a>(
    kernel: &dyn Kernel,
    pid: u32,
    regions: impl Iterator<Item = &'a mut RegionObservation>,
) {
    let Ok(pagemap) = pagemap::open(kernel, &pid.to_string()) else {
        return;
    };
    for region in regions {
        if region.is_huge() || region.mapped == PAGES_PER_REGION {
            continue;
        }
        let mut entries = [Entry::default(); ENTRIES];
        if pagemap::read(kernel, &pagemap, region.region.start(), &mut entries).is_ok() {
            region.swapped = entries
                .iter()
                .fold(0, |count, entry| count + u16::from(entry.is_swapped()));
        }
    }
}
