//! The programs that the experiments run on the simulated machine.

mod accesses;
mod churn;
mod filling;
mod objects;
mod regions;
mod resident;
mod sparse;
mod strides;
mod sweep;

pub(super) use accesses::Accesses;
pub(super) use churn::Churn;
pub(super) use filling::Filling;
pub(super) use objects::Objects;
pub(super) use regions::Regions;
pub(super) use resident::Resident;
pub(super) use sparse::Sparse;
pub(super) use strides::{STEP, Strides};
pub(super) use sweep::Sweep;

/// Pages that a program touches before others have their turn.
const AT_ONCE: u64 = 256;
