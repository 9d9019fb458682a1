//! Exchanges the memory of a guest by the kernel, in the process of its VMM.

use mega_exchange::{Backend, Blocks, Memory, Refusal};
use mega_linux::kernel::ProcessHandle;
use mega_linux::module::{Device, interface};
use rustix::io::Errno;

/// Pairs of one call: as many as the kernel takes at a time (mm/huge_exchange.c). Where this daemon is stopped in the call, the guest
/// uses the memory of so many pairs no more, 256 MiB at most.
const PAIRS_AT_ONCE: usize = 64;

/// A guest's memory, and the process that has it.
pub(super) struct OfProcess<'a> {
    pub(super) device: &'a Device,
    pub(super) vmm: ProcessHandle,
    pub(super) memory: Memory,
}

impl Backend for OfProcess<'_> {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn at_once(&self) -> usize {
        PAIRS_AT_ONCE
    }

    fn carry_out(&self, pairs: &[Blocks]) -> Vec<Result<(), Refusal>> {
        let mut asked: Vec<interface::Pair> = pairs
            .iter()
            .map(|blocks| {
                let (source, target) = blocks.addresses();
                interface::Pair {
                    first: source as u64,
                    second: target as u64,
                    ..interface::Pair::default()
                }
            })
            .collect();
        let mut request = interface::Exchange::default();
        match self.device.exchange(&self.vmm, &mut request, &mut asked) {
            Ok(()) => asked.iter().map(|pair| result_of(pair.result)).collect(),
            // The VMM is gone, memory is short, or this daemon is killed.
            Err(error) => {
                let refusal = match error.raw_os_error() {
                    Some(number) if number == Errno::NOMEM.raw_os_error() => Refusal::NoMemory,
                    _ => Refusal::Failed,
                };
                vec![Err(refusal); pairs.len()]
            }
        }
    }
}

/// What the guest is told.
fn result_of(result: u32) -> Result<(), Refusal> {
    match result {
        interface::PAIR_EXCHANGED => Ok(()),
        interface::PAIR_NOT_ELIGIBLE | interface::PAIR_NOT_HUGE => Err(Refusal::Unsupported),
        interface::PAIR_SHARED | interface::PAIR_HELD | interface::PAIR_BUSY => Err(Refusal::Busy),
        interface::PAIR_LOGGED => Err(Refusal::Paused),
        // Memory that has gone bad, and what a newer module may say.
        _ => Err(Refusal::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_has_its_reason() {
        assert_eq!(result_of(interface::PAIR_EXCHANGED), Ok(()));
        let refused = [
            (interface::PAIR_NOT_ELIGIBLE, Refusal::Unsupported),
            (interface::PAIR_NOT_HUGE, Refusal::Unsupported),
            (interface::PAIR_SHARED, Refusal::Busy),
            (interface::PAIR_HELD, Refusal::Busy),
            (interface::PAIR_BUSY, Refusal::Busy),
            (interface::PAIR_POISONED, Refusal::Failed),
            (interface::PAIR_LOGGED, Refusal::Paused),
            (u32::MAX, Refusal::Failed),
        ];
        for (result, refusal) in refused {
            assert_eq!(result_of(result), Err(refusal), "{result}");
        }
    }
}
