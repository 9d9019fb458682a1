//! Who may map a page: the process that it was allocated for, and those that share it since a fork, at the same address
//! (`struct anon_vma` of Linux).

use std::collections::BTreeMap;

use super::Pid;

/// The families of processes that forked.
#[derive(Clone, Debug, Default)]
pub(super) struct Families {
    /// The first of the family that a process belongs to, also after its end: pages that it left to others name it.
    first: BTreeMap<Pid, Pid>,
    /// The living members of each family, by its first.
    members: BTreeMap<Pid, Vec<Pid>>,
}

impl Families {
    /// The living members of a process's family.
    pub(super) fn of(&self, pid: Pid) -> impl Iterator<Item = Pid> + '_ {
        let first = self.first.get(&pid);
        let members = first.and_then(|first| self.members.get(first));
        let alone = members.is_none().then_some(pid);
        members.into_iter().flatten().copied().chain(alone)
    }

    /// A process has a child.
    pub(super) fn add(&mut self, parent: Pid, child: Pid) {
        let first = *self.first.entry(parent).or_insert(parent);
        self.first.insert(child, first);
        let members = self.members.entry(first).or_insert_with(|| vec![parent]);
        members.push(child);
    }

    /// A process maps nothing any more.
    pub(super) fn leave(&mut self, pid: Pid) {
        let first = self.first.get(&pid);
        if let Some(members) = first.and_then(|first| self.members.get_mut(first)) {
            members.retain(|member| *member != pid);
        }
    }
}
