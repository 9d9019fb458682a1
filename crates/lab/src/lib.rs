//! Experiments with huge pages: workloads that know their own truth, the experiments of the papers, and the demo.
//!
//! A workload says on its standard output which memory it maps, which of it it touches and how fast, so that
//! a test or an experiment can hold what mega reports against what is so. All memory and timing primitives
//! that need `unsafe` are in [`mapping`].

pub mod available;
mod columns;
pub mod demo;
pub mod error;
pub mod fragmentation;
pub mod hzmem;
mod interrupt;
pub mod live;
pub mod mapping;
mod markup;
mod programs;
pub mod random;
pub mod resident;
pub mod statistics;
pub mod subject;
mod svg;
mod terminate;
pub mod translations;
pub mod warm_up;
pub mod workload;

pub use error::Error;
