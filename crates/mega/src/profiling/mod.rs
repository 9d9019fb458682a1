//! Looks on while `mega run` runs a program, for its profile; and where the profile of last time says so, makes huge pages
//! ready ahead of the program.
//!
//! A thread of its own does so: a step of the manager may take long, and a program fills its memory within milliseconds.

mod ahead;
mod learn;
mod subject;
mod watcher;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use mega_core::profile::Verdict;
use mega_core::worth::Estimate;
use mega_linux::Host;
use mega_linux::kernel::Kernel;
use mega_linux::profile::{self, Store};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::FaultMode;
use mega_linux::settings::thp_mode::{self, ThpMode};

use crate::exit::Failure;
use crate::report::ProfileUse;

use watcher::Watcher;

/// What page faults of `command` should take by the profile of last time: what the machine's THP mode says, where that is
/// huge pages and they were right; base pages otherwise.
pub(crate) fn fault_mode(kernel: &dyn Kernel, store: &Store, command: &[OsString]) -> FaultMode {
    let wholly_right = || {
        let key = profile::program_of_command(kernel, command)?;
        let stored = store.read(&key.name).ok()??;
        Some(stored.profile.verdict_as_a_whole() == Verdict::Huge)
    };
    match thp_mode::of_huge_pages(kernel).map(|in_force| in_force.mode) {
        Ok(ThpMode::Always) if wholly_right() == Some(true) => FaultMode::Inherit,
        _ => FaultMode::Base,
    }
}

/// A thread that looks on.
pub(crate) struct Profiling {
    stop: Sender<()>,
    thread: JoinHandle<Watcher>,
}

impl Profiling {
    /// Begins to look at `program` and the other descendants of this process. Nothing is made ready where `faults` take
    /// huge pages anyway.
    pub(crate) fn start(
        host: Arc<Host>,
        store: Store,
        run_dir: &RunDir,
        program: u32,
        faults: FaultMode,
    ) -> Result<Self, Failure> {
        let watcher = Watcher::new(host, store, run_dir, program, faults)?;
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let mut watcher = watcher;
                profile::hurry();
                loop {
                    let pause = watcher.turn();
                    match stopped.recv_timeout(pause) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => return watcher,
                    }
                }
            })
            .map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Profiling { stop, thread })
    }

    /// Ends it, learns, and keeps what was learnt; `saved` is the share of its CPU time that huge pages would save a process of that
    /// pid, where that was measured. Returns what came of each program with a profile, and what went wrong.
    pub(crate) fn finish(self, saved: &BTreeMap<u32, Estimate>) -> (Vec<ProfileUse>, Vec<String>) {
        // A thread that has ended needs no word.
        let _ = self.stop.send(());
        match self.thread.join() {
            Ok(watcher) => watcher.learn(saved),
            Err(_) => {
                let line = "looking on stopped by an internal error, which is a bug";
                (Vec::new(), vec![line.to_owned()])
            }
        }
    }
}
