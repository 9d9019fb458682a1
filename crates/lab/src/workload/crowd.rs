//! `crowd`: many processes that touched their part of the memory once and rest, as most of a machine's do.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::access::map;
use super::arguments::Common;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{self, HUGE_PAGE};

/// What `crowd` is told besides.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Size {
    /// Number of processes; each has an equal part of the memory, in whole regions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    processes: u32,
}

pub(super) fn run(
    common: &Common,
    crowd: &Size,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let part = common.size() / crowd.processes as usize / HUGE_PAGE;
    let mut area = map(part.max(1) * HUGE_PAGE)?;
    let (told, tell) = rustix::pipe::pipe().map_err(|e| Error::io("making a pipe", e))?;
    let mut members = Members(Vec::new());
    for _ in 0..crowd.processes {
        let child = mapping::fork_to_touch_and_rest(&mut area, &tell)
            .map_err(|e| Error::io("starting a process", e))?;
        members.0.push(child);
        // One after the other: what the next is forked from has touched nothing.
        rustix::io::read(&told, &mut [0_u8; 1])
            .map_err(|e| Error::io("waiting for a process", e))?;
    }
    reporter.ready(Vec::new())?;
    stop.start();
    stop.wait();
    let alive = members.end();
    let mut done = Done::new(stop.elapsed(), u64::from(crowd.processes))?;
    done.verified = alive == crowd.processes;
    Ok(done)
}

/// The processes, ended with this.
struct Members(Vec<u32>);

impl Members {
    /// Ends them; returns how many were still there.
    fn end(&mut self) -> u32 {
        let mut alive = 0;
        for pid in self.0.drain(..) {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let Some(pid) = pid else { continue };
            // It cannot have been another's: nobody has waited for it yet.
            let _ = kill_process(pid, Signal::KILL);
            let ended = waitpid(Some(pid), WaitOptions::empty());
            let killed = ended.is_ok_and(|ended| {
                ended.is_some_and(|(_, status)| {
                    status.terminating_signal() == Some(Signal::KILL.as_raw())
                })
            });
            alive += u32::from(killed);
        }
        alive
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.end();
    }
}
