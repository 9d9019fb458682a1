//! What larger pages would gain a process: how often it touches pages, and how sure that is.

pub mod estimate;
pub mod look;
mod rounds;
pub mod sampling;
pub mod touches;

pub use estimate::Estimate;
pub use look::{Look, Reading};
pub use sampling::{Batch, Sampling};
pub use touches::{HugeTouches, MappingTouches, RegionTouches, Touches};
