//! What a course asks of a replayed machine beside what the engine does.

use std::collections::BTreeSet;

use mega_core::engine::Unmet;
use mega_core::{Machine, RegionRef};

use super::machine::{AtObservation, Over};
use super::translation::Translation;

/// A replayed machine.
pub trait Player: Machine<Error = Over> {
    /// How it was at the latest observation.
    fn at_observation(&self) -> AtObservation;

    /// The regions that were promoted and not demoted since.
    fn promoted(&self) -> BTreeSet<RegionRef>;

    /// Looks that were due and not made when it was recorded, until now.
    fn missed(&self) -> u64;

    /// Observations that had more than one look to go by. Of what was accessed in those, each says the least that it can be.
    fn merged(&self) -> u64;

    /// What translating addresses took until the latest observation, where the terms name a processor and somebody measured
    /// touches.
    fn translation(&self) -> Option<Translation>;

    /// Sees to the contiguity that a step lacked.
    fn keep_ahead(&mut self, unmet: &[Unmet]);

    /// Base pages that compaction has moved.
    fn moved(&self) -> u64;
}
