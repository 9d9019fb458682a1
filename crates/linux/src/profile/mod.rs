//! Profiles of programs on this machine: who a process is, what its memory is like, what is made ready for it, and where
//! its profile is kept.

mod hurry;
mod look;
mod program;
mod store;

pub use hurry::hurry;
pub use look::{Look, Part, available, look, make_ready, may_be_made_ready, resident};
pub use program::{program, program_of_command};
pub use store::{MOST_PROFILES, Store, Stored};
