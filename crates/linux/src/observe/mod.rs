//! Observes processes and memory: trackers read page tables, then the Accessed bits are cleared, and huge pages are
//! searched for zeros.

pub(crate) mod bpf;
pub(crate) mod carried;
pub(crate) mod cgroups;
pub mod clear;
pub mod coverage;
pub(crate) mod frames;
pub mod idle;
pub mod larger_folios;
pub mod memory;
pub(crate) mod nodes;
pub mod pressure;
pub(crate) mod shared_pages;
pub(crate) mod slices;
pub(crate) mod swapped_pages;
pub mod tracker;
pub mod tracker_choice;
pub(crate) mod turns;
pub mod zero_filled;
