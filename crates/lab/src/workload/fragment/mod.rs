//! `fragment`: physical memory in pieces, for what runs beside it.

mod generation;
mod generations;
mod page_cache;

use std::path::PathBuf;

use clap::ValueEnum;

use super::arguments::Common;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

/// Whose way of fragmenting it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Allocates all, frees half in pieces of 1 MiB, then five times allocates a half and frees what was left before
    /// (MEGA, section 4.5); holds a half
    Mega,
    /// Takes base pages of anonymous memory and of the page cache in turn, the file's in random order, then gives a
    /// random half of the file's back (after Trident, section 4); holds three quarters
    Trident,
}

/// How it is to fragment.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct How {
    /// Whose way
    #[arg(long, value_enum, default_value = "mega")]
    method: Method,
    /// Where `trident` keeps its file while it runs: a folder on a disk [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Fragments `common.size` bytes of memory and holds what the method keeps until `stop`.
pub(super) fn run(
    common: &Common,
    how: &How,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    match how.method {
        Method::Mega => generations::run(common, reporter, stop),
        Method::Trident => {
            let folder = how.folder.clone().unwrap_or_else(std::env::temp_dir);
            page_cache::run(common, &folder, reporter, stop)
        }
    }
}
