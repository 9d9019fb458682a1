//! A calibration for tests: measured on this machine, of small working sets only, since a whole one takes many seconds.

use std::path::Path;

use mega_linux::Error;
use mega_linux::calibrate::{self, Place, WORKING_SETS};
use mega_linux::kernel::LiveKernel;

/// Keeps one in `directory`, up to working sets of 32 MiB, for the commands that are given it as `MEGA_STATE_DIR`. The reason where
/// this machine lacks what it takes.
pub(crate) fn keep(directory: &Path) -> Result<(), String> {
    match calibrate::measure(&LiveKernel, &WORKING_SETS[..3], &mut |_| ()) {
        Ok(calibration) => {
            let place = Place::at(directory.to_owned());
            place.store(&calibration).expect("a calibration is kept");
            Ok(())
        }
        Err(error @ Error::Missing { .. }) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}
