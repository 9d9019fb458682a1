//! The figures of the Hzmem paper: `kernel/vm/figures/hzmem` runs this in virtual machines.

use std::process::ExitCode;

use clap::Parser;
use mega_lab::hzmem;

/// The figures of the Hzmem paper
#[derive(Parser)]
struct Figures {
    #[command(flatten)]
    args: hzmem::Args,
}

fn main() -> ExitCode {
    match hzmem::run(&Figures::parse().args) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hzmem-figures: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
