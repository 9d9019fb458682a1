//! Options of the commands that act by hand.

use std::ops::Range;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::pid;
use crate::value;

/// `mega demote`
#[derive(Debug, Args)]
pub(crate) struct Demote {
    #[command(flatten)]
    pub(crate) act: Act,
    /// Give back the huge pages that hold only zeros, in each whole 1 GiB of the range, and demote nothing else. A giant
    /// page that holds some becomes huge pages (needs the patched kernel and the kernel module)
    #[arg(long, conflicts_with = "page_size")]
    pub(crate) zero_filled: bool,
}

/// `mega promote`, `mega demote`
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// The process
    #[arg(value_parser = pid())]
    pub(crate) pid: u32,
    /// Addresses of the process, START-END or START+LENGTH (addresses in hexadecimal) [default: all eligible memory]
    #[arg(value_name = "RANGE", value_parser = value::address_range)]
    pub(crate) range: Option<Range<u64>>,
    /// The page size to make, or to break up. With 1G, mega promotes each whole 1 GiB of the range to huge pages and then
    /// to a giant page, or demotes a giant page to huge pages (needs the patched kernel and the kernel module)
    #[arg(long, value_name = "SIZE", default_value = "2M", value_enum)]
    pub(crate) page_size: LargePage,
    /// How long mega may hold the process's mmap lock in one go
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = value::lock_bound)]
    pub(crate) lock_bound: Duration,
    /// Say what mega would do, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega compact`
#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pub(crate) amount: Amount,
    /// Which policy selects what to empty: mega, trident, ingens, sequential, or linux, which leaves the choice to the
    /// kernel and needs no module [default: mega for blocks, trident for chunks]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Set a parameter of the policy (see `mega policies`; its period and its budget do not count here); you can give
    /// this several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = value::parameter)]
    pub(crate) parameters: Vec<(String, f64)>,
    /// Say what mega would empty, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much to empty.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Amount {
    /// Blocks of 2 MiB to empty
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) blocks: Option<u64>,
    /// Chunks of 1 GiB to empty
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunks: Option<u64>,
}

/// `--page-size`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LargePage {
    /// Huge pages
    #[value(name = "2M")]
    Huge,
    /// Giant pages
    #[value(name = "1G")]
    Giant,
}
