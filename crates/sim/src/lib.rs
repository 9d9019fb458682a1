//! A simulated machine: physical memory with Linux's page allocator.
//!
//! It is deterministic: it reads no clock, draws no random number and does no I/O. The same calls in the same order give
//! the same state.

#![forbid(unsafe_code)]

pub mod physical;
