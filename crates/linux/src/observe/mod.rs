//! What is seen of processes and of memory: trackers read page tables, the Accessed bits are cleared after them, and
//! huge pages are looked into for zeros.

pub(crate) mod bpf;
pub(crate) mod cgroups;
pub mod clear;
pub mod coverage;
pub mod memory;
pub(crate) mod nodes;
pub(crate) mod slices;
pub mod tracker;
pub mod tracker_choice;
pub(crate) mod turns;
pub mod zero_filled;
