//! Opens a tracker of a kind. Which kind is chosen in [`crate::observe::tracker_choice`].

use std::sync::Arc;

use super::{
    BpfTracker, MappedTracker, ModuleTracker, PageIdleTracker, Tracker, TrackerKind, Unavailable,
};
use crate::kernel::Kernel;

/// Opens one tracker, which also tells whether it can be used here.
///
/// # Errors
/// What is missing, and how to get it.
pub fn open_one(
    kernel: &Arc<dyn Kernel>,
    kind: TrackerKind,
) -> Result<Box<dyn Tracker>, Unavailable> {
    let kernel = Arc::clone(kernel);
    Ok(match kind {
        TrackerKind::Module => Box::new(ModuleTracker::open(kernel)?),
        TrackerKind::Bpf => Box::new(BpfTracker::open(kernel)?),
        TrackerKind::PageIdle => Box::new(PageIdleTracker::open(kernel)?),
        TrackerKind::Mapped => Box::new(MappedTracker::open(kernel)?),
    })
}
