//! The same start for every run.

use crate::error::Error;
use crate::mapping::Area;

/// Touches as many bytes of memory as programs will at most have, and frees them: once in base pages and once in huge
/// ones, since the kernel takes the two from different free blocks. A hypervisor backs memory at its first touch, and may
/// take it back seconds after it was freed: every run is to start from the same.
///
/// # Errors
/// When they cannot be mapped.
pub fn warm_up(bytes: u64) -> Result<(), Error> {
    // Without THP there is no advice to take, and one way does for both.
    touch(bytes, |area| drop(area.advise_base()))?;
    touch(bytes, |area| drop(area.advise_huge()))
}

fn touch(bytes: u64, advise: impl Fn(&Area)) -> Result<(), Error> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut area =
        Area::map(bytes).map_err(|e| Error::io(format!("mapping {bytes} bytes of memory"), e))?;
    advise(&area);
    area.touch_all();
    Ok(())
}
