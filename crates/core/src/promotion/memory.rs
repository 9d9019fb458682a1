//! How much memory there is, as policies ask. If the total is unknown (0), memory counts as plentiful: a policy must
//! not act on a shortage that nobody saw.

use crate::observation::MemoryObservation;

/// The part of memory that can be had without swapping, 0 to 1.
#[allow(clippy::cast_precision_loss)]
pub(super) fn share_available(memory: &MemoryObservation) -> f64 {
    if memory.total == 0 {
        1.0
    } else {
        (memory.available as f64 / memory.total as f64).min(1.0)
    }
}

/// The part of memory in use, 0 to 1.
pub(super) fn share_in_use(memory: &MemoryObservation) -> f64 {
    1.0 - share_available(memory)
}
