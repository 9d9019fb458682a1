//! Trident's fragmenter (section 3): it has a large file cached, and reads it at random offsets, so that reclaim frees pages that
//! do not lie together.

use mega_sim::Kernel;

use crate::random::{Random, below};

/// Pages of the file, for each four of memory.
const FILE: u64 = 5;

/// Fragments all of memory.
pub(super) fn fragment(kernel: &mut Kernel, seed: u64) {
    let pages = u32::try_from(kernel.memory().frames() / 4 * FILE).unwrap_or(u32::MAX);
    for page in 0..pages {
        kernel.read_file(page, 0);
    }
    let mut random = Random::new(seed);
    for _ in 0..pages {
        let page = below(random.word(), pages as usize);
        kernel.read_file(u32::try_from(page).unwrap_or(0), 0);
    }
}
