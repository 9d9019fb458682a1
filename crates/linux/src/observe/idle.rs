//! How many CPUs have nothing to do.

use std::path::Path;

use crate::kernel::Kernel;

/// Shorter stretches say little: `/proc/uptime` counts in hundredths of a second.
const SHORTEST: f64 = 0.05;

/// Follows `/proc/uptime`, which adds up the idle time of all CPUs and costs little on a machine with many.
#[derive(Debug, Default)]
pub struct IdleCpus {
    last: Option<(f64, f64)>,
    idle: Option<f64>,
}

impl IdleCpus {
    /// The mean number of CPUs that were idle since it was last asked; where that was just now, the same as then. `None`
    /// where it is not known.
    pub fn since_last(&mut self, kernel: &dyn Kernel) -> Option<f64> {
        let text = kernel.read(Path::new("/proc/uptime")).ok()?;
        let (up, idle) = parse(&text)?;
        let (up_then, idle_then) = *self.last.get_or_insert((up, idle));
        if up - up_then >= SHORTEST {
            self.idle = Some(((idle - idle_then) / (up - up_then)).max(0.0));
            self.last = Some((up, idle));
        }
        self.idle
    }
}

/// Seconds since boot, and seconds that CPUs were idle.
fn parse(text: &[u8]) -> Option<(f64, f64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    #[test]
    fn idle_cpus_are_those_of_the_time_since_it_was_last_asked() {
        let kernel = FakeKernel::new();
        let mut idle = IdleCpus::default();
        assert_eq!(idle.since_last(&kernel), None);
        let mut at = |uptime: &str| {
            let file = ("/proc/uptime".into(), uptime.as_bytes().to_vec());
            kernel.state().files.extend([file]);
            idle.since_last(&kernel)
        };
        assert_eq!(at("100.00 350.00\n"), None);
        assert_eq!(at("102.00 353.00\n"), Some(1.5));
        assert_eq!(at("102.01 353.00\n"), Some(1.5));
        assert_eq!(at("104.00 353.00\n"), Some(0.0));
        assert_eq!(at("nonsense"), None);
    }
}
