//! `chase`: dependent loads along one random cycle.

use super::kernel::Kernel;
use crate::live::experiment::Experiment;

pub(super) const CHASE: Experiment = Kernel {
    name: "chase",
    title: "dependent loads along one random cycle",
    about: "Follows one random cycle through all cache lines of its memory: every address is the content of the line before, so \
            that nothing hides what a TLB miss takes. Threads follow the same cycle from different lines.",
    paper: None,
}
.experiment();
