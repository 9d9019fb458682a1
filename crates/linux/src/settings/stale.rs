//! What a killed mega left changed in the kernel, put back at the next start.

use super::{changed_settings, thp_mode};
use crate::Error;
use crate::kernel::Kernel;
use crate::settings::run_dir::RunDir;

/// Puts back everything global that killed megas left changed; says, one item each, what was put back.
///
/// # Errors
/// As [`thp_mode::restore_stale`] and [`changed_settings::restore_stale`].
pub fn put_back(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<String>, Error> {
    let mode = thp_mode::restore_stale(kernel, run_dir)?;
    let settings = changed_settings::restore_stale(kernel, run_dir)?;
    let mode = mode.map(|stale| format!("the THP mode to {}", stale.original));
    let settings = settings.iter().map(|path| path.display().to_string());
    Ok(mode.into_iter().chain(settings).collect())
}
