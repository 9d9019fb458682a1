//! `mega frag`: physical memory as it is: free lists, fragmentation per order, and a map of its blocks.

mod map;
mod report;
mod svg;
mod text;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use mega_linux::kernel::LiveKernel;
use mega_linux::physical::{PhysicalMemory, pagetypeinfo};

use crate::cli::Frag;
use crate::exit::Failure;
use crate::output;
use report::FragReport;

pub(super) fn run(args: &Frag) -> Result<ExitCode, Failure> {
    let mut memory = PhysicalMemory::open(Arc::new(LiveKernel))?;
    if let Some(other) = memory.other_module() {
        output::say(&other.to_string());
    }
    let progress = output::progress("looking at physical memory", 0);
    let observation = memory.observe(&mut |done, total| {
        progress.set_length(total);
        progress.set_position(done);
    });
    progress.finish_and_clear();
    let observation = observation?;
    let pageblocks = pagetypeinfo::read(&LiveKernel)?;

    if let Some(file) = &args.svg {
        write(file, &svg::draw(&observation, memory.source()))?;
    }
    if args.json {
        output::print_json(&FragReport::new(memory.source(), &observation, &pageblocks))?;
    } else {
        output::print(&text::draw(
            &observation,
            memory.source(),
            output::colours(),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, content: &str) -> Result<(), Failure> {
    std::fs::write(file, content)
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))
}
