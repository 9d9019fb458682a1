//! How much memory there is, as policies ask it. Where the total is not known (0), memory is taken to be
//! plentiful: a policy must not act on a shortage nobody saw.

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
