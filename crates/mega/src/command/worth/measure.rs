//! Measuring one process and predicting what huge pages would gain it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::ProcessId;
use mega_core::worth::{Calibration, predict};
use mega_linux::guest::Vmms;
use mega_linux::kernel::Kernel;
use mega_linux::observe::memory;
use mega_linux::process::claim::{Claim, ClaimError, Claims};
use mega_linux::run_dir::RunDir;
use mega_linux::touches::Effort;
use mega_linux::{Host, LinuxMachine, MachineOptions, process};

use super::obstacles;
use crate::exit::Failure;
use crate::output;
use crate::report::{HostPage, Memory, VERSION, WorthReport};

/// Measures processes, one after the other.
pub(super) struct Meter {
    host: Arc<Host>,
    calibration: Calibration,
    time: Duration,
}

impl Meter {
    /// Measures each process for `time` at most.
    pub(super) fn new(host: Arc<Host>, calibration: Calibration, time: Duration) -> Self {
        Meter {
            host,
            calibration,
            time,
        }
    }

    /// Keeps other megas from measuring the process too. One that manages it already goes on: of the little that is cleared
    /// here it misses what is touched no more in its interval.
    pub(super) fn claim(&self, process: ProcessId) -> Result<Option<Claim>, Failure> {
        match Claims::open(&RunDir::open()?)?.take(process) {
            Ok(claim) => Ok(Some(claim)),
            Err(ClaimError::Held { by_pid, .. }) => {
                output::say(&format!(
                    "process {process} is managed by another mega (pid {by_pid}): what is huge there already counts as no gain"
                ));
                Ok(None)
            }
            Err(other @ ClaimError::Other(_)) => Err(other.into()),
        }
    }

    /// Measures a process, and says what huge pages would gain it.
    pub(super) fn measure(&self, process: ProcessId) -> Result<WorthReport, Failure> {
        let kernel: &dyn Kernel = self.host.kernel().as_ref();
        let mut machine = LinuxMachine::new(Arc::clone(&self.host), MachineOptions::default());
        let started = Instant::now();
        let touches = machine.measure_touches(
            process,
            Effort {
                at_most: self.time,
                seed: process.start_time ^ u64::from(process.pid),
                ..Effort::default()
            },
        )?;
        let seconds = started.elapsed().as_secs_f64();
        if !touches.tell_how_often() {
            return Err(Failure::Failed(format!(
                "process {process}: it ran too little in {seconds:.1} s to tell anything; measure for longer (--seconds), or while it works"
            )));
        }
        let memory = memory::observe(kernel)?;
        let worth = predict(&touches, &self.calibration);
        let obstacles = obstacles::find(kernel, &machine, process, &worth, &memory)?;
        Ok(WorthReport {
            version: VERSION,
            pid: process.pid,
            name: process::stat(kernel, process.pid)?.name,
            seconds,
            obstacles,
            memory: Memory::from(&memory),
            worth,
            host_page: HostPage::of(self.host.is_guest(), false),
            runs_guest: Vmms::of(kernel).contain(process.pid),
        })
    }
}
