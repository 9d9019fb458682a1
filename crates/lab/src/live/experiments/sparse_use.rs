//! `sparse-use`: two programs that use a sixth of their memory.

use mega_linux::kernel::LiveKernel;
use mega_linux::observe::memory;

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::metric::{Better, Metric, OPERATIONS, RESIDENT, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::mapping::HUGE_PAGE;

const HUGE_PAGES: Metric = Metric::new("huge_pages", "huge pages used", Unit::Count, Better::Lower);
const FREE_BEFORE: Metric = Metric::new(
    "free_blocks_before",
    "free 2 MiB blocks before",
    Unit::Count,
    Better::Neither,
);
const FREE_AFTER: Metric = Metric::new(
    "free_blocks_after",
    "free 2 MiB blocks after",
    Unit::Count,
    Better::Higher,
);
/// Programs at once.
const PROGRAMS: u64 = 2;

pub(super) const SPARSE_USE: Experiment = Experiment {
    name: "sparse-use",
    title: "two programs that use a sixth of their memory",
    about: "Two programs at once touch their memory in pieces of 32 MiB, half of the size each, and then use one piece in six \
            at random. A policy that goes by what is mapped makes all of it huge, one that goes by what is used a sixth. \
            The free blocks of 2 MiB are counted before the programs start and while they still run.",
    paper: Some(PaperFigure {
        source: "MEGA, section 4.2, table 4",
        systems: &["Ingens", "MEGA"],
        rows: &[
            ("huge pages used", &["2,447", "1,024"]),
            ("free 2 MiB blocks before", &["6,710", "6,733"]),
            ("free 2 MiB blocks after one minute", &["50", "282"]),
        ],
    }),
    programs: &[],
    metrics: &[OPERATIONS, HUGE_PAGES, FREE_BEFORE, FREE_AFTER, RESIDENT],
    goals: &[],
    modes: Mode::usual,
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let size = run.size / PROGRAMS;
    let before = free_blocks()?;
    let mut programs = Vec::new();
    for _ in 0..PROGRAMS {
        let mut command = run.workload("chunks")?;
        command.arg(format!("--size={size}"));
        programs.push(run.ready_workload(command)?);
    }
    for (_, ready) in &programs {
        run.settle(ready.pid, size)?;
    }
    run.sleep(run.measured)?;
    let after = free_blocks()?;
    let (mut rate, mut resident, mut huge) = (0.0, 0, 0);
    for (program, _) in programs {
        let done = program.finish()?;
        rate += done.rate_over_last(run.measured);
        resident += done.resident_bytes;
        huge += done.huge_bytes;
    }
    Ok(Sample::default()
        .with(OPERATIONS, rate)
        .with(HUGE_PAGES, (huge / HUGE_PAGE as u64) as f64)
        .with(FREE_BEFORE, before as f64)
        .with(FREE_AFTER, after as f64)
        .with(RESIDENT, resident as f64))
}

/// Free blocks of 2 MiB in all zones, those in larger free areas too.
fn free_blocks() -> Result<u64, Error> {
    memory::observe(&LiveKernel)
        .map(|memory| memory.contiguity / HUGE_PAGE as u64)
        .map_err(|e| Error::Failed(format!("counting free blocks of 2 MiB: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_blocks_are_counted() {
        assert!(free_blocks().is_ok());
    }
}
