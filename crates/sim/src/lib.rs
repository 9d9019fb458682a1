//! A simulated machine that mega's engine, policies and compaction policies run on, through the traits that the live machine
//! has.
//!
//! It is deterministic: it reads no clock, draws no random number and does no I/O. The same calls in the same order give
//! the same state, and programs ([`Program`]) that draw random numbers draw them from a seed.
//!
//! | module | holds |
//! |---|---|
//! | [`physical`] | physical memory: zones, blocks, Linux's page allocator |
//! | [`address_space`] | the virtual memory of a process: mappings, page tables, Accessed bits |
//! | [`kernel`] | page faults, promotion, compaction, khugepaged; each says what it cost |
//! | [`translation`] | what a touch costs: TLBs, walks, caches |
//! | [`costs`] | what things cost, in cycles |
//! | [`machine`] | all of it in simulated time: [`SimulatedMachine`] is a [`mega_core::Machine`] and a [`mega_core::compaction::Compactor`] |

#![forbid(unsafe_code)]

pub mod address_space;
pub mod costs;
pub mod kernel;
pub mod latencies;
pub mod machine;
pub mod physical;
pub mod program;
pub mod translation;

pub use costs::Costs;
pub use kernel::{Kernel, Settings};
pub use machine::SimulatedMachine;
pub use program::{Memory, Program, Work};
