//! `mega lab sim`: the papers' experiments on the simulated machine, with the engine and the policies of the live one.
//!
//! An experiment runs its programs once under each system (`system.rs`) and gives its findings (`findings.rs`): what the
//! simulation says beside what the paper says. Whether the two agree is computed (`verdict.rs`), and so is every sentence about
//! it. Nothing reads a clock: the same seed gives the same bytes.

mod best;
mod command;
pub(crate) mod demo;
mod experiment;
mod experiments;
mod findings;
mod hardware;
mod numbers;
mod programs;
mod reason;
mod recording;
mod report;
mod scale;
mod side_by_side;
mod system;
mod testbed;
mod verdict;

pub use command::{Sim, run};
