//! What a program did last time, and what its page faults should take next time.
//!
//! A [`Learner`] looks on while a program runs and says at the end what its memory was like ([`RunSummary`]). A
//! [`Profile`] learns from that summary, and decides for each class of mappings whether huge pages from the start are
//! right ([`Verdict`]). Where they turn out as waste it goes back to base pages for a while.

mod ahead;
mod class;
mod key;
mod learner;
mod record;
mod summary;
#[cfg(test)]
mod tests;

pub use ahead::{Ahead, Plan};
pub use class::{MappingClass, MappingKind};
pub use key::{Key, arguments_shape};
pub use learner::{Learner, MappingLook};
pub use record::{
    FILLS_SOON, LEAST_TOUCHED, MappingProfile, Profile, Reason, VERSION, Verdict, WASTE_ALLOWED,
};
pub use summary::{MappingSummary, RunSummary};
