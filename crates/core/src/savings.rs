//! The CPU time that huge pages saved processes, as far as what they would gain was measured before they were made.
//!
//! Nobody can measure what did not happen. This is the measured share of the CPU time, times the part of the memory it was
//! measured for that huge pages map by now, times the CPU time that the process used since. It leaves out that those parts are
//! made huge first that gain the most.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use crate::engine::ProcessSummary;
use crate::gain::Gain;
use crate::process::ProcessId;
use crate::worth::Estimate;

/// No more of a process's CPU time can be saved, whatever was measured: the rest has to be used by something.
const MOST: f64 = 0.95;

/// What was saved, in seconds of CPU time.
#[derive(Clone, Debug, Default)]
pub struct Savings {
    by_process: BTreeMap<ProcessId, Account>,
    total: Estimate,
}

/// One process.
#[derive(Clone, Copy, Debug)]
struct Account {
    gain: Gain,
    /// What huge pages mapped when that was measured, in bytes.
    huge: u64,
    /// What base pages mapped then.
    base: u64,
    /// CPU time that the process had used at the latest step.
    used: Duration,
    saved: Estimate,
}

impl Savings {
    /// Takes note of a step. `used` is the CPU time that a process has used since its start; `None` where that is not known.
    pub fn step(
        &mut self,
        processes: &[ProcessSummary],
        mut used: impl FnMut(ProcessId) -> Option<Duration>,
    ) {
        let mut before = std::mem::take(&mut self.by_process);
        for summary in processes {
            let Some(measured) = summary.gain else {
                continue;
            };
            let known = before.remove(&summary.process);
            let Some(used) = used(summary.process) else {
                continue;
            };
            let account = match known {
                Some(mut known) => {
                    self.total += known.run(summary, used);
                    if known.gain != measured.gain {
                        known.begin(measured.gain, summary);
                    }
                    known
                }
                None => Account::new(measured.gain, summary, used),
            };
            self.by_process.insert(summary.process, account);
        }
    }

    /// What was saved a process since it was measured first; `None` where it was not, or has ended.
    #[must_use]
    pub fn of(&self, process: ProcessId) -> Option<Estimate> {
        self.by_process.get(&process).map(|account| account.saved)
    }

    /// Every process that was measured, with the CPU time that it saved.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessId, Estimate)> {
        let accounts = self.by_process.iter();
        accounts.map(|(&process, account)| (process, account.saved))
    }

    /// What was saved all processes, those that have ended among them.
    #[must_use]
    pub fn total(&self) -> Estimate {
        self.total
    }
}

impl Account {
    fn new(gain: Gain, summary: &ProcessSummary, used: Duration) -> Self {
        let mut account = Account {
            gain,
            huge: 0,
            base: 0,
            used,
            saved: Estimate::default(),
        };
        account.begin(gain, summary);
        account
    }

    /// A measurement holds for what base pages map at that time.
    fn begin(&mut self, gain: Gain, summary: &ProcessSummary) {
        self.gain = gain;
        self.huge = summary.huge_bytes;
        self.base = summary.mapped_bytes.saturating_sub(summary.huge_bytes);
    }

    /// The process has run until it had used `used`. Returns what that saved it.
    fn run(&mut self, summary: &ProcessSummary, used: Duration) -> Estimate {
        let seconds = used.saturating_sub(self.used).as_secs_f64();
        self.used = self.used.max(used);
        let made = self.made(summary);
        // What is saved is a share of what the process would have used without huge pages, and it used the rest.
        let saved = |share: f64| {
            let share = (share * made).clamp(0.0, MOST);
            seconds * share / (1.0 - share)
        };
        let share = self.gain.saved_share;
        let saved = Estimate {
            value: saved(share.value),
            low: saved(share.low),
            high: saved(share.high),
        };
        self.saved += saved;
        saved
    }

    /// The part of what base pages mapped that huge pages map now.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    fn made(&self, summary: &ProcessSummary) -> f64 {
        match self.base {
            0 => 0.0,
            base => (summary.huge_bytes.saturating_sub(self.huge) as f64 / base as f64).min(1.0),
        }
    }
}

impl AddAssign for Estimate {
    /// Adds an estimate whose error may well have the same cause, so that both errors add up.
    fn add_assign(&mut self, other: Estimate) {
        self.value += other.value;
        self.low += other.low;
        self.high += other.high;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Covered, MeasuredGain, Rest, Tally};

    const GIB: u64 = 1 << 30;

    fn summary(pid: u32, huge: u64, share: Option<f64>) -> ProcessSummary {
        ProcessSummary {
            process: ProcessId { pid, start_time: 1 },
            regions: 0,
            mapped_bytes: 4 * GIB,
            accessed_bytes: 0,
            huge_bytes: huge,
            giant_bytes: 0,
            bloat_bytes: None,
            accesses_known: true,
            rest: Rest::default(),
            counted: Covered::default(),
            tally: Tally::default(),
            gain: share.map(|share| MeasuredGain {
                gain: Gain {
                    saved_share: Estimate::within(share, share / 2.0, share),
                    cpus: 1.0,
                    cost_cpu_seconds: 1.0,
                    payback_seconds: None,
                },
                ago: Duration::ZERO,
            }),
        }
    }

    fn step(savings: &mut Savings, summary: ProcessSummary, used: u64) -> Option<Estimate> {
        savings.step(&[summary], |_| Some(Duration::from_secs(used)));
        savings.of(summary.process)
    }

    #[test]
    fn what_is_huge_by_now_saves_its_part() {
        let mut savings = Savings::default();
        assert_eq!(step(&mut savings, summary(1, 0, None), 5), None);
        // Measured with nothing huge; what the process used before does not count.
        let zero = Some(Estimate::default());
        assert_eq!(step(&mut savings, summary(1, 0, Some(0.5)), 10), zero);
        // All of it is huge: half of what it would have used was saved, as much as it used.
        let saved = step(&mut savings, summary(1, 4 * GIB, Some(0.5)), 20).expect("some");
        assert!((saved.value - 10.0).abs() < 1e-9, "{saved:?}");
        assert!((saved.low - 10.0 / 3.0).abs() < 1e-9, "{saved:?}");
        // It was split again: nothing more is saved.
        assert_eq!(
            step(&mut savings, summary(1, 0, Some(0.5)), 99),
            Some(saved)
        );
        // Another measurement holds for what is left, and adds up.
        step(&mut savings, summary(1, 2 * GIB, Some(0.2)), 99);
        let more = step(&mut savings, summary(1, 4 * GIB, Some(0.2)), 103).expect("some");
        assert!((more.value - 11.0).abs() < 1e-9, "{more:?}");
        // What has ended counts in the sum, and is no process any more.
        savings.step(&[], |_| None);
        assert_eq!(savings.iter().count(), 0);
        assert!((savings.total().value - 11.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn nothing_is_saved_beyond_what_a_share_of_the_time_can_be(
            steps in proptest::collection::vec((0..8_u64, 0.0..1.0_f64, 0..1000_u64), 1..20),
        ) {
            let mut savings = Savings::default();
            let mut used = 0;
            for (huge, share, more) in steps {
                used += more;
                step(&mut savings, summary(1, huge * GIB / 2, Some(share)), used);
                let total = savings.total();
                prop_assert!(0.0 <= total.low && total.low <= total.value && total.value <= total.high);
                #[allow(clippy::cast_precision_loss)]
                let most = used as f64 * MOST / (1.0 - MOST);
                prop_assert!(total.high <= most + 1e-6);
            }
        }
    }
}
