//! Whom a recording is about.

use std::collections::BTreeSet;
use std::ffi::OsString;

use mega_core::ProcessId;
use mega_linux::{Host, process};

use crate::command::named_selection::NamedSelection;
use crate::exit::Failure;
use crate::manager::membership::{Membership, Scope};

/// Whom a recording is about.
pub(super) struct Subject {
    who: Who,
    /// The same in words, for the recording's header.
    pub(super) in_words: String,
}

enum Who {
    Process(ProcessId),
    Selection(NamedSelection),
    Descendants(Membership),
}

impl Subject {
    /// One process.
    ///
    /// # Errors
    /// Where there is none of that pid.
    pub(super) fn process(host: &Host, pid: u32) -> Result<Self, Failure> {
        let process = process::identify(host.kernel().as_ref(), pid)?;
        Ok(Subject {
            who: Who::Process(process),
            in_words: format!("process {pid}"),
        })
    }

    /// What a selection takes.
    pub(super) fn selection(select: NamedSelection) -> Self {
        Subject {
            in_words: format!("select {}", select.name()),
            who: Who::Selection(select),
        }
    }

    /// The descendants of this process: a command that was started, and its own.
    pub(super) fn descendants(command: &[OsString]) -> Self {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Subject {
            who: Who::Descendants(Membership::new(Scope::Descendants)),
            in_words: words.join(" "),
        }
    }

    /// Whether it is over once none of it is left.
    pub(super) fn ends(&self) -> bool {
        matches!(self.who, Who::Process(_))
    }

    /// Its processes now.
    ///
    /// # Errors
    /// Where processes cannot be listed.
    pub(super) fn processes(&mut self, host: &Host) -> Result<BTreeSet<ProcessId>, Failure> {
        let kernel = host.kernel().as_ref();
        match &mut self.who {
            Who::Process(process) => {
                let is_alive = process::is_alive(kernel, *process);
                Ok(is_alive.then_some(*process).into_iter().collect())
            }
            Who::Selection(select) => select.members(host),
            Who::Descendants(membership) => {
                let own = process::stat(kernel, std::process::id())?.process();
                let mut table = host.processes();
                table.refresh(kernel, false)?;
                let members = membership.update(&table, own).into_iter().next();
                Ok(members.unwrap_or_default())
            }
        }
    }
}
