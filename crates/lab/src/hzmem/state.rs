//! What hzmem itself says while it is measured.

use std::sync::Arc;
use std::time::Duration;

use mega_linux::hzmem::{Hzmem, Mount, State};
use mega_linux::kernel::LiveKernel;

use crate::error::Error;

pub(super) fn read() -> Result<State, Error> {
    Hzmem::open(Arc::new(LiveKernel))
        .and_then(|hzmem| hzmem.state())
        .map_err(|error| Error::from_linux(&error, "hzmem is measured"))
}

/// The one mount there is.
pub(super) fn mount() -> Result<Mount, Error> {
    let state = read()?;
    state
        .mounts
        .into_iter()
        .next()
        .ok_or_else(|| Error::Failed("hzmem is mounted nowhere".to_owned()))
}

/// CPU time of all its threads so far.
pub(super) fn daemon_cpu() -> Result<Duration, Error> {
    Ok(read()?.nodes.iter().map(|node| node.daemon_cpu).sum())
}

/// Bytes of its memory that are free.
pub(super) fn free() -> Result<u64, Error> {
    Ok(read()?.nodes.iter().map(|node| node.free).sum())
}
