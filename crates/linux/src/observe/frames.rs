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
    let mut pairs = Pairs::default();
    for start in regions {
        if pagemap::read(kernel, &pagemap, start, &mut entries).is_ok() {
            pairs.add(&entries);
        }
    }
    pairs.share()
}

/// Neighbouring base pages.
#[derive(Default)]
struct Pairs {
    all: u32,
    /// Of these, those whose frames are neighbours, in the same order.
    together: u32,
}

impl Pairs {
    fn add(&mut self, entries: &[Entry]) {
        for pair in entries.windows(2) {
            if let (Some(first), Some(second)) = (pair[0].frame(), pair[1].frame()) {
                self.all += 1;
                self.together += u32::from(first + 1 == second);
            }
        }
    }

    fn share(&self) -> Option<f64> {
        (self.all > 0).then(|| f64::from(self.together) / f64::from(self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[u64]) -> Option<f64> {
        let entries: Vec<Entry> = entries.iter().copied().map(Entry).collect();
        let mut pairs = Pairs::default();
        pairs.add(&entries);
        pairs.share()
    }

    #[test]
    fn frames_of_neighbours_are_compared() {
        const PRESENT: u64 = 1 << 63;
        let at = |frame: u64| PRESENT | frame;
        assert_eq!(of(&[at(7), at(8), at(9), at(20), at(3)]), Some(0.5));
        // Beside a page that is not there lies no neighbour, and hidden frames say nothing.
        assert_eq!(of(&[at(7), 0, at(8), at(9)]), Some(1.0));
        assert_eq!(of(&[PRESENT, PRESENT, PRESENT]), None);
        assert_eq!(of(&[]), None);
    }
}
