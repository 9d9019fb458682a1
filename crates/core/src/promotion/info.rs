//! What there is to know about a policy before it is built.

use serde::Serialize;

use super::Policy;
use crate::parameters::{ParameterInfo, Values};

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
    /// Whether the kernel is to empty the next chunk for a giant page, not the one with the least in it.
    #[serde(skip)]
    pub sequential_chunks: bool,
    /// Pairs of parameters: the first must not be above the second.
    #[serde(skip)]
    pub(super) ordered: &'static [(&'static ParameterInfo, &'static ParameterInfo)],
    #[serde(skip)]
    pub(super) build: fn(Values<'_>) -> Box<dyn Policy>,
}
