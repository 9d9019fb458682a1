//! Ends a program that nobody waits for any more.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

/// Ends a program that still runs by SIGTERM, which a `mega run` forwards to its own, and waits for its end.
pub(crate) fn terminate(child: &mut Child) {
    if matches!(child.try_wait(), Ok(None)) {
        // It may have ended by itself in between.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let _ = child.wait();
    }
}
