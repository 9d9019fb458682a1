//! The CPU time that a process uses while something else is measured.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::mapping;

/// Counts the CPU time of one process from some moment on.
pub struct CpuMeter {
    pid: u32,
    before: Duration,
    since: Instant,
}

impl CpuMeter {
    /// Begins to count.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn begin(pid: u32) -> Result<Self, Error> {
        Ok(CpuMeter {
            pid,
            before: cpu_time(pid)?,
            since: Instant::now(),
        })
    }

    /// What it has used since, as a share of one core.
    ///
    /// # Errors
    /// When it has ended.
    pub fn share(&self) -> Result<f64, Error> {
        let used = cpu_time(self.pid)?.saturating_sub(self.before);
        Ok(used.div_duration_f64(self.since.elapsed()))
    }
}

fn cpu_time(pid: u32) -> Result<Duration, Error> {
    mapping::cpu_time_of(pid)
        .map_err(|e| Error::io(format!("reading the CPU time of process {pid}"), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_uses_a_part_of_a_core() {
        let meter = CpuMeter::begin(std::process::id()).unwrap();
        while meter.share().unwrap() == 0.0 {
            std::hint::spin_loop();
        }
        assert!(CpuMeter::begin(u32::MAX).is_err());
    }
}
