//! The live machine: observes and changes the page sizes of running processes on a Linux kernel.
//!
//! Every read and every write of kernel state passes one boundary, [`kernel::Kernel`]. A dry run is that boundary
//! refusing to write; tests use a fake of it. [`Host`] joins the boundary with what [`doctor`] probed and with the
//! tracker that was chosen from it. The engine drives a [`machine::LinuxMachine`].

pub mod act;
mod bpf;
pub mod calibrate;
pub mod calls;
pub mod doctor;
pub mod error;
pub mod exchanges;
pub mod guest;
pub mod host;
pub mod hzmem;
pub mod kernel;
pub mod lines;
pub mod machine;
pub mod module;
pub mod observe;
pub mod physical;
pub mod process;
pub mod profile;
pub mod run_dir;
pub mod settings;
pub mod state_dir;
mod target;
pub mod touches;

pub use error::Error;
pub use host::{Host, HostOptions};
pub use machine::{LinuxMachine, MachineOptions};
pub use observe::tracker::TrackerKind;
