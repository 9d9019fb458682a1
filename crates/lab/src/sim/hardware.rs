//! The machines of the papers: what things cost on them, and what translates addresses.

use mega_sim::Costs;
use mega_sim::translation::{HASWELL, Processor, SKYLAKE_SP, Walk};

/// A machine that is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardware {
    pub(super) costs: Costs,
    pub(super) processor: Processor,
    pub(super) walk: Walk,
}

/// MEGA's machine.
pub(super) fn mega_notebook() -> Hardware {
    Hardware {
        costs: Costs::mega_notebook(),
        processor: HASWELL,
        walk: Walk::Native,
    }
}

/// Trident's machine.
pub(super) fn trident_server() -> Hardware {
    Hardware {
        costs: Costs::trident_server(),
        processor: SKYLAKE_SP,
        walk: Walk::Native,
    }
}
