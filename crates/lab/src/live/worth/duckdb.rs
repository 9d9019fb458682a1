//! DuckDB with two tables in memory, asked to join them, a part at a time.

use super::asked::Asked;
use crate::error::Error;
use crate::live::experiments::python::PYTHON;
use crate::live::package::{Package, Program};
use crate::live::run::Run;

/// Where `scripts/install-lab-programs` puts Python's packages that Debian does not have.
const PACKAGES: &str = "/usr/local/lib/mega-lab/python";
/// By the file that tells whether it is there.
const DUCKDB: Program = Program {
    name: "/usr/local/lib/mega-lab/python/duckdb/__init__.py",
    package: Package::OfPython("duckdb"),
};

/// What must be installed.
pub(super) const PROGRAMS: [Program; 2] = [PYTHON, DUCKDB];

/// The program.
const SOURCE: &str = include_str!("../../programs/duckdb_joins.py");
/// Parts that it makes of its orders.
const PARTS: u8 = 16;

/// Starts it with as much memory as the run's programs have. Each question is for a join of a sixteenth.
///
/// # Errors
/// When it cannot be started.
pub(super) fn start(run: &Run<'_>) -> Result<Asked, Error> {
    let mut command = run.command(PYTHON.find()?)?;
    command.env("PYTHONPATH", PACKAGES).args([
        "-c",
        SOURCE,
        &run.size.to_string(),
        &PARTS.to_string(),
    ]);
    let parts = (0..PARTS).cycle().map(|part| part.to_string());
    Asked::start(command, None, parts, "right")
}
