//! `mega-lab completions` and `mega-lab man`: both from the definition of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use mega_lab::Error;

use crate::Cli;

/// `mega-lab completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// `mega-lab man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder to write mega-lab.1, mega-lab-live.1 and so on to
    folder: PathBuf,
}

pub(crate) fn completions(args: &Completions) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mega-lab", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(crate) fn man(args: &Man) -> Result<ExitCode, Error> {
    let refused = |error| {
        Error::io(
            format!("writing man pages to {}", args.folder.display()),
            error,
        )
    };
    std::fs::create_dir_all(&args.folder).map_err(refused)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(refused)?;
    Ok(ExitCode::SUCCESS)
}
