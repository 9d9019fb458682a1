//! The papers' figures about fragmentation: `kernel/vm/figures/paper` runs this in a virtual machine.

use std::process::ExitCode;

use clap::Parser;
use mega_lab::fragmentation;

/// The papers' figures about fragmentation
#[derive(Parser)]
struct Figures {
    #[command(flatten)]
    args: fragmentation::Args,
}

fn main() -> ExitCode {
    match fragmentation::run(&Figures::parse().args) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
