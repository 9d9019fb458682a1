//! Profiles of programs on this machine: who a process is, and where its profile is kept.

mod program;
mod store;

pub use program::program;
pub use store::{MOST_PROFILES, Store, Stored};
