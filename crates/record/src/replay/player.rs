//! What a course asks of a replayed machine beside what the engine does.

use std::collections::BTreeSet;

use mega_core::engine::Unmet;
use mega_core::{Machine, RegionRef};

use super::machine::{AtObservation, Over};
use super::playback::Playback;
use crate::look::Look;

/// A replayed machine.
pub trait Player: Machine<Error = Over> {
    /// Where its looks come from.
    type Looks: Iterator<Item = Look>;

    /// The recording that it plays.
    fn playback(&self) -> &Playback<Self::Looks>;

    /// How it was at the latest observation.
    fn at_observation(&self) -> AtObservation;

    /// The regions that were promoted and not demoted since.
    fn promoted(&self) -> BTreeSet<RegionRef>;

    /// Sees to the contiguity that a step lacked.
    fn keep_ahead(&mut self, unmet: &[Unmet]);

    /// Base pages that compaction has moved.
    fn moved(&self) -> u64;
}
