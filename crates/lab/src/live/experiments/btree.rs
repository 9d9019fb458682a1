//! `btree`: look-ups of random keys in a B+-tree.

use super::kernel::Kernel;
use crate::live::experiment::{Experiment, PaperFigure};

pub(super) const BTREE: Experiment = Kernel {
    name: "btree",
    title: "look-ups of random keys in a B+-tree",
    about: "Looks up random keys in a B+-tree that fills the memory, with nodes of four cache lines. The levels near the root \
            stay in the cache; the last ones miss the TLB.",
    paper: Some(PaperFigure {
        source: "Trident, section 7, figure 9 (1 GiB pages against 2 MiB pages)",
        systems: &["THP", "Trident"],
        rows: &[("performance", &["1", "1.15"])],
    }),
}
.experiment();
