//! What there is to know about a policy before it is built.

use serde::Serialize;

use super::Policy;
use crate::parameters::{ParameterInfo, Values};

/// A setting of the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineSetting {
    /// The kernel empties the next chunk for a giant page, not the one with the least in it.
    SequentialChunks,
}

/// What there is to know about a policy before it is built.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PolicyInfo {
    /// The name it is selected by.
    pub name: &'static str,
    /// How it decides, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it can be adjusted by.
    pub parameters: &'static [ParameterInfo],
    /// Whether it is a policy of its own only where the machine has giant pages.
    #[serde(skip)]
    pub for_giant_pages: bool,
    /// Whether it asks what processes would gain, where that can be measured ([`Policy::unmeasured`]).
    #[serde(skip)]
    pub asks_for_gains: bool,
    /// What it wants of the whole machine while it manages.
    #[serde(skip)]
    pub settings: &'static [MachineSetting],
    /// Pairs of parameters: the first must not be above the second.
    #[serde(skip)]
    pub(super) ordered: &'static [(&'static ParameterInfo, &'static ParameterInfo)],
    #[serde(skip)]
    pub(super) build: fn(Values<'_>) -> Box<dyn Policy>,
}
