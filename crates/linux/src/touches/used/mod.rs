//! The CPU time that a process has used until now, to some microseconds.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::bpf;

/// The compiled program; build.rs makes it.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/used.bpf.o"));
/// `sizeof(struct thread)` in used.bpf.c.
const THREAD_BYTES: usize = 5 * 8;
/// A process with more threads takes longer to ask than the answer is worth.
const MOST_THREADS: u64 = 256;

/// The program that asks the scheduler, in the kernel. To load it takes some 15 ms, so a manager does that once.
pub(crate) struct UsedProgram(OwnedFd);

impl UsedProgram {
    /// `None` where the kernel or the privileges do not allow it.
    pub(crate) fn load() -> Option<Self> {
        let object = bpf::load(OBJECT).ok()?;
        let program = object.progs().find(|program| program.name() == "used")?;
        // The kernel keeps the program for as long as someone has it open.
        Some(UsedProgram(program.as_fd().try_clone_to_owned().ok()?))
    }
}

/// Asks the scheduler about one process.
pub(super) struct UsedTime {
    link: OwnedFd,
    buffer: Vec<u8>,
    /// How far the scheduler's clock is ahead of `CLOCK_MONOTONIC`, in nanoseconds: at least so far, by all that was seen.
    ahead: i64,
}

/// One thread.
struct Thread {
    sum: u64,
    time: u64,
    since: i64,
    ahead: i64,
    running: bool,
}

impl UsedTime {
    /// `None` where the process is gone, or the number of threads does not allow it.
    pub(super) fn open(program: &UsedProgram, pid: u32, threads: u64) -> Option<Self> {
        if threads > MOST_THREADS {
            return None;
        }
        let link = bpf::attach_to_process(program.0.as_fd(), pid).ok()?;
        let mut used = UsedTime {
            link,
            buffer: vec![0; 4 * usize::try_from(threads.max(8)).ok()? * THREAD_BYTES],
            ahead: i64::MIN,
        };
        used.now().is_some().then_some(used)
    }

    /// What the process has used until now. `None` where it has ended.
    pub(super) fn now(&mut self) -> Option<Duration> {
        let filled = self.read()?;
        let threads: Vec<Thread> = self
            .buffer
            .get(..filled)?
            .chunks_exact(THREAD_BYTES)
            .filter_map(Thread::decode)
            .collect();
        if threads.is_empty() {
            return None;
        }
        let ahead = threads.iter().map(|thread| thread.ahead).max();
        self.ahead = self.ahead.max(ahead.unwrap_or(i64::MIN));
        let used: i128 = threads.iter().map(|thread| thread.used(self.ahead)).sum();
        Some(Duration::from_nanos(u64::try_from(used).ok()?))
    }

    /// Runs the program over all threads; returns the bytes that it wrote.
    fn read(&mut self) -> Option<usize> {
        let iterator = bpf::iterator(&self.link).ok()?;
        let mut filled = 0;
        loop {
            // One read gives at most what fits the kernel's own buffer.
            let rest = self.buffer.get_mut(filled..)?;
            match rustix::io::retry_on_intr(|| rustix::io::read(&iterator, &mut *rest)).ok()? {
                0 => return Some(filled),
                read => filled += read,
            }
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
        }
    }
}

impl Thread {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = bytes.get(8 * index..8 * index + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Thread {
            sum: word(0)?,
            time: word(1)?,
            since: word(2)?.cast_signed(),
            ahead: word(3)?.cast_signed(),
            running: word(4)? != 0,
        })
    }

    /// Nanoseconds that it has used, where the scheduler's clock is so far ahead.
    fn used(&self, ahead: i64) -> i128 {
        let since = i128::from(self.time) + i128::from(ahead) + i128::from(self.since);
        // A thread that has just been found running may have a sum that is newer than the clock.
        let since = if self.running { since.max(0) } else { 0 };
        i128::from(self.sum) + since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_thread_has_used_what_passed_since_its_sum_was_made() {
        // The scheduler's clock is 1000 ahead. At 5000 it showed 5900 when it was looked at last, and 300 ns of it were
        // interrupts; up to 5200 of its time without them is in the sum.
        let thread = Thread {
            sum: 70,
            time: 5000,
            since: 5600 - 5200 - 5900,
            ahead: 900,
            running: true,
        };
        assert_eq!(thread.used(1000), 70 + 500);
        let stopped = Thread {
            running: false,
            ..thread
        };
        assert_eq!(stopped.used(1000), 70);
    }
}
