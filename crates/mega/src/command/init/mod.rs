//! `mega init`: writes a configuration from what runs here, for the operator to edit.

mod candidates;
mod look;
mod text;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mega_linux::kernel::LiveKernel;
use mega_linux::process::{Facts, Table};

use crate::cli::{DEFAULT_CONFIG, Init};
use crate::exit::Failure;
use crate::output;

pub(super) fn run(args: &Init) -> Result<ExitCode, Failure> {
    let (path, check) = target(args);
    if !args.print && path.exists() {
        return Err(exists(&path));
    }
    let processes = large_processes(args.min_resident)?;
    let candidates = candidates::of(&processes);
    let seen = match look::look(&processes) {
        Ok(seen) => seen,
        Err(error) => {
            output::say(&format!("{error}; the comments do not say what is huge"));
            look::Seen::new()
        }
    };
    let text = text::configuration(&candidates, &seen, args.min_resident);
    if args.print {
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    write(&path, &text)?;
    output::say(&format!(
        "wrote {} with {}; edit it, then check it: {check}",
        path.display(),
        match candidates.len() {
            0 | 1 => "1 selection".to_owned(),
            count => format!("{count} selections"),
        }
    ));
    Ok(ExitCode::SUCCESS)
}

/// The file to write, and what checks it. A package may have installed a configuration that selects nothing: then it is
/// a file that is read after that one.
fn target(args: &Init) -> (PathBuf, String) {
    const CHECK: &str = "mega daemon --check";
    if let Some(path) = &args.config {
        return (path.clone(), format!("{CHECK} --config {}", path.display()));
    }
    let main = PathBuf::from(DEFAULT_CONFIG);
    let path = match main.exists() {
        true => PathBuf::from(format!("{DEFAULT_CONFIG}.d/init.toml")),
        false => main,
    };
    (path, CHECK.to_owned())
}

/// What runs here and has at least `least` bytes resident, this process aside.
fn large_processes(least: u64) -> Result<Vec<Facts>, Failure> {
    let mut table = Table::by_proc();
    table.refresh(&LiveKernel, false)?;
    let own = std::process::id();
    let facts = table.processes().iter().map(|process| &process.facts);
    let is_large = |facts: &&Facts| facts.resident >= least && facts.process.pid != own;
    Ok(facts.filter(is_large).cloned().collect())
}

fn exists(path: &Path) -> Failure {
    Failure::Failed(format!(
        "{0}: there is a configuration already, and mega init overwrites none; name another file with --config, print one \
         with --print, or move {0} away",
        path.display()
    ))
}

/// Writes a new file, and the folder that it is in.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::Failed(format!("cannot write {}: {error}", path.display())),
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)
        .map_err(refused)?;
    file.write_all(text.as_bytes()).map_err(refused)
}
