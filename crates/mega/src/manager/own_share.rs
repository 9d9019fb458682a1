//! A machine that charges a group for its own CPU time only.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mega_core::compaction::Emptied;
use mega_core::{Action, Gain, Glance, Machine, Observation, Outcome, ProcessId, RegionRef};
use mega_linux::{Error, Host, LinuxMachine, MachineOptions};
use mega_record::TouchRate;

use super::watchdog;
use crate::config::Settings;
use crate::recording::Tape;

/// A machine that charges a group for its own CPU time only, and not for what other groups use.
pub(super) struct OwnShare {
    pub(super) inner: LinuxMachine,
    /// What it sees and does is written there.
    pub(super) tape: Option<Tape>,
    /// CPU time of this process that other groups used.
    pub(super) elsewhere: Duration,
}

impl OwnShare {
    pub(super) fn new(host: &Arc<Host>, settings: &Settings) -> Self {
        let mut inner = LinuxMachine::new(Arc::clone(host), machine_options(settings));
        inner.set_chosen(settings.coverage_of.clone());
        OwnShare {
            inner,
            tape: None,
            elsewhere: Duration::ZERO,
        }
    }
}

impl OwnShare {
    /// Has the recording say all of the step that was just taken. Returns why it could not, and records no more then.
    pub(super) fn complete_tape(&mut self) -> Option<String> {
        let done = self.tape.as_mut()?.complete(&self.inner);
        self.give_up_tape(&done.err()?)
    }

    /// Writes the step that was just taken, and what was `emptied` for it. Returns why it could not, and records no more then.
    pub(super) fn write_tape(&mut self, emptied: &[Emptied]) -> Option<String> {
        let tape = self.tape.as_mut()?;
        tape.emptied(emptied);
        let done = tape.write();
        self.give_up_tape(&done.err()?)
    }

    fn give_up_tape(&mut self, error: &io::Error) -> Option<String> {
        let tape = self.tape.take()?;
        let path = tape.path().display();
        Some(format!(
            "cannot write the recording to {path}: {error}; going on without it, what it holds can be used"
        ))
    }
}

impl Machine for OwnShare {
    type Error = Error;

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn cpu_time(&self) -> Duration {
        self.inner.cpu_time().saturating_sub(self.elsewhere)
    }

    fn watch(&mut self, wanted: &dyn Fn(ProcessId) -> bool) {
        // Who replays a recording may want to know what this policy does not.
        let is_recording = self.tape.is_some();
        self.inner.watch(&|process| is_recording || wanted(process));
    }

    fn observe(&mut self) -> Result<Observation, Error> {
        let before = self.inner.cpu_time();
        let seen = self.inner.observe()?;
        if let Some(tape) = &mut self.tape {
            tape.saw(&seen, self.inner.cpu_time().saturating_sub(before));
        }
        Ok(seen)
    }

    fn can_glance(&self) -> bool {
        self.inner.can_glance()
    }

    fn glance(&mut self) -> Vec<Glance> {
        let before = self.inner.cpu_time();
        let glances = self.inner.glance();
        if let Some(tape) = &mut self.tape {
            tape.glanced(&glances, self.inner.cpu_time().saturating_sub(before));
        }
        glances
    }

    fn count_zero_filled(&mut self, target: RegionRef) -> Option<u16> {
        let counted = self.inner.count_zero_filled(target);
        if let (Some(tape), Some(counted)) = (&mut self.tape, counted) {
            tape.counted(target, counted);
        }
        counted
    }

    fn measures(&self) -> bool {
        self.inner.measures()
    }

    fn gain(&mut self, process: ProcessId) -> Option<Gain> {
        let (touches, gain) = self.inner.measured_gain(process)?;
        if let Some(tape) = &mut self.tape {
            tape.touched(process, TouchRate::new(&touches, Some(gain)));
        }
        Some(gain)
    }

    fn age(&self, process: ProcessId) -> Duration {
        self.inner.age(process)
    }

    fn promotion_seconds(&self) -> Option<f64> {
        self.inner.promotion_seconds()
    }

    fn prepare(&mut self, promotions: usize) {
        self.inner.prepare(promotions);
    }

    fn rest(&mut self, time: Duration) {
        self.inner.rest(time);
    }

    fn act(&mut self, actions: &[Action]) -> Vec<Outcome> {
        watchdog::beat();
        let outcomes = self.inner.act(actions);
        if let Some(tape) = &mut self.tape {
            tape.did(actions, &outcomes);
        }
        outcomes
    }
}

/// The options of a machine for a group with these settings.
pub(super) fn machine_options(settings: &Settings) -> MachineOptions {
    MachineOptions {
        lock_bound: settings.lock_bound,
        ..MachineOptions::default()
    }
}
