//! What larger pages would gain a process: how often it touches pages, and how sure that is.

pub mod estimate;
pub mod touches;

pub use estimate::Estimate;
pub use touches::{HugeTouches, MappingTouches, RegionTouches, Touches};
