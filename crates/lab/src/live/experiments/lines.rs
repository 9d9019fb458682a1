//! A file of lines, and programs that read it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::error::Error;
use crate::live::package::{Package, Program};
use crate::live::run::Run;
use crate::random::{Random, mix};

pub(super) const GZIP: Program = Program {
    name: "gzip",
    package: Package::Debian("gzip"),
};
pub(super) const SORT: Program = Program {
    name: "sort",
    package: Package::Debian("coreutils"),
};

/// Bytes of a line: a number of 16 digits, and its end.
const LINE: u64 = 17;
/// A file of lines of random numbers.
///
/// # Errors
/// When it cannot be written.
pub(super) fn text(run: &Run<'_>, bytes: u64) -> Result<PathBuf, Error> {
    let path = run.scratch.join("lines.txt");
    let attempted = || format!("writing {}", path.display());
    let file = File::create(&path).map_err(|e| Error::io(attempted(), e))?;
    let mut file = BufWriter::new(file);
    let mut random = Random::new(mix(run.seed));
    for _ in 0..bytes / LINE {
        writeln!(file, "{:016x}", random.word()).map_err(|e| Error::io(attempted(), e))?;
    }
    file.flush().map_err(|e| Error::io(attempted(), e))?;
    Ok(path)
}
