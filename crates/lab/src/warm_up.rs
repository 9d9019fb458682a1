//! The same start for every run.

use crate::error::Error;
use crate::mapping::Area;

/// Touches as many bytes of memory as programs will at most have, makes them huge, and frees them: the kernel takes base
/// and huge pages from different free blocks. A hypervisor backs memory at its first touch, and takes it back seconds
/// after it was freed, while the next program runs. So this is the same in every THP mode, also where faults take no huge
/// pages.
///
/// # Errors
/// When they cannot be mapped.
pub fn warm_up(bytes: u64) -> Result<(), Error> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut area =
        Area::map(bytes).map_err(|e| Error::io(format!("mapping {bytes} bytes of memory"), e))?;
    // Without THP there is no advice to take, and base pages are all there is.
    drop(area.advise_base());
    area.touch_all();
    drop(area.collapse());
    Ok(())
}
