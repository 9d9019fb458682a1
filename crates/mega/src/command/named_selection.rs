//! A selection of the daemon's configuration, by its name.

use std::collections::BTreeSet;
use std::path::Path;

use mega_core::ProcessId;
use mega_linux::{Host, process};

use crate::config;
use crate::exit::Failure;
use crate::manager::membership::{Membership, Scope};

/// A selection of the daemon's configuration.
pub(super) struct NamedSelection {
    name: String,
    /// Of all selections of the configuration: a process belongs to the first that takes it.
    membership: Membership,
    place: usize,
}

impl NamedSelection {
    /// Finds the named one in a configuration.
    ///
    /// # Errors
    /// Where the configuration cannot be read, or has none of that name.
    pub(super) fn load(file: &Path, name: &str) -> Result<Self, Failure> {
        let config = config::load(file).map_err(|error| Failure::Failed(error.to_string()))?;
        let names = || config.selects.iter().map(|select| select.name.as_str());
        let Some(place) = names().position(|known| known == name) else {
            let names: Vec<&str> = names().collect();
            return Err(Failure::Usage(format!(
                "{} has no select '{name}'; there are {}",
                file.display(),
                names.join(", ")
            )));
        };
        let selections = config.selects.into_iter().map(|select| select.selection);
        Ok(NamedSelection {
            name: name.to_owned(),
            membership: Membership::new(Scope::Selections(selections.collect())),
            place,
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The processes that run now and that it is the first to take.
    ///
    /// # Errors
    /// Where processes cannot be listed.
    pub(super) fn members(&mut self, host: &Host) -> Result<BTreeSet<ProcessId>, Failure> {
        let kernel = host.kernel().as_ref();
        let own = process::stat(kernel, std::process::id())?.process();
        let mut table = host.processes();
        table.refresh(kernel, self.membership.asks_for_resident())?;
        let members = self
            .membership
            .update(&table, own)
            .into_iter()
            .nth(self.place);
        Ok(members.unwrap_or_default())
    }
}
