//! What a policy would do after a single look.

use serde::Serialize;

use crate::action::ActionKind;
use crate::failures::FailureMemory;
use crate::observation::Observation;
use crate::page::BASE_PAGE_SIZE;
use crate::promotion::Policy;

/// What a policy would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Would {
    /// Regions it would promote.
    pub promotions: u64,
    /// Huge pages it would demote.
    pub demotions: u64,
    /// Spans it would promote to giant pages.
    pub promotions_giant: u64,
    /// Giant pages it would demote to huge pages.
    pub demotions_giant: u64,
    /// Spans it would search for zero-filled huge pages.
    pub free_zero: u64,
    /// Bytes that the promotions to huge pages would copy. What those to giant pages copy depends on where
    /// the huge pages lie, which is not known.
    pub bytes_copied: u64,
    /// Bytes that the demotions would give back, as far as zero-filled base pages were counted.
    pub bytes_given_back: u64,
}

/// What the policy would do if everything stayed as it was observed until its decisions settle, and
/// nothing were done meanwhile. Budgets are not considered.
#[must_use]
pub fn would(mut policy: Box<dyn Policy>, observation: &Observation) -> Would {
    let mut observation = observation.clone();
    observation.normalise();
    let mut actions = Vec::new();
    for _ in 0..policy.settling_intervals().max(1) {
        actions = policy.decide(&observation, &FailureMemory::default());
    }
    let mut would = Would::default();
    for action in actions {
        let Some(region) = observation.region(action.target) else {
            continue;
        };
        match action.kind {
            ActionKind::Promote => {
                would.promotions += 1;
                would.bytes_copied += region.resident_bytes();
            }
            ActionKind::Demote => {
                would.demotions += 1;
                would.bytes_given_back +=
                    u64::from(region.zero_filled.unwrap_or(0)) * BASE_PAGE_SIZE;
            }
            ActionKind::PromoteGiant => would.promotions_giant += 1,
            ActionKind::DemoteGiant => would.demotions_giant += 1,
            ActionKind::FreeZero => would.free_zero += 1,
        }
    }
    would
}
