//! One program of a round: it works in its turns and rests in the others' turns.

use std::time::{Duration, Instant};

use super::order::Turns;
use crate::error::Error;
use crate::live::experiment::InTurns;
use crate::live::process::Process;
use crate::live::run::Run;
use crate::workload::report::Done;

/// How long before a turn's end its program is told to rest: half a slice, as it ends the slices that it has begun.
const TOLD_BEFORE: Duration = Duration::from_millis(25);
/// How long it may take until it rests. Slices take a twentieth of a second: more is a fault.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that has settled and rests.
pub(super) struct Player<'a> {
    run: &'a Run<'a>,
    process: Process,
    /// When its turns began, in seconds since it was ready.
    since: f64,
    /// Since when it rests.
    rests: Instant,
    /// How long it has rested before.
    rested: Duration,
}

/// What a program came to.
pub(crate) struct Worked {
    pub(crate) done: Done,
    /// When its turns began, in seconds since it was ready.
    pub(crate) since: f64,
    /// How long it rested, all rests together.
    pub(crate) rested: Duration,
}

impl<'a> Player<'a> {
    /// Starts it as its mode says, waits until its memory has settled, and has it rest.
    ///
    /// # Errors
    /// When it cannot be started, fails, does not rest, or when interrupted.
    pub(super) fn start(run: &'a Run<'a>, turns: &InTurns) -> Result<Self, Error> {
        let command = (turns.command)(run, turns.program)?;
        let (process, ready) = run.ready_workload(command)?;
        run.settle(ready.pid, run.size)?;
        let mut player = Player {
            run,
            process,
            since: 0.0,
            rests: Instant::now(),
            rested: Duration::ZERO,
        };
        player.since = player.rest()?;
        Ok(player)
    }

    /// Has it work for a turn, and rest again.
    ///
    /// # Errors
    /// When it fails, does not rest, or when interrupted.
    pub(super) fn play(&mut self, turns: Turns, turn: u32) -> Result<(), Error> {
        self.rested += self.rests.elapsed();
        let began = Instant::now();
        self.process.tell("work")?;
        let alone = turns.manager_after(turn, self.run.interval);
        if alone < turns.length {
            self.run.sleep(alone)?;
            self.process.go_on()?;
        }
        let told = turns.length.saturating_sub(TOLD_BEFORE);
        self.run.sleep(told.saturating_sub(began.elapsed()))?;
        self.rest()?;
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it, or its manager, failed, or it found its data wrong.
    pub(super) fn finish(self) -> Result<Worked, Error> {
        let rested = self.rested + self.rests.elapsed();
        Ok(Worked {
            done: self.process.finish()?,
            since: self.since,
            rested,
        })
    }

    /// Tells it to rest, waits until it does, and stops its manager, to which memory would look cold that nobody uses
    /// because its program rests. Returns the seconds since it was ready.
    fn rest(&mut self) -> Result<f64, Error> {
        self.process.tell("rest")?;
        let told = Instant::now();
        let resting = loop {
            if let Some(resting) = self.process.resting()? {
                break resting;
            }
            if told.elapsed() >= PATIENCE {
                return Err(Error::Failed(format!(
                    "waiting for a program to rest: process {} was told to, and has not said within {} s that it does; \
                     a machine that is this busy measures nothing",
                    self.process.id(),
                    PATIENCE.as_secs()
                )));
            }
            self.run.nap()?;
        };
        self.rests = Instant::now();
        if self.run.mode.is_managed() {
            self.process.stop()?;
        }
        Ok(resting.seconds)
    }
}
