//! The experiments, each in a file of its own.

mod mega_faults;
mod mega_figure_1;
mod mega_figure_2;
mod mega_table_4;
mod mega_table_5;
mod mega_table_6;
mod pages;

use super::experiment::Experiment;
use super::system::{System, compacting};

/// All that there are, in the order in which they run.
pub(super) const ALL: [&Experiment; 6] = [
    &mega_figure_1::EXPERIMENT,
    &mega_faults::EXPERIMENT,
    &mega_table_4::EXPERIMENT,
    &mega_table_5::EXPERIMENT,
    &mega_table_6::EXPERIMENT,
    &mega_figure_2::EXPERIMENT,
];

/// MEGA's machine.
const MEGA_BYTES: u64 = 16 << 30;
/// What its kernel uses (section 4.3).
const MEGA_KERNEL: u64 = 3 << 29;

/// Memory of MEGA's machine that is in use where so many blocks are free before an experiment begins.
const fn in_use(free_blocks: u64) -> u64 {
    MEGA_BYTES - free_blocks * mega_core::HUGE_PAGE_SIZE
}

/// Compaction policies alone.
const COMPACTIONS: [System; 5] = [
    compacting("none", None),
    compacting("linux", Some("linux")),
    compacting("ingens", Some("ingens")),
    compacting("mega", Some("mega")),
    compacting("trident", Some("trident")),
];

/// What systems are called.
fn names(systems: &[System]) -> Vec<String> {
    let names = systems.iter().map(|system| system.name.to_owned());
    names.collect()
}
