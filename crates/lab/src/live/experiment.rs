//! What an experiment is.

use std::process::Command;

use super::goal::Goal;
use super::in_turns::Worked;
use super::metric::{Metric, Sample};
use super::mode::Mode;
use super::package::Program;
use super::run::Run;
use crate::error::Error;

/// What a paper found, beside which ours is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PaperFigure {
    /// Which table or figure of which paper.
    pub(crate) source: &'static str,
    /// The column heads: what was compared there.
    pub(crate) systems: &'static [&'static str],
    /// One row for each quantity, with a value for each system, as the paper prints it.
    pub(crate) rows: &'static [(&'static str, &'static [&'static str])],
}

/// One experiment: a program, or several, run in every mode, and what is measured of it.
pub(crate) struct Experiment {
    /// What the command line calls it.
    pub(crate) name: &'static str,
    /// What it asks, in one line.
    pub(crate) title: &'static str,
    /// How it goes, in a few sentences.
    pub(crate) about: &'static str,
    pub(crate) paper: Option<PaperFigure>,
    /// Programs that must be installed.
    pub(crate) programs: &'static [Program],
    /// The most important one first.
    pub(crate) metrics: &'static [Metric],
    pub(crate) goals: &'static [Goal],
    /// The modes that it is run in where none are asked for.
    pub(crate) modes: fn() -> Vec<Mode>,
    /// How often the memory that [`Run::size`] says can be resident at once, all processes of one mode together.
    pub(crate) most_resident: u32,
    pub(crate) rounds: Rounds,
    /// Whether the manager is as a user has it: on every CPU, and with its defaults in place of the lab's interval.
    pub(crate) by_defaults: bool,
}

/// How the modes of one round are run. A run gives a value for every metric that it can tell in its mode.
#[derive(Clone, Copy)]
pub(crate) enum Rounds {
    /// Whole runs, one mode after the other.
    WholeRuns(fn(&Run<'_>) -> Result<Sample, Error>),
    /// One program for each mode. All exist at once and work in turn.
    InTurns(InTurns),
}

/// A program of the lab's own that rests when it is told to.
#[derive(Clone, Copy)]
pub(crate) struct InTurns {
    /// What `mega workload` calls it.
    pub(crate) program: &'static str,
    /// What starts it in one mode, made by [`Run::workload_in_turns`].
    pub(crate) command: fn(&Run<'_>, &str) -> Result<Command, Error>,
    /// What is measured of it.
    pub(crate) sample: fn(&Run<'_>, &Worked) -> Result<Sample, Error>,
}

impl Experiment {
    /// Whether the modes' programs work in turn.
    pub(crate) fn is_in_turns(&self) -> bool {
        matches!(self.rounds, Rounds::InTurns(_))
    }
}
