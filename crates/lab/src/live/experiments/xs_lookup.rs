//! `xs-lookup`: cross sections looked up at random energies.

use super::kernel::Kernel;
use crate::live::experiment::{Experiment, PaperFigure};

pub(super) const XS_LOOKUP: Experiment = Kernel {
    name: "xs-lookup",
    title: "cross sections looked up at random energies",
    about: "Looks up macroscopic cross sections at random energies, as XSBench does: a binary search in one grid of all energies, \
            then the data of each nuclide in the material, between two points of which it interpolates.",
    paper: Some(PaperFigure {
        source: "Trident, section 7, figure 9 (1 GiB pages against 2 MiB pages)",
        systems: &["THP", "Trident"],
        rows: &[("performance", &["1", "1.041"])],
    }),
}
.experiment();
