//! The vocabulary, the policies and the engine of mega.
//!
//! Nothing here does I/O, reads a clock or draws a random number. A [`Machine`] reports [`Observation`]s and performs
//! [`Action`]s. A [`Policy`] turns observations into actions. The [`engine`] runs the policy on the machine, keeps it within
//! budgets, and remembers what failed ([`failures`]). So a policy runs alike on a live kernel and on a simulated one.

#![forbid(unsafe_code)]

pub mod action;
mod build_error;
pub mod bytes;
pub mod call;
pub mod compaction;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod coverage;
pub mod engine;
pub mod failures;
pub mod gain;
pub mod machine;
mod mix;
mod nearest;
pub mod observation;
pub mod page;
mod parameters;
pub mod per_kind;
pub mod process;
pub mod profile;
pub mod promotion;
pub mod savings;
mod sorted;
pub mod table;
pub mod worth;

pub use action::{Action, ActionKind, Cause, Outcome};
pub use call::{Call, CallKind};
pub use failures::FailureMemory;
pub use gain::{Circumstances, Gain, Price};
pub use machine::Machine;
pub use mix::mix;
pub use nearest::nearest;
pub use observation::{
    CgroupMemory, Counted, Glance, MemoryObservation, NodeMemory, Observation, ProcessObservation,
    RegionObservation, RegionRef,
};
pub use page::{
    BASE_PAGE_SIZE, GIANT_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, REGIONS_PER_SPAN,
    Region, Span,
};
pub use per_kind::PerKind;
pub use process::ProcessId;
pub use promotion::Policy;
