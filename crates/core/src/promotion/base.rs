//! `base`: every page stays as the kernel made it.

use crate::action::Action;
use crate::failures::FailureMemory;
use crate::observation::Observation;

use super::Policy;
use super::info::PolicyInfo;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "base",
    summary: "never promotes and never demotes; what is measured against",
    source: "base pages only, as with THP off",
    parameters: &[],
    for_giant_pages: false,
    asks_for_gains: false,
    settings: &[],
    ordered: &[],
    build: |_| Box::new(Base),
};

/// Never acts.
struct Base;

impl Policy for Base {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn decide(&mut self, _observation: &Observation, _failures: &FailureMemory) -> Vec<Action> {
        Vec::new()
    }
}
