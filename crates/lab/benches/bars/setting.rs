//! What all measurements share: size, repetitions, which mega, which kernel.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_lab::Error;
use mega_lab::resident::{self, Resident};
use mega_linux::kernel::{Kernel, LiveKernel};
use tempfile::TempDir;

/// The longest that a promotion is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// What every measurement shares.
pub(crate) struct Setting {
    pub(crate) size: u64,
    pub(crate) repetitions: u32,
    pub(crate) seconds: u32,
    pub(crate) kernel: Arc<dyn Kernel>,
    mega: PathBuf,
    /// What managers remember, of this benchmark alone.
    state: TempDir,
}

impl Setting {
    /// Finds the mega binary, by default in `target/release` where this benchmark is in `deps` below.
    pub(crate) fn new(
        size: u64,
        repetitions: u32,
        seconds: u32,
        mega: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(|e| Error::io("finding this program", e))?;
        let beside = own.ancestors().nth(2).map(|folder| folder.join("mega"));
        let mega = mega.or(beside).filter(|path| path.is_file()).ok_or_else(|| {
            Error::Failed("there is no mega binary to measure; run `make build` first, or name it by --mega".into())
        })?;
        Ok(Setting {
            size,
            repetitions,
            seconds,
            kernel: Arc::new(LiveKernel),
            mega,
            state: tempfile::tempdir().map_err(|e| Error::io("making a folder", e))?,
        })
    }

    /// Touches as much memory as a program will have, and as much again for the huge pages that it is copied to, as far
    /// as the machine has it: a hypervisor backs memory at its first touch and takes it back when it is free, and a
    /// promotion into memory that it has not backed costs several times its copy.
    pub(crate) fn warm_up(&self) -> Result<(), Error> {
        let available = mega_lab::meminfo::available()?;
        mega_lab::warm_up::warm_up((2 * self.size).min(available / 2).max(self.size))
    }

    /// Calibrates the machine for the managers.
    pub(crate) fn calibrate(&self) -> Result<(), Error> {
        let mut command = self.command();
        command.args(["doctor", "--calibrate", "--json"]);
        let output = command
            .output()
            .map_err(|e| Error::io("calibrating this machine", e))?;
        // Its exit code also says what else the machine lacks.
        if self.state.path().join("calibration.json").is_file() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(Error::Failed(format!(
            "this machine was not calibrated: {}",
            why.trim()
        )))
    }

    /// Has the managers know no program.
    pub(crate) fn forget_programs(&self) -> Result<(), Error> {
        match std::fs::remove_dir_all(self.state.path().join("profiles")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("removing profiles", e))
            }
            _ => Ok(()),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.mega);
        command.env("MEGA_STATE_DIR", self.state.path());
        command
    }

    /// The mega that is measured.
    pub(crate) fn mega(&self) -> &std::path::Path {
        &self.mega
    }

    /// A workload of the full size, alone.
    pub(crate) fn workload(&self, arguments: &[&str]) -> Command {
        self.workload_of(arguments, &self.whole())
    }

    /// The same with that `--size`.
    pub(crate) fn workload_of(&self, arguments: &[&str], size: &str) -> Command {
        let mut command = self.command();
        add_workload(&mut command, arguments, size);
        command
    }

    /// The same under `mega run` with these options.
    pub(crate) fn managed(&self, options: &[&str], arguments: &[&str]) -> Command {
        self.managed_of(options, arguments, &self.whole())
    }

    /// The same with that `--size`.
    pub(crate) fn managed_of(&self, options: &[&str], arguments: &[&str], size: &str) -> Command {
        let mut command = self.command();
        command.arg("run").args(options).arg("--").arg(&self.mega);
        add_workload(&mut command, arguments, size);
        command.stderr(Stdio::null());
        command
    }

    fn whole(&self) -> String {
        format!("--size={}", self.size)
    }
}

fn add_workload(command: &mut Command, arguments: &[&str], size: &str) {
    command
        .arg("workload")
        .args(arguments)
        .arg("--json")
        .arg(size);
}

/// Waits until all but a hundredth of `bytes` are in huge pages in process `pid`: what is left over is no more than a few regions, and
/// the manager is done.
pub(crate) fn wait_until_huge(pid: u32, bytes: u64) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let Resident { huge_bytes, .. } = resident::of(pid)?;
        if huge_bytes >= bytes / 100 * 99 {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(Error::Failed(format!(
                "after {} s only {huge_bytes} of {bytes} bytes are in huge pages",
                PATIENCE.as_secs()
            )));
        }
        // The rollup takes the target's mmap lock: not too often.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The median of what was measured.
pub(crate) fn median(values: &[f64]) -> Result<f64, Error> {
    mega_lab::statistics::median(values).ok_or_else(|| Error::Failed("nothing was measured".into()))
}

/// An error of the live machine.
pub(crate) fn failed(error: mega_linux::Error) -> Error {
    match error.exit_kind() {
        mega_linux::error::ExitKind::Missing => Error::Missing(error.to_string()),
        mega_linux::error::ExitKind::Failed => Error::Failed(error.to_string()),
    }
}
