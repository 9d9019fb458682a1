//! What larger pages would gain a process: how often it touches pages, what a touch costs on this machine, and how sure
//! both are.

pub mod calibration;
pub mod effort;
pub mod estimate;
pub mod look;
pub mod prediction;
pub mod reuse;
mod rounds;
pub mod sampling;
pub mod touches;

pub use calibration::{
    Calibration, Locality, METHOD, Point, TOUCHES_PER_VISIT, Touching, Validity,
};
pub use effort::Effort;
pub use estimate::Estimate;
pub use look::{Look, Reading};
pub use prediction::{CurvePoint, MappingWorth, Worth, predict};
pub use reuse::Reuse;
pub use sampling::{Batch, Sampling};
pub use touches::{HugeTouches, MappingTouches, RegionTouches, Touches};
