//! How every scan ends.

use mega_core::RegionObservation;

use super::{TrackError, TrackedProcess};

/// What a scan reports that came to `result`. If the process has exited meanwhile it is gone, whatever was found: its pid
/// may already belong to another. An error leaves nothing in `out`.
pub(super) fn finish(
    target: &TrackedProcess<'_>,
    result: Result<(), TrackError>,
    out: &mut Vec<RegionObservation>,
) -> Result<(), TrackError> {
    let result = match target.has_exited() {
        true => Err(TrackError::Gone {
            pid: target.process.pid,
        }),
        false => result,
    };
    if result.is_err() {
        out.clear();
    }
    result
}
