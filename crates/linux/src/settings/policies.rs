//! What promotion policies want of the whole machine while they manage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mega_core::promotion::MachineSetting;

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::chunk_order;
use crate::settings::ledger::Guard;

/// The settings that are held for policies. Each is put back when no policy wants it any more, and when this is dropped.
#[derive(Default)]
pub struct PolicySettings {
    held: BTreeMap<MachineSetting, Guard>,
}

impl PolicySettings {
    /// Makes it so that exactly `wanted` is held.
    ///
    /// # Errors
    /// [`Error::Missing`] where the kernel has no such setting; as [`Guard::set`]. What was held before still is.
    pub fn hold(
        &mut self,
        kernel: &Arc<dyn Kernel>,
        wanted: &BTreeSet<MachineSetting>,
    ) -> Result<(), Error> {
        let mut new = BTreeMap::new();
        for &setting in wanted {
            if !self.held.contains_key(&setting) {
                new.insert(setting, set(Arc::clone(kernel), setting)?);
            }
        }
        self.held.retain(|setting, _| wanted.contains(setting));
        self.held.append(&mut new);
        Ok(())
    }
}

fn set(kernel: Arc<dyn Kernel>, setting: MachineSetting) -> Result<Guard, Error> {
    match setting {
        MachineSetting::SequentialChunks => chunk_order::make_sequential(kernel, &RunDir::open()?),
    }
}
