//! A daemon of a test's own, and a program that it alone selects.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{mega, run, until};

/// A folder with a run directory, a configuration, and a program that no other test starts.
pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        // On the file system of the binary, which is linked to.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        std::fs::hard_link(super::mega_lab(), folder.path().join("program")).expect("linked");
        Place(folder)
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.0.path().join("program")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.0.path().join("mega.toml")
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.0.path().join("run")
    }

    /// Writes a configuration that selects the program and manages it with `policy`.
    pub(crate) fn select_program(&self, policy: &str) {
        self.write(&format!(
            "[defaults]\ninterval = \"100ms\"\n[[select]]\nname = \"mine\"\nexecutable = \"{}\"\npolicy = \"{policy}\"\n",
            self.program().display()
        ));
    }

    pub(crate) fn write(&self, config: &str) {
        std::fs::write(self.config(), config).expect("written");
    }

    /// The program, as a workload that runs until its input ends.
    pub(crate) fn workload(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args([
            "workload",
            "random",
            "--size=64MiB",
            "--until-eof",
            "--json",
        ]);
        command
    }

    /// What the status says of the daemon with this pid.
    pub(crate) fn status(&self, pid: u32) -> Value {
        let output = run(mega()
            .args(["status", "--json"])
            .env("MEGA_RUN_DIR", self.run_dir()));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let managers = answer["managers"].as_array().cloned().unwrap_or_default();
        managers
            .into_iter()
            .find(|manager| manager["pid"] == pid)
            .unwrap_or_default()
    }
}

/// A running daemon, and what it has logged.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) log: Arc<Mutex<String>>,
}

impl Daemon {
    pub(crate) fn start(place: &Place) -> Self {
        Self::spawn(mega().env("MEGA_RUN_DIR", place.run_dir()), &place.config())
    }

    /// Starts it. What it keeps beyond its end goes beside its configuration.
    pub(crate) fn spawn(command: &mut Command, config: &Path) -> Self {
        let mut child = command
            .env("MEGA_STATE_DIR", config.with_file_name("state"))
            .args(["daemon", "--config"])
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .expect("mega starts");
        let log = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(child.stderr.take().expect("its log"));
        let place = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                *place.lock().expect("the log") += &(line + "\n");
            }
        });
        let daemon = Daemon { child, log };
        daemon.logs("managing ");
        daemon
    }

    /// Waits until it has logged this.
    pub(crate) fn logs(&self, wanted: &str) {
        until(wanted, || self.log().contains(wanted));
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it, and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().expect("its status").code()
    }
}

/// Of a test that failed: the daemon puts back what it changed of the machine, while its run directory is there.
impl Drop for Daemon {
    fn drop(&mut self) {
        for _ in 0..100 {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return,
            }
            // Again and again: it may not have come to listen for signals.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
