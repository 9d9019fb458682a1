//! What a policy would do after a single look.

use serde::Serialize;

use crate::action::ActionKind;
use crate::failures::FailureMemory;
use crate::observation::Observation;
use crate::page::BASE_PAGE_SIZE;
use crate::per_kind::{self, PerKind};
use crate::promotion::Policy;

/// What a policy would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Would {
    /// Regions it would promote or demote, and spans it would promote to giant pages, demote to huge pages, or search for
    /// zero-filled huge pages.
    #[serde(flatten, serialize_with = "per_kind::wanted::serialize")]
    pub wanted: PerKind<u64>,
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
        would.wanted[action.kind] += 1;
        match action.kind {
            ActionKind::Promote => would.bytes_copied += region.resident_bytes(),
            ActionKind::Demote => {
                would.bytes_given_back +=
                    u64::from(region.zero_filled.unwrap_or(0)) * BASE_PAGE_SIZE;
            }
            ActionKind::PromoteGiant | ActionKind::DemoteGiant | ActionKind::FreeZero => {}
        }
    }
    would
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_names_what_is_wanted() {
        let json = serde_json::to_value(Would::default()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "promotions": 0, "demotions": 0, "promotions_giant": 0, "demotions_giant": 0, "free_zero": 0,
                "bytes_copied": 0, "bytes_given_back": 0
            })
        );
    }
}
