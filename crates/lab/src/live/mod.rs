//! `mega lab`: the papers' experiments on this machine, every mode side by side.
//!
//! An experiment runs its programs once in one mode and says what it measured. Or it names a program that takes turns
//! with itself in all modes. The runner interleaves the modes, round after round. Medians, paired ratios and verdicts
//! come from all runs together, and every report needs only those.

mod command;
mod cpus;
mod daemon;
mod evaluate;
mod experiment;
mod experiments;
mod free_blocks;
mod globals;
mod goal;
mod in_turns;
pub(crate) mod machine;
mod manager_report;
mod memory_events;
pub(crate) mod metric;
mod mode;
mod output;
mod package;
mod plan;
mod process;
mod progress;
mod report;
mod results;
mod run;
mod runner;
mod server;
mod worth;

pub use command::{Command, Live, run};
