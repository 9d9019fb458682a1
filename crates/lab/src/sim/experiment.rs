//! An experiment on the simulated machine.

use super::findings::Findings;
use super::reason::Reason;
use super::scale::Scale;
use crate::error::Error;

/// An experiment.
pub(super) struct Experiment {
    /// What it is selected by.
    pub(super) name: &'static str,
    /// What it is about, in a line.
    pub(super) title: &'static str,
    /// The paper's figures and tables that it repeats.
    pub(super) source: &'static str,
    /// How it works.
    pub(super) about: &'static str,
    /// Memory of the paper's machine, or of the node of it that is simulated, in bytes.
    pub(super) memory: u64,
    /// The scale that it has where none is given.
    pub(super) scale: u64,
    /// Why it says something else than the paper where it does.
    pub(super) reasons: &'static [Reason],
    pub(super) run: fn(&Setting<'_>) -> Result<Findings, Error>,
}

/// What an experiment is run with.
pub(super) struct Setting<'a> {
    pub(super) scale: Scale,
    /// What all random numbers come from.
    pub(super) seed: u64,
    /// Says on standard error what is simulated now.
    pub(super) progress: &'a dyn Fn(&str),
}
