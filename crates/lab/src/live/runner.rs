//! Runs an experiment in all its modes, interleaved: A B C, B A C, C A B, or all at once and in turns.

use std::path::Path;

use tempfile::TempDir;

use super::cpus::Placement;
use super::evaluate;
use super::experiment::{Experiment, Rounds};
use super::globals::Globals;
use super::in_turns;
use super::machine::Machine;
use super::metric::Sample;
use super::mode::Mode;
use super::plan::Plan;
use super::progress::Progress;
use super::results::{Results, RunRecord, VERSION};
use super::run::Run;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::warm_up::warm_up;

/// What every experiment runs on.
pub(super) struct Runner<'a> {
    pub(super) globals: &'a Globals,
    pub(super) interrupt: &'a Interrupt,
    pub(super) progress: &'a Progress,
}

impl Runner<'_> {
    /// Runs it as planned.
    ///
    /// # Errors
    /// When a run fails, finds its data wrong, or is interrupted. What modes had changed is put back.
    pub(super) fn run(&self, experiment: &Experiment, plan: &Plan) -> Result<Results, Error> {
        let machine = Machine::this();
        let mut runs = Vec::new();
        for round in 1..=plan.rounds {
            let samples = match &experiment.rounds {
                Rounds::WholeRuns(run) => self.whole_runs(experiment, *run, plan, round)?,
                Rounds::InTurns(turns) => in_turns::round(self, experiment, turns, plan, round)?,
            };
            let modes = plan.modes.iter().cloned();
            runs.extend(modes.zip(samples).map(|(mode, values)| RunRecord {
                round,
                mode,
                values,
            }));
        }
        Ok(Results {
            version: VERSION,
            experiment: experiment.name.to_owned(),
            title: experiment.title.to_owned(),
            about: experiment.about.to_owned(),
            machine,
            settings: plan.settings(),
            modes: plan.modes.clone(),
            metrics: evaluate::metrics(experiment, &plan.modes, &runs),
            goals: evaluate::goals(experiment, &runs),
            paper: experiment.paper.as_ref().map(evaluate::paper),
            runs,
        })
    }

    /// One run in each mode. Each round begins with another one and every second goes backwards, so that none always comes first, or
    /// always after the same: the frames that it left free are those that the next one gets.
    fn whole_runs(
        &self,
        experiment: &Experiment,
        run: fn(&Run<'_>) -> Result<Sample, Error>,
        plan: &Plan,
        round: u32,
    ) -> Result<Vec<Sample>, Error> {
        let mut samples = vec![Sample::default(); plan.modes.len()];
        for index in order(plan.modes.len(), round) {
            let mode = &plan.modes[index];
            self.progress
                .step(experiment.name, round, plan.rounds, mode);
            let sample = self.run_once(run, plan, round, mode);
            samples[index] = sample.map_err(|error| in_run(experiment, mode, round, error))?;
            self.progress.done();
        }
        Ok(samples)
    }

    fn run_once(
        &self,
        run_one: fn(&Run<'_>) -> Result<Sample, Error>,
        plan: &Plan,
        round: u32,
        mode: &Mode,
    ) -> Result<Sample, Error> {
        warm_up(plan.most_resident)?;
        let scratch = scratch()?;
        let run = self.one(plan, round, mode, scratch.path());
        let held = self.globals.set(mode)?;
        let sample = run_one(&run);
        held.put_back()?;
        // An interrupt that ended a program is not the program's failure.
        self.interrupt.check()?;
        sample.and_then(all_numbers)
    }

    /// One run as planned.
    pub(super) fn one<'a>(
        &'a self,
        plan: &Plan,
        round: u32,
        mode: &'a Mode,
        scratch: &'a Path,
    ) -> Run<'a> {
        Run {
            mode,
            placement: Placement::Apart,
            size: plan.size,
            measured: plan.measured,
            interval: plan.interval,
            seed: u64::from(round),
            scratch,
            interrupt: self.interrupt,
        }
    }
}

/// The order of so many modes in a round, the first of which is 1.
fn order(modes: usize, round: u32) -> Vec<usize> {
    let mut order = in_turns::of_starts(modes, round);
    if let [_, others @ ..] = order.as_mut_slice()
        && round.is_multiple_of(2)
    {
        others.reverse();
    }
    order
}

/// An empty folder for the files of a run, removed when dropped.
pub(super) fn scratch() -> Result<TempDir, Error> {
    TempDir::with_prefix("mega-lab-").map_err(|e| Error::io("making a folder for a run's files", e))
}

/// The sample, if every value is a number: a division by no time at all is not one.
pub(super) fn all_numbers(sample: Sample) -> Result<Sample, Error> {
    match sample.0.iter().find(|(_, value)| !value.is_finite()) {
        Some((metric, value)) => Err(Error::Failed(format!(
            "{metric} is {value}, which is no number: too short a run"
        ))),
        None => Ok(sample),
    }
}

/// An error with the run that it came up in.
pub(super) fn in_run(experiment: &Experiment, mode: &Mode, round: u32, error: Error) -> Error {
    let text = format!("{}, {mode}, round {round}: {error}", experiment.name);
    match error {
        Error::Missing(_) => Error::Missing(text),
        Error::Failed(_) | Error::Io { .. } => Error::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mode_always_comes_first_or_after_the_same() {
        let rounds: Vec<Vec<usize>> = (1..=3).map(|round| order(3, round)).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 0, 2], [2, 0, 1]]);
        assert_eq!(order(1, 7), [0]);
        assert_eq!(order(0, 1).len(), 0);
    }
}
