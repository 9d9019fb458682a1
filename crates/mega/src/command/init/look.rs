//! What of the processes is huge, and what the default policy would make huge. Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use mega_core::engine::would;
use mega_core::promotion::{self, DEFAULT_POLICY, Parameters};
use mega_core::{ActionKind, HUGE_PAGE_SIZE, Machine, Observation, ProcessId};
use mega_linux::process::Facts;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions};

use crate::exit::Failure;

/// What was seen of one process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Mapped where huge pages can be.
    pub(super) mapped: u64,
    /// Of that, in huge pages.
    pub(super) huge: u64,
    /// What the default policy would make huge, if all that is mapped is in use.
    pub(super) wanted: u64,
}

/// What was seen, by process.
pub(super) type Seen = BTreeMap<ProcessId, Look>;

/// Looks at each process once.
///
/// # Errors
/// Where this kernel or these privileges do not let it look.
pub(super) fn look(processes: &[Facts]) -> Result<Seen, Failure> {
    if processes.is_empty() {
        return Ok(Seen::new());
    }
    let host = Host::open(HostOptions {
        dry_run: true,
        tracker: None,
    })?;
    let mut machine = LinuxMachine::new(Arc::new(host), MachineOptions::default());
    machine.set_targets(processes.iter().map(|facts| facts.process).collect());
    let observation = machine.observe()?;
    let mut seen = Seen::new();
    for observed in &observation.processes {
        let alone = Observation {
            processes: vec![observed.clone()],
            ..observation.clone()
        };
        let policy = promotion::build(DEFAULT_POLICY, &Parameters::new())?;
        let promotions = would(policy, &alone).wanted[ActionKind::Promote];
        let regions = || observed.regions.iter();
        let huge = regions().filter(|region| region.is_huge());
        seen.insert(
            observed.process,
            Look {
                mapped: regions().map(|region| region.resident_bytes()).sum(),
                huge: huge.map(|region| region.resident_bytes()).sum(),
                wanted: promotions * HUGE_PAGE_SIZE,
            },
        );
    }
    Ok(seen)
}
