//! Which tracker is used: the one asked for, or the best that works here.

use std::sync::Arc;

use super::{
    BpfTracker, MappedTracker, ModuleTracker, PageIdleTracker, Tracker, TrackerKind, Unavailable,
};
use crate::kernel::Kernel;

/// No tracker could be opened.
#[derive(Debug)]
pub struct NoTracker {
    /// Each that was tried, and why it cannot be used.
    pub tried: Vec<(TrackerKind, Unavailable)>,
}

impl std::fmt::Display for NoTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (kind, why)) in self.tried.iter().enumerate() {
            write!(f, "{}{kind}: {why}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for NoTracker {}

/// Opens the tracker asked for, or the best one that works.
///
/// # Errors
/// Why the one asked for cannot be used, or why none can.
pub fn open(
    kernel: &Arc<dyn Kernel>,
    wanted: Option<TrackerKind>,
) -> Result<Box<dyn Tracker>, NoTracker> {
    let mut tried = Vec::new();
    for kind in TrackerKind::ALL
        .into_iter()
        .filter(|kind| wanted.is_none_or(|wanted| wanted == *kind))
    {
        match open_one(kernel, kind) {
            Ok(tracker) => return Ok(tracker),
            Err(why) => tried.push((kind, why)),
        }
    }
    Err(NoTracker { tried })
}

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
