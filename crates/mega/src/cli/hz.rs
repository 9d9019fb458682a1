//! Options of `mega hz`.

use clap::{Args, Subcommand};

use super::help_text::{EXIT_CODES, GROW_EXAMPLE, SHRINK_EXAMPLE};
use crate::value;

/// `mega hz`
#[derive(Debug, Args)]
pub(crate) struct Hz {
    #[command(subcommand)]
    pub(crate) command: HzCommand,
}

/// What to do with hzmem's memory.
#[derive(Debug, Subcommand)]
pub(crate) enum HzCommand {
    /// Show hzmem's memory, and what each mount holds, saves and did
    #[command(after_help = EXIT_CODES)]
    Status(HzStatus),
    /// Give hzmem memory: empty the memory blocks with the least to move, and take them from the kernel (needs mega's
    /// kernel module too)
    #[command(after_help = GROW_EXAMPLE)]
    Grow(HzGrow),
    /// Give unused memory of hzmem back to the kernel
    #[command(after_help = SHRINK_EXAMPLE)]
    Shrink(HzShrink),
}

/// `mega hz status`
#[derive(Debug, Args)]
pub(crate) struct HzStatus {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega hz grow`
#[derive(Debug, Args)]
pub(crate) struct HzGrow {
    /// How much, rounded up to whole memory blocks (128 MiB each on most machines)
    #[arg(value_name = "SIZE", value_parser = value::some_bytes)]
    pub(crate) size: u64,
    /// Only memory of this NUMA node
    #[arg(long, value_name = "N")]
    pub(crate) node: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega hz shrink`
#[derive(Debug, Args)]
pub(crate) struct HzShrink {
    /// The address at which a range of hzmem's memory begins (see `mega hz status`), or all memory that hzmem got while
    /// the machine ran
    #[arg(value_name = "PHYS|all", value_parser = value::hz_range)]
    pub(crate) range: value::HzRange,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
