//! The live machine: observes and changes the page sizes of running processes on a Linux kernel.
//!
//! Every read and every write of kernel state passes one boundary, [`kernel::Kernel`]: dry run is that
//! boundary refusing to write, tests use a fake of it. [`Host`] is that boundary together with what
//! [`doctor`] probed and the tracker chosen from it; a [`machine::LinuxMachine`] is what the engine drives.

mod actor;
mod bpf;
pub mod changed_settings;
pub mod chunk_order;
pub mod claim;
pub mod clear;
pub mod demote;
pub mod doctor;
pub mod eligible;
pub mod error;
pub mod fault;
pub mod giant;
pub mod host;
pub mod hzmem;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod memory_blocks;
pub mod physical;
pub mod process;
pub mod promote;
pub mod run_dir;
mod shared_pages;
pub mod stale;
mod target;
pub mod thp_mode;
pub mod tracker;
pub mod tracker_choice;
mod turns;
pub mod zero_filled;

pub use error::Error;
pub use host::{Host, HostOptions};
pub use machine::{LinuxMachine, MachineOptions};
pub use tracker::TrackerKind;
