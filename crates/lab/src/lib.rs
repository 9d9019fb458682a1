//! Experiments with huge pages: workloads that know their own truth, and the demo that compares them.
//!
//! A workload says on its standard output which memory it maps, which of it it touches and how fast, so that
//! a test or an experiment can hold what mega reports against what is so. All memory and timing primitives
//! that need `unsafe` are in [`mapping`].

pub mod bytes;
pub mod demo;
pub mod error;
pub mod fragmentation;
pub mod mapping;
pub mod random;
pub mod resident;
pub mod statistics;
pub mod subject;
mod svg;
pub mod workload;

pub use error::Error;
