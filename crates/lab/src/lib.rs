//! Experiments with huge pages: workloads that know their own truth, the experiments of the papers, and the demo.
//!
//! A workload says on its standard output which memory it maps, which part it touches, and how fast. So a test or an
//! experiment can compare mega's reports with the truth. [`mapping`] holds all memory and timing primitives that need
//! `unsafe`.

pub mod calibration;
mod columns;
pub mod cpu_meter;
mod csv;
pub mod damo;
pub mod demo;
pub mod error;
mod file;
pub mod fragmentation;
pub mod hzmem;
mod interrupt;
pub mod live;
pub mod mapping;
mod markup;
pub mod meminfo;
mod programs;
pub mod random;
pub mod replay_error;
pub mod resident;
pub mod sim;
pub mod statistics;
pub mod subject;
mod svg;
mod terminate;
pub mod trace_info;
pub mod translations;
pub mod warm_up;
pub mod without_thp_disable;
pub mod workload;
mod wrap;

pub use error::Error;
