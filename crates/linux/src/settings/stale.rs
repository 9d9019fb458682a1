//! What a killed mega left changed in the kernel. The next start puts it back.

use std::path::Path;

use super::ledger::{self, Stale};
use super::{old_record, thp_mode};
use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;

/// Everything global that killed megas left changed. Changes nothing.
///
/// # Errors
/// As [`ledger::stale`].
pub fn find(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<Stale>, Error> {
    let mut stale = ledger::stale(kernel, run_dir)?;
    stale.extend(old_record::stale(run_dir)?);
    Ok(stale)
}

/// Puts back everything global that killed megas left changed. Says what was put back, one item for each setting.
///
/// # Errors
/// As [`ledger::restore_stale`].
pub fn put_back(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<String>, Error> {
    // One record that cannot be dealt with does not keep the other from it.
    let by_ledger = ledger::restore_stale(kernel, run_dir);
    let mut stale = old_record::put_back(kernel, run_dir)?;
    stale.splice(0..0, by_ledger?);
    Ok(stale.iter().map(in_words).collect())
}

fn in_words(stale: &Stale) -> String {
    let Stale { path, original, .. } = stale;
    if path == Path::new(thp_mode::PATH) {
        format!("the THP mode to {original}")
    } else {
        format!("{} to {original}", path.display())
    }
}
