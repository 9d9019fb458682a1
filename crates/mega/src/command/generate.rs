//! `mega completions` and `mega man`: both from the definition of the command line.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};
use crate::exit::Failure;
use crate::output;

pub(super) fn completions(args: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mega", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(args: &Man) -> Result<ExitCode, Failure> {
    let refused = |error| {
        Failure::Failed(format!(
            "cannot write man pages to {}: {error}",
            args.folder.display()
        ))
    };
    std::fs::create_dir_all(&args.folder).map_err(refused)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(refused)?;
    Ok(ExitCode::SUCCESS)
}
