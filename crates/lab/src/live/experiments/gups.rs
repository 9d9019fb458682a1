//! `gups`: random updates all over a large array.

use super::kernel::Kernel;
use crate::live::experiment::{Experiment, PaperFigure};

pub(super) const GUPS: Experiment = Kernel {
    name: "gups",
    title: "random updates all over a large array",
    about: "Adds random values to random words of one array, as HPC Challenge's RandomAccess does. Threads have a part of \
            it each. Every update misses the TLB with base pages.",
    paper: Some(PaperFigure {
        source: "Trident, section 7, figure 9 (1 GiB pages against 2 MiB pages)",
        systems: &["THP", "Trident"],
        rows: &[("performance", &["1", "1.47"])],
    }),
}
.experiment();
