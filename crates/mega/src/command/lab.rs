//! `mega lab`, `mega demo` and `mega workload`. mega becomes `mega-lab`, a program of its own: the manager carries no
//! experiments.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cli::PassedOn;
use crate::exit::Failure;

/// The program that has the experiments and the workloads.
const PROGRAM: &str = "mega-lab";

/// Where it may be, seen from the folder of this program. If it is in none of these, `PATH` is searched.
const FOLDERS: [&str; 3] = ["", "../libexec/mega", "../lib/mega"];

/// `mega lab`
pub(super) fn lab(args: &PassedOn) -> Result<ExitCode, Failure> {
    become_lab("mega lab", None, args)
}

/// `mega demo`
pub(super) fn demo(args: &PassedOn) -> Result<ExitCode, Failure> {
    become_lab("mega", Some("demo"), args)
}

/// `mega workload`
pub(super) fn workload(args: &PassedOn) -> Result<ExitCode, Failure> {
    become_lab("mega", Some("workload"), args)
}

/// Replaces this process by `mega-lab`, so that pid, streams and signals stay. `name` becomes its name, so that its help
/// shows the command as the user typed it.
fn become_lab(name: &str, command: Option<&str>, args: &PassedOn) -> Result<ExitCode, Failure> {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent);
    let candidates = candidates(folder);
    // exec searches `PATH` for a name without a folder.
    let program = candidates
        .iter()
        .find(|path| path.is_file())
        .map_or(OsStr::new(PROGRAM), |path| path.as_os_str());
    let error = Command::new(program)
        .arg0(name)
        .args(command)
        .args(&args.arguments)
        .exec();
    Err(refused(program, &candidates, &error))
}

fn candidates(folder: Option<&Path>) -> Vec<PathBuf> {
    let within = |folder: &Path| FOLDERS.map(|place| folder.join(place).join(PROGRAM));
    folder.map(within).into_iter().flatten().collect()
}

fn refused(program: &OsStr, candidates: &[PathBuf], error: &std::io::Error) -> Failure {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Failure::Failed(format!("cannot run {}: {error}", program.display()));
    }
    let places: Vec<String> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Failure::Missing(format!(
        "this command needs {PROGRAM}, which is not at {} and not on PATH; the package mega-lab has it, `make install` installs both programs, `make build` builds them",
        places.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_every_place() {
        let candidates = candidates(Some(Path::new("/usr/local/bin")));
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        let Failure::Missing(line) = refused(OsStr::new(PROGRAM), &candidates, &error) else {
            panic!("not missing")
        };
        for place in [
            "/usr/local/bin/mega-lab",
            "bin/../libexec/mega/mega-lab",
            "bin/../lib/mega/mega-lab",
            "PATH",
            "make install",
        ] {
            assert!(line.contains(place), "{line}");
        }
    }
}
