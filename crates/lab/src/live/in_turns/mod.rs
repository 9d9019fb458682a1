//! A round in turns: the programs of all modes exist at once, and one works while the others rest.
//!
//! The speed of one program drifts with the machine, on a virtual one by a factor of two within minutes. Programs that
//! take turns of a fifth of a second see nearly the same machine.

mod order;
mod player;

use super::experiment::{Experiment, InTurns};
use super::metric::Sample;
use super::plan::Plan;
use super::run::Run;
use super::runner::{Runner, all_numbers, in_run, scratch};
use crate::error::Error;
use crate::warm_up::warm_up;
use order::Turns;
pub(super) use order::of_starts;
use player::Player;
pub(crate) use player::Worked;

/// Runs one round, from 1 on; returns what each of the plan's modes came to, in their order.
///
/// # Errors
/// When a program fails, finds its data wrong, or the lab is interrupted. What was set globally is put back, and no
/// program is left.
pub(super) fn round(
    runner: &Runner<'_>,
    experiment: &Experiment,
    turns: &InTurns,
    plan: &Plan,
    round: u32,
) -> Result<Vec<Sample>, Error> {
    warm_up(plan.most_resident)?;
    let folders = plan
        .modes
        .iter()
        .map(|_| scratch())
        .collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<Run<'_>> = plan
        .modes
        .iter()
        .zip(&folders)
        .map(|(mode, folder)| runner.one(plan, round, mode, folder.path()))
        .collect();
    let all = Round {
        runner,
        experiment,
        plan,
        round,
        runs: &runs,
    };
    // Where the machine's mode is `always`, khugepaged would see to base pages, and to those of a manager's program.
    let held = runner.globals.hold_back()?;
    let samples = all.samples(turns);
    held.put_back()?;
    // An interrupt that ended a program is not the program's failure.
    runner.interrupt.check()?;
    samples
}

/// One round.
struct Round<'a> {
    runner: &'a Runner<'a>,
    experiment: &'a Experiment,
    plan: &'a Plan,
    round: u32,
    /// One in each mode.
    runs: &'a [Run<'a>],
}

impl<'a> Round<'a> {
    fn samples(&self, turns: &InTurns) -> Result<Vec<Sample>, Error> {
        let mut players = self.started(turns)?;
        self.step(&"all modes in turn");
        self.play(&mut players)?;
        let samples = players
            .into_iter()
            .zip(self.runs)
            .map(|(player, run)| {
                let worked = player.finish();
                worked
                    .and_then(|worked| (turns.sample)(run, &worked))
                    .and_then(all_numbers)
                    .map_err(|error| self.in_run(run, error))
            })
            .collect();
        self.runner.progress.done();
        samples
    }

    /// All programs, in the order of the modes; all rest.
    fn started(&self, turns: &InTurns) -> Result<Vec<Player<'a>>, Error> {
        let mut players: Vec<(usize, Player<'a>)> = Vec::new();
        for number in of_starts(self.runs.len(), self.round) {
            let run = &self.runs[number];
            self.step(run.mode);
            let held = self.runner.globals.set(run.mode)?;
            let player = Player::start(run, turns);
            held.put_back()?;
            self.runner.interrupt.check()?;
            players.push((number, player.map_err(|error| self.in_run(run, error))?));
            self.runner.progress.done();
        }
        players.sort_by_key(|(number, _)| *number);
        Ok(players.into_iter().map(|(_, player)| player).collect())
    }

    /// Has each work in turn until it has had its time.
    fn play(&self, players: &mut [Player<'_>]) -> Result<(), Error> {
        let turns = Turns::of(self.plan.measured);
        for turn in 0..turns.count {
            for number in order::of_turn(players.len(), self.round, turn) {
                players[number]
                    .play(turns, turn)
                    .map_err(|error| self.in_run(&self.runs[number], error))?;
            }
        }
        Ok(())
    }

    fn step(&self, what: &dyn std::fmt::Display) {
        self.runner
            .progress
            .step(self.experiment.name, self.round, self.plan.rounds, what);
    }

    fn in_run(&self, run: &Run<'_>, error: Error) -> Error {
        in_run(self.experiment, run.mode, self.round, error)
    }
}
