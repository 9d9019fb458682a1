//! The experiments, each in a file of its own.

mod fragmenter;
mod growth;
mod growth_processes;
mod mega_faults;
mod mega_figure_1;
mod mega_figure_2;
mod mega_table_4;
mod mega_table_5;
mod mega_table_6;
mod mega_table_9;
mod pages;
mod saves;
mod shared_buffers;
mod tenants;
mod trident_figure_10;
mod trident_figure_11;
mod trident_figure_12;
mod trident_figure_13;
mod trident_figure_3;
mod trident_figure_9;
mod trident_programs;
mod trident_table_5;
mod trident_tables;
mod trident_tables_reasons;
mod until_huge;
mod uptime;

use super::experiment::Experiment;
use super::findings::Happened;
use super::system::{System, compacting};

/// All that there are, in the order in which they run.
pub(super) const ALL: [&Experiment; 21] = [
    &mega_figure_1::EXPERIMENT,
    &mega_faults::EXPERIMENT,
    &mega_table_4::EXPERIMENT,
    &mega_table_5::EXPERIMENT,
    &mega_table_6::EXPERIMENT,
    &mega_figure_2::EXPERIMENT,
    &mega_table_9::EXPERIMENT,
    &trident_figure_3::EXPERIMENT,
    &trident_figure_9::EXPERIMENT,
    &trident_figure_10::EXPERIMENT,
    &trident_figure_11::EXPERIMENT,
    &trident_figure_12::EXPERIMENT,
    &trident_figure_13::EXPERIMENT,
    &trident_tables::EXPERIMENT,
    &trident_table_5::EXPERIMENT,
    &growth::EXPERIMENT,
    &growth_processes::EXPERIMENT,
    &tenants::EXPERIMENT,
    &uptime::EXPERIMENT,
    &saves::EXPERIMENT,
    &shared_buffers::EXPERIMENT,
];

/// MEGA's machine.
const MEGA_BYTES: u64 = 16 << 30;
/// What its kernel uses (section 4.3).
const MEGA_KERNEL: u64 = 3 << 29;

/// One node of Trident's machine (table 1).
const TRIDENT_NODE: u64 = 192 << 30;
/// What its kernel uses: as large a part as on MEGA's machine.
const TRIDENT_KERNEL: u64 = TRIDENT_NODE / 32;

/// Memory of MEGA's machine that is in use where `free_blocks` are free before an experiment begins.
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

/// Adds up what happened under a system, over several runs.
fn add(happened: &mut Vec<Happened>, what: Happened) {
    match happened.iter_mut().find(|one| one.system == what.system) {
        Some(one) => {
            for ((_, sum), (_, count)) in one.counts.iter_mut().zip(&what.counts) {
                *sum += count;
            }
        }
        None => happened.push(what),
    }
}
