//! Which processes belong to which group.

use std::collections::{BTreeMap, BTreeSet};

use mega_core::ProcessId;
use mega_linux::process::Table;

use crate::selection::Selection;

/// What decides to which group a process belongs.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All that descend from this process belong to the one group.
    Descendants,
    /// Each process belongs to the first selection that takes it; there is a group for each selection.
    Selections(Vec<Selection>),
}

/// The groups' processes. An update costs a look at each process; selections are asked only about those that changed.
#[derive(Debug)]
pub(crate) struct Membership {
    scope: Scope,
    /// Of each process that was asked about, the group that it belongs to.
    known: BTreeMap<ProcessId, Option<usize>>,
    /// Processes that changed in a later refresh of the table are asked about.
    as_of: u64,
}

impl Membership {
    /// Never looked for.
    pub(crate) fn new(scope: Scope) -> Self {
        Membership {
            scope,
            known: BTreeMap::new(),
            as_of: 0,
        }
    }

    /// Whether a selection asks for what is resident, which changes all the time.
    pub(crate) fn asks_for_resident(&self) -> bool {
        match &self.scope {
            Scope::Descendants => false,
            Scope::Selections(selections) => selections
                .iter()
                .any(|selection| selection.min_resident.is_some()),
        }
    }

    /// The processes of each group, `own` not among them.
    pub(crate) fn update(&mut self, table: &Table, own: ProcessId) -> Vec<BTreeSet<ProcessId>> {
        let Scope::Selections(selections) = &self.scope else {
            let mut found = table.descendants(own);
            found.remove(&own);
            return vec![found];
        };
        let mut members = vec![BTreeSet::new(); selections.len()];
        let before = std::mem::take(&mut self.known);
        for process in table.processes() {
            let facts = &process.facts;
            let known = before
                .get(&facts.process)
                .filter(|_| process.changed_in <= self.as_of);
            let group = known.copied().unwrap_or_else(|| {
                selections
                    .iter()
                    .position(|selection| selection.takes(facts))
            });
            self.known.insert(facts.process, group);
            if let Some(members) = group.and_then(|group| members.get_mut(group))
                && facts.process != own
            {
                members.insert(facts.process);
            }
        }
        self.as_of = table.refreshes();
        members
    }
}
