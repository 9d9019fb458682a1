//! What a recording says only where it changes: names, mappings, and who else uses Accessed bits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use mega_core::ProcessId;
use mega_linux::kernel::Kernel;
use mega_linux::physical::buddyinfo;
use mega_linux::{Error, Host, LinuxMachine, doctor, process};
use mega_record::{FreeList, News};

/// How often it is looked for others that use Accessed bits. That takes a look at every process of the machine.
const LOOK_FOR_OTHERS: Duration = Duration::from_secs(60);

/// What a recording says already.
#[derive(Default)]
pub(crate) struct Told {
    names: BTreeMap<ProcessId, String>,
    mappings: BTreeMap<ProcessId, Vec<Range<u64>>>,
    seen: u64,
    others: Option<Vec<String>>,
    others_due: Duration,
}

impl Told {
    /// Processes that it has had.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Forgets the processes that will not be seen any more.
    pub(crate) fn retain(&mut self, stays: impl Fn(&ProcessId) -> bool) {
        self.names.retain(|process, _| stays(process));
    }

    /// What differs, of the processes that were looked at, at this time of the recording. Touches are not among it.
    pub(crate) fn news(
        &mut self,
        host: &Host,
        machine: &LinuxMachine,
        processes: &BTreeSet<ProcessId>,
        at: Duration,
    ) -> News {
        let mut news = News::default();
        self.mappings
            .retain(|process, _| processes.contains(process));
        for process in processes {
            let name = process::name_of(host.kernel().as_ref(), *process);
            // One that has just ended has none any more.
            if !name.is_empty() && self.names.get(process) != Some(&name) {
                self.seen += u64::from(self.names.insert(*process, name.clone()).is_none());
                news.names.insert(*process, name);
            }
            let mappings = machine.eligible(*process);
            if self.mappings.get(process).map(Vec::as_slice) != Some(mappings) {
                self.mappings.insert(*process, mappings.to_vec());
                news.mappings.insert(*process, mappings.to_vec());
            }
        }
        if at >= self.others_due {
            self.others_due = at + LOOK_FOR_OTHERS;
            let others = doctor::other_consumers(host.kernel().as_ref());
            if self.others.as_ref() != Some(&others) {
                news.others = Some(others.clone());
                self.others = Some(others);
            }
        }
        news
    }
}

/// The free lists of each node.
///
/// # Errors
/// Where the kernel does not tell.
pub(crate) fn free_lists(kernel: &dyn Kernel) -> Result<Vec<FreeList>, Error> {
    let mut nodes: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for zone in buddyinfo::read(kernel)? {
        let areas = nodes.entry(zone.node).or_default();
        areas.resize(areas.len().max(zone.areas.len()), 0);
        for (sum, count) in areas.iter_mut().zip(&zone.areas) {
            *sum += count;
        }
    }
    let nodes = nodes.into_iter();
    Ok(nodes
        .map(|(node, areas)| FreeList { node, areas })
        .collect())
}
