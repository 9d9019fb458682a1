//! How much of a process's memory huge pages map, looked at once and as a whole. Nothing is cleared.

use mega_core::coverage::{Coverage, Obstacle};
use mega_core::{ProcessId, Region};

use crate::kernel::Kernel;
use crate::observe::shared_pages::SharedPages;
use crate::process::not_eligible::{NotEligible, Reason};
use crate::process::{is_alive, path};
use crate::{Error, LinuxMachine};

/// Looks at a target of `machine`, after it has observed: what it leaves to other processes then is left out here, and so is what
/// does not count ([`LinuxMachine::set_chosen`]).
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`].
pub fn observe(machine: &mut LinuxMachine, process: ProcessId) -> Result<Coverage, Error> {
    let left_alone = machine.not_eligible(process).to_vec();
    let mut regions = machine.eligible_regions(process, None)?;
    let left_out = |address| left_alone.iter().any(|part| part.range.contains(&address));
    let counted = machine.counted(process).cloned();
    let counts = |region| {
        counted
            .as_ref()
            .is_none_or(|counted| counted.contains(region))
    };
    regions.retain(|&region| !left_out(region.start()) && counts(region));
    let seen = machine.look(process, &regions)?;
    let kernel = machine.host().kernel().as_ref();
    let status = Status::read(kernel, process.pid);
    let shared = SharedPages::of(kernel, process.pid);
    let mut coverage = Coverage::default();
    for region in seen.iter().filter(|region| region.mapped > 0) {
        let obstacle = match Obstacle::seen_in(region) {
            _ if region.is_huge() => Obstacle::None,
            _ if status.switched_off => Obstacle::SwitchedOff,
            Obstacle::None | Obstacle::PartlyMapped if shared.too_many_in(kernel, region) => {
                Obstacle::SharedSinceFork
            }
            seen => seen,
        };
        coverage.add(region, obstacle);
    }
    let in_vain = left_alone
        .iter()
        .filter(|part| counts(Region::containing(part.range.start)));
    coverage.add_out_of_reach(misaligned(in_vain).min(status.shared));
    // What was read by its pid was of this process only if it still runs.
    if is_alive(kernel, process) {
        Ok(coverage)
    } else {
        Err(Error::Gone { pid: process.pid })
    }
}

/// Bytes of addresses that no huge page fits. How much of them is resident is not known: at most all shared memory is.
fn misaligned<'p>(left_alone: impl IntoIterator<Item = &'p NotEligible>) -> u64 {
    let is_misaligned = |part: &&NotEligible| match part.reason {
        Reason::MisalignedShared | Reason::MisalignedPosixShared => true,
        Reason::CountedWith { .. } => false,
    };
    let parts = left_alone.into_iter().filter(is_misaligned);
    parts.map(|part| part.range.end - part.range.start).sum()
}

/// What `/proc/PID/status` says of huge pages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    /// Whether the process has switched them off for itself (`PR_SET_THP_DISABLE`).
    switched_off: bool,
    /// Resident bytes of shared memory.
    shared: u64,
}

impl Status {
    /// Where it cannot be read, nothing is known to be in the way.
    fn read(kernel: &dyn Kernel, pid: u32) -> Self {
        let text = kernel.read(&path(pid, "status")).unwrap_or_default();
        Status::parse(&text)
    }

    fn parse(text: &[u8]) -> Self {
        Status {
            switched_off: super::memory::meminfo_bytes(text, "THP_enabled") == Some(0),
            shared: super::memory::meminfo_bytes(text, "RssShmem").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_status_says_what_is_switched_off_and_shared() {
        let text = b"Name:\tx\nRssShmem:\t    2048 kB\nTHP_enabled:\t0\n";
        let wanted = Status {
            switched_off: true,
            shared: 2 << 20,
        };
        assert_eq!(Status::parse(text), wanted);
        assert_eq!(Status::parse(b"THP_enabled:\t1\n"), Status::default());
        assert_eq!(Status::parse(b""), Status::default());
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn only_what_no_huge_page_fits_is_out_of_reach() {
        let part = |range, reason| NotEligible { range, reason };
        let parts = [
            part(0..4096, Reason::MisalignedShared),
            part(8192..12288, Reason::MisalignedPosixShared),
            part(1 << 20..1 << 30, Reason::CountedWith { pid: 1 }),
        ];
        assert_eq!(misaligned(&parts), 8192);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Status::parse(&text);
        }
    }
}
