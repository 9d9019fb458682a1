//! `mega daemon` beside an experiment of several programs, by defaults.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::mode::Mode;
use super::run::Run;
use crate::cpu_meter::CpuMeter;
use crate::error::Error;
use crate::programs;
use crate::terminate::terminate;

/// A daemon that manages some programs. It ends when it is dropped.
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts one with the policy of the run's mode, for every process of these programs; `None` in a mode without a manager.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(run: &Run<'_>, executables: &[PathBuf]) -> Result<Option<Self>, Error> {
        let Mode::Mega(policy) = run.mode else {
            return Ok(None);
        };
        let config = run.scratch.join("mega.toml");
        let text = configuration(policy, executables);
        std::fs::write(&config, text)
            .map_err(|e| Error::io(format!("writing {}", config.display()), e))?;
        let mut command = run.beside_on_every_cpu(programs::mega()?);
        command
            .arg("daemon")
            .arg("--config")
            .arg(&config)
            .env("MEGA_RUN_DIR", run.scratch.join("run"))
            .env("MEGA_STATE_DIR", run.fresh_state()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .map_err(|e| Error::io("starting mega daemon", e))?;
        Ok(Some(Daemon { child }))
    }

    /// Begins to count its CPU time.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn meter(&self) -> Result<CpuMeter, Error> {
        CpuMeter::begin(self.child.id())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}

/// A configuration that selects these programs and leaves everything else at its default.
fn configuration(policy: &str, executables: &[PathBuf]) -> String {
    let selection = |executable: &Path| {
        format!(
            "[[select]]\nname = {:?}\nexecutable = {:?}\npolicy = {policy:?}\n",
            executable.file_name().unwrap_or_default().to_string_lossy(),
            executable.to_string_lossy()
        )
    };
    let selections = executables.iter().map(|executable| selection(executable));
    format!(
        "calibrate_when_idle = \"never\"\n{}",
        selections.collect::<String>()
    )
}
