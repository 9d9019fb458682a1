//! The CPU time that huge pages saved processes, as far as what they would gain was measured before they were made.
//!
//! Nobody can measure what did not happen. This is the measured share of the CPU time, times the part of the memory it was
//! measured for that huge pages map by now, times the CPU time that the process used since. What an earlier measurement was about
//! goes on saving its share, as far as it is huge still. It leaves out that those parts are made huge first that gain the most,
//! and that a program may do something else later than when it was measured.

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
    /// The share of the CPU time that those saved then, as earlier measurements have it.
    by_huge: Estimate,
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
            by_huge: Estimate::default(),
            base: 0,
            used,
            saved: Estimate::default(),
        };
        account.begin(gain, summary);
        account
    }

    /// A measurement holds for what base pages map at that time. What is huge by then saves what it saved before.
    fn begin(&mut self, gain: Gain, summary: &ProcessSummary) {
        self.by_huge = self.share(summary);
        self.gain = gain;
        self.huge = summary.huge_bytes;
        self.base = summary.mapped_bytes.saturating_sub(summary.huge_bytes);
    }

    /// The process has run until it had used `used`. Returns what that saved it.
    fn run(&mut self, summary: &ProcessSummary, used: Duration) -> Estimate {
        let seconds = used.saturating_sub(self.used).as_secs_f64();
        self.used = self.used.max(used);
        let share = self.share(summary);
        // What is saved is a share of what the process would have used without huge pages, and it used the rest.
        let saved = |share: f64| seconds * share / (1.0 - share);
        let saved = Estimate {
            value: saved(share.value),
            low: saved(share.low),
            high: saved(share.high),
        };
        self.saved += saved;
        saved
    }

    /// The share of the CPU time without huge pages that those there are now save. The latest measurement is about what earlier
    /// ones left of it.
    fn share(&self, summary: &ProcessSummary) -> Estimate {
        let (kept, made) = (self.kept(summary), self.made(summary));
        let share = |before: f64, since: f64| {
            let left = (1.0 - before * kept) * (1.0 - since * made);
            (1.0 - left).clamp(0.0, MOST)
        };
        let (before, since) = (self.by_huge, self.gain.saved_share);
        Estimate {
            value: share(before.value, since.value),
            low: share(before.low, since.low),
            high: share(before.high, since.high),
        }
    }

    /// The part of what huge pages mapped that they map still, whichever of it that is.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    fn kept(&self, summary: &ProcessSummary) -> f64 {
        match self.huge {
            0 => 0.0,
            huge => (summary.huge_bytes as f64 / huge as f64).min(1.0),
        }
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
                    saved_by_giant_share: None,
                    working_set: 0,
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
        // Half is huge, and is measured again: it saves what it did, and the rest has the gain of its own.
        step(&mut savings, summary(1, 2 * GIB, Some(0.2)), 99);
        let more = step(&mut savings, summary(1, 4 * GIB, Some(0.2)), 102).expect("some");
        // 3 s are 0.75 x 0.8 of 5 s.
        assert!((more.value - 12.0).abs() < 1e-9, "{more:?}");
        // What has ended counts in the sum, and is no process any more.
        savings.step(&[], |_| None);
        assert_eq!(savings.iter().count(), 0);
        assert!((savings.total().value - 12.0).abs() < 1e-9);
    }

    #[test]
    fn measured_again_what_was_huge_goes_on_saving() {
        let mut savings = Savings::default();
        step(&mut savings, summary(1, 0, Some(0.5)), 0);
        step(&mut savings, summary(1, 3 * GIB, Some(0.5)), 0);
        // What is left gains nothing.
        for used in [0, 10, 20] {
            step(&mut savings, summary(1, 3 * GIB, Some(0.0)), used);
        }
        // Three quarters of half of what it would have used.
        let saved = savings.total().value;
        assert!((saved - 20.0 * 0.375 / 0.625).abs() < 1e-9, "{saved}");
        // Two thirds of that were split again.
        step(&mut savings, summary(1, GIB, Some(0.0)), 30);
        let more = savings.total().value - saved;
        assert!((more - 10.0 * 0.125 / 0.875).abs() < 1e-9, "{more}");
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
