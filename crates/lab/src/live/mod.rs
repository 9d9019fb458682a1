//! `mega lab`: the papers' experiments on this machine, every mode side by side.
//!
//! An experiment runs its programs once in one mode and says what it measured, or says which program is to take turns with
//! itself in all modes. The runner interleaves the modes, round after round; medians, paired ratios and verdicts come from all runs together, and every
//! report is made from them alone.

mod command;
mod cpus;
mod evaluate;
mod experiment;
mod experiments;
mod free_blocks;
mod globals;
mod goal;
mod in_turns;
mod machine;
mod manager_report;
mod metric;
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

pub use command::{Command, Live, run};
