//! Programs of `harm` that work by themselves.

use std::process::Command;

use super::{Worked, java, python};
use crate::error::Error;
use crate::live::run::Run;
use crate::meminfo;

/// The table in Python, after what it speaks by.
const SPARSE_TABLE: &str = concat!(
    include_str!("../../../programs/speaking.py"),
    include_str!("../../../programs/sparse_table.py")
);
/// And the stacks in Java.
const STACKS: &str = include_str!("../../../programs/Stacks.java");
/// Memory of the run for each thread of them.
const BYTES_OF_A_THREAD: u64 = 1 << 20;

/// Runs NumPy with a sparse table.
///
/// # Errors
/// When it cannot be started, fails, finds its data wrong, or is interrupted.
pub(super) fn sparse_table(run: &Run<'_>) -> Result<Worked, Error> {
    let mut command = run.unpinned_command(python::PYTHON.find()?)?;
    command.env("NUMPY_MADVISE_HUGEPAGE", "0");
    command.args(["-c", SPARSE_TABLE]);
    command.args([run.size, run.seed].map(|number| number.to_string()));
    work(run, command)
}

/// Runs a JVM with many stacks.
///
/// # Errors
/// As [`sparse_table`].
pub(super) fn stacks(run: &Run<'_>) -> Result<Worked, Error> {
    java::compile_source(run, "Stacks.java", STACKS)?;
    let mut command = run.unpinned_command(java::PROGRAMS[0].find()?)?;
    command.arg("-cp").arg(run.scratch);
    command.args(["-Xss4m", "-Xmx64m", "-XX:+UseSerialGC", "Stacks"]);
    command.args([run.size / BYTES_OF_A_THREAD, run.seed].map(|number| number.to_string()));
    work(run, command)
}

#[allow(clippy::cast_precision_loss)]
fn work(run: &Run<'_>, command: Command) -> Result<Worked, Error> {
    let before = meminfo::anonymous()?;
    let (process, _) = run.ready_workload(command)?;
    run.sleep(run.measured)?;
    let taken = meminfo::anonymous()?.saturating_sub(before);
    let done = process.finish()?;
    Ok(Worked {
        taken: taken as f64,
        rate: done.operations_per_second,
    })
}
