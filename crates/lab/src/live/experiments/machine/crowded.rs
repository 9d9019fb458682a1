//! Memory that is nearly full and fragmented.

use crate::error::Error;
use crate::live::process::Process;
use crate::live::run::Run;
use crate::meminfo;

/// Memory that nobody takes.
const RESERVE: u64 = 2 << 30;
/// What it takes at most, as a multiple of what the programs have: a small experiment is not to fill a large machine.
const MOST: u64 = 4;

/// Starts a program that has half of what it takes for good, and has given the rest back in pieces of 1 MiB (MEGA's fragmenter).
/// It takes so much that what the run's programs need, and a quarter more, is left; where they need little it takes less.
///
/// # Errors
/// When it cannot be started, or fails.
pub(super) fn fill(run: &Run<'_>) -> Result<Process, Error> {
    let mut command = run.workload_beside("fragment")?;
    command.arg("--method=mega").arg(format!(
        "--size={}",
        to_take(meminfo::available()?, run.size)
    ));
    let (fragmenter, _) = run.ready_workload(command)?;
    Ok(fragmenter)
}

fn to_take(available: u64, size: u64) -> u64 {
    let to_spare = available.saturating_sub(RESERVE);
    let to_hold = to_spare.saturating_sub(size / 4 * 5);
    to_hold
        .saturating_mul(2)
        .min(to_spare)
        .min(MOST.saturating_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_the_programs_need_is_left(available in 0..1_u64 << 44, size in 0..1_u64 << 43) {
            let taken = to_take(available, size);
            prop_assert!(taken <= available && taken <= MOST * size);
            // Of what it takes it keeps half.
            if size / 4 * 5 + RESERVE <= available {
                prop_assert!(available - taken / 2 >= size / 4 * 5 + RESERVE);
            }
        }
    }
}
