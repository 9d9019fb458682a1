//! Which NUMA node a process allocates on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use crate::kernel::Kernel;

/// Where processors are.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The node of each processor. Empty where all are on one: then there is nothing to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessorNodes(BTreeMap<u32, u32>);

impl ProcessorNodes {
    /// Reads which processor is on which node. That does not change while the machine runs; a processor that is added
    /// later is on none.
    pub(crate) fn read(kernel: &dyn Kernel) -> Self {
        let processors = kernel.list(Path::new(PROCESSORS)).unwrap_or_default();
        let nodes: BTreeMap<u32, u32> = processors
            .iter()
            .filter_map(|name| {
                let processor = numbered(name, "cpu")?;
                let inside = kernel.list(&Path::new(PROCESSORS).join(name)).ok()?;
                let node = inside.iter().find_map(|name| numbered(name, "node"))?;
                Some((processor, node))
            })
            .collect();
        let different: BTreeSet<&u32> = nodes.values().collect();
        match different.len() {
            0 | 1 => ProcessorNodes::default(),
            _ => ProcessorNodes(nodes),
        }
    }

    /// The node of a processor; `None` where it is not known, or there is one node only.
    pub(crate) fn of(&self, processor: Option<u32>) -> Option<u32> {
        self.0.get(&processor?).copied()
    }
}

/// The number in a name such as `cpu3`.
fn numbered(name: &OsStr, word: &str) -> Option<u32> {
    name.to_str()?.strip_prefix(word)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    fn machine(processors: &[(u32, u32)]) -> FakeKernel {
        let kernel = FakeKernel::new();
        for (processor, node) in processors {
            let file = format!("{PROCESSORS}/cpu{processor}/node{node}/cpulist");
            kernel.state().files.insert(file.into(), Vec::new());
        }
        let other = format!("{PROCESSORS}/cpufreq/policy0/affected_cpus");
        kernel.state().files.insert(other.into(), Vec::new());
        kernel
    }

    #[test]
    fn a_processor_is_on_its_node() {
        let nodes = ProcessorNodes::read(&machine(&[(0, 0), (1, 0), (2, 1), (10, 1)]));
        assert_eq!(
            [0, 1, 2, 10].map(|cpu| nodes.of(Some(cpu))),
            [Some(0), Some(0), Some(1), Some(1)]
        );
        assert_eq!((nodes.of(Some(3)), nodes.of(None)), (None, None));
    }

    #[test]
    fn on_one_node_there_is_nothing_to_choose() {
        for processors in [&[(0, 0), (1, 0)][..], &[]] {
            let nodes = ProcessorNodes::read(&machine(processors));
            assert_eq!(nodes.of(Some(0)), None);
        }
    }
}
