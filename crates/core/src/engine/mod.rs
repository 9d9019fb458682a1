//! The loop: observe, decide, act within budgets, verify, learn.
//!
//! What a step costs beside the machine's own work: O(regions) for the policy and for adding up the report; O(wanted) for
//! holding back what failed and lining up the rest; O(granted x log granted) for each round of a budget; O(failures) for the
//! memory of failures. `benches/step.rs` measures it over a million regions.

mod account;
mod acting;
mod budgets;
mod closeup;
mod costs;
mod course;
mod gains;
mod glance;
mod interval;
mod pace;
mod prices;
mod report;
mod runs;
mod swapped;
mod tally;
mod totals;
mod unmet;
mod waiting;
mod would;

pub use budgets::Budgets;
pub use closeup::{Closeup, RegionView, Verdict};
pub use gains::MeasuredGain;
pub use glance::after_a_moment;
pub use interval::Interval;
pub use report::{Covered, ProcessSummary, Rest, StepReport};
pub use tally::{LastFailure, Tally};
pub use totals::Totals;
pub use unmet::Unmet;
pub use would::{Would, would};

use std::collections::BTreeSet;
use std::time::Duration;

use crate::action::{Action, ActionKind};
use crate::failures::FailureMemory;
use crate::gain::{Circumstances, Price};
use crate::machine::Machine;
use crate::observation::Observation;
use crate::page::BASE_PAGE_SIZE;
use crate::process::ProcessId;
use crate::promotion::Policy;

use account::CpuAccount;
use budgets::CopyBudget;
use costs::Costs;
use course::Course;
use gains::Gains;
use interval::Rhythm;
use pace::Pace;
use prices::Prices;
use tally::Tallies;

/// The part of an interval's CPU time that inspections may take.
const INSPECTING_SHARE: f64 = 0.5;
/// How long a step may act before the machine is observed anew; in longer fixed intervals up to [`Interval::EQUAL`]. Looking is dear for a
/// program with much memory: it loses as much time as half a second for 4 GiB when its Accessed bits are cleared.
const LONGEST_ACTING: Duration = Duration::from_secs(2);
/// A step may always act for this many times the CPU time of its observation, so that most of the time goes into acting.
const LEAST_ACTING: u32 = 4;
/// Where the interval is not fixed, this much time's share of the copy budget can be used at once.
const COPY_BURST: Duration = Duration::from_secs(1);

/// Runs a policy on a machine, within budgets.
pub struct Engine {
    policy: Box<dyn Policy>,
    budgets: Budgets,
    interval: Interval,
    rhythm: Rhythm,
    cpu: CpuAccount,
    copying: CopyBudget,
    pace: Pace,
    costs: Costs,
    prices: Prices,
    /// The clock and the CPU time at the last observation.
    observed: Option<(Duration, Duration)>,
    failures: FailureMemory,
    /// Whose turn it is when the copy budget has less than one promotion for each process.
    turn: usize,
    totals: Totals,
    tallies: Tallies,
    gains: Gains,
    /// The pids that somebody looks closely at.
    looked_at: BTreeSet<u32>,
}

impl Engine {
    /// An engine that is to take one step every `interval`.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, budgets: Budgets, interval: impl Into<Interval>) -> Self {
        let wanted = interval.into();
        let interval = borne(wanted, policy.as_ref());
        Engine {
            policy,
            budgets,
            interval: wanted,
            rhythm: Rhythm::new(interval),
            cpu: CpuAccount::new(budgets.cpu_share),
            copying: CopyBudget::new(budgets.copy_bytes_per_second, copy_burst(interval)),
            pace: Pace::new(budgets.standstill),
            costs: Costs::default(),
            prices: Prices::default(),
            observed: None,
            failures: FailureMemory::default(),
            turn: 0,
            totals: Totals::default(),
            tallies: Tallies::default(),
            gains: Gains::default(),
            looked_at: BTreeSet::new(),
        }
    }

    /// What was done since the start.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// From the next step on, reports of these pids, and of no others, what the policy makes of each region
    /// ([`StepReport::closeups`]).
    pub fn look_closely_at(&mut self, pids: BTreeSet<u32>) {
        self.looked_at = pids;
    }

    /// The name of the policy that decides now.
    #[must_use]
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// The budgets that hold now.
    #[must_use]
    pub fn budgets(&self) -> Budgets {
        self.budgets
    }

    /// The interval that steps are asked for at, when the CPU budget does not stretch it.
    #[must_use]
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// Lets another policy decide from now on. It starts without memory; totals, failures and what
    /// things cost stay.
    pub fn replace_policy(&mut self, policy: Box<dyn Policy>) {
        self.policy = policy;
        self.apply_interval();
    }

    /// Changes the budgets. What was overdrawn stays so.
    pub fn set_budgets(&mut self, budgets: Budgets) {
        self.budgets = budgets;
        self.cpu.set(budgets.cpu_share);
        self.pace.set_standstill(budgets.standstill);
        self.apply_interval();
    }

    /// Changes the interval.
    pub fn set_interval(&mut self, interval: impl Into<Interval>) {
        self.interval = interval.into();
        self.apply_interval();
    }

    fn apply_interval(&mut self) {
        let interval = borne(self.interval, self.policy.as_ref());
        self.rhythm.set(interval);
        self.copying
            .set(self.budgets.copy_bytes_per_second, copy_burst(interval));
    }

    /// How long a step may act.
    fn longest_acting(&self) -> Duration {
        match borne(self.interval, self.policy.as_ref()) {
            Interval::Fixed(interval) => interval.clamp(LONGEST_ACTING, Interval::EQUAL),
            Interval::Auto => LONGEST_ACTING,
        }
    }

    /// Takes one step: observes, inspects, decides, acts, verifies and learns.
    ///
    /// # Errors
    ///
    /// When the machine can observe nothing any more.
    pub fn step<M: Machine>(&mut self, machine: &mut M) -> Result<StepReport, M::Error> {
        self.settle(machine);
        let cpu_at_start = machine.cpu_time();
        let measures = machine.measures();
        machine.watch(&|process| self.watches(process, measures));
        let mut observation = machine.observe()?;
        self.glance(machine, &mut observation);
        observation.normalise();
        let observe_cpu = machine.cpu_time().saturating_sub(cpu_at_start);
        self.settle(machine);
        let elapsed = self.since_last_observation(machine, &observation);
        let counts = self.rhythm.counts(elapsed);
        self.failures.begin_step(&observation, counts);
        let price = self.price(machine);
        self.policy.expect(Circumstances {
            counts,
            measures,
            price,
            knows_blocks: self.prices.know_blocks(machine.now()),
        });
        let seen = observation.processes.iter().map(|seen| seen.process);
        let unwatched = seen.filter(|process| !self.watches(*process, measures));
        let unwatched: Vec<ProcessId> = unwatched.collect();
        self.tallies.begin_step(&observation);
        self.gains.begin_step(&observation);

        let acting = self.longest_acting().max(observe_cpu * LEAST_ACTING);
        let mut course = Course::begin(&observation, machine.now() + acting, price);
        self.inspect(machine, &mut observation, elapsed, &mut course.done);
        let deciding = machine.cpu_time();
        let wanted = self.policy.decide(&observation, &self.failures);
        self.tallies.want(&wanted);
        let closeups = closeup::of(&observation, &self.looked_at, &wanted, &self.failures);
        for (process, blocks) in self.policy.blocks_short() {
            course.unmet.wants_blocks(process, blocks);
        }
        let look_cpu = observe_cpu + machine.cpu_time().saturating_sub(deciding);
        self.perform(machine, &observation, wanted, &mut course);
        let measuring = self
            .rhythm
            .least_gap(look_cpu.as_secs_f64(), self.pace.idle());
        self.measure(machine, measuring, &mut course);
        self.ask_for_the_price(machine, &mut course);
        let processes: Vec<_> = observation
            .processes
            .iter()
            .map(|observed| {
                let process = observed.process;
                let counted = observation.counted(process);
                let tally = self.tallies.of(process);
                let gain = self.gains.of(process, machine.now());
                ProcessSummary::of(observed, counted, tally, gain)
            })
            .collect();
        let interval = self.rhythm.next(
            machine.now(),
            &processes,
            look_cpu.as_secs_f64(),
            self.pace.idle(),
        );
        let newly_watched = |process: ProcessId| self.watches(process, measures);
        let interval = match unwatched.into_iter().any(newly_watched) {
            // What it accesses is to be known before anything can be decided of it.
            true => interval.min(measuring.max(Interval::SHORTEST)),
            false => interval,
        };
        let observing = observe_cpu.as_secs_f64();
        let follows_at_once = course.is_cut_short && !self.rhythm.is_fixed();
        let next_interval = if follows_at_once {
            self.cpu.next_interval(Duration::ZERO, 0.0)
        } else {
            self.cpu.next_interval(interval, observing)
        };
        let Course { done, unmet, .. } = course;
        self.totals += &done;

        Ok(StepReport {
            processes,
            closeups,
            memory: observation.memory,
            actions: done,
            unmet: unmet.close(),
            observe_cpu,
            step_cpu: machine.cpu_time().saturating_sub(cpu_at_start),
            next_interval,
        })
    }

    /// Whether it is to be known what a process accesses, on a machine that `measures` gains or not.
    fn watches(&self, process: ProcessId, measures: bool) -> bool {
        !measures || self.policy.watches(process)
    }

    /// Measures what the processes that the policy waits for would gain: one at least, and no more once that has taken so `long`. The next
    /// step decides by it and follows at once, but looks at all processes again.
    fn measure<M: Machine>(&mut self, machine: &mut M, long: Duration, course: &mut Course) {
        if !machine.measures() {
            return;
        }
        let end = machine.now() + long;
        for process in self.policy.unmeasured() {
            let gain = machine.gain(process);
            self.policy.learn_gain(process, gain, machine.age(process));
            self.gains.record(process, gain, machine.now());
            course.is_cut_short = true;
            if machine.now() >= end {
                return;
            }
        }
    }

    /// What the promotion of a region costs at present.
    pub(super) fn price<M: Machine>(&self, machine: &M) -> Price {
        Price {
            copy: self.prices.now(usual_price(machine), machine.now()),
            block: self.prices.block(machine.now()),
            // What runs on an idle CPU takes nothing from anybody.
            busy: 1.0 - self.pace.idle(),
        }
    }

    /// The time since the last observation. Sets the pace by the CPUs that were idle meanwhile, to which those that the
    /// manager itself used count.
    fn since_last_observation<M: Machine>(
        &mut self,
        machine: &M,
        observation: &Observation,
    ) -> Duration {
        let (now, cpu) = (machine.now(), machine.cpu_time());
        let (then, cpu_then) = self.observed.replace((now, cpu)).unwrap_or((now, cpu));
        let elapsed = now.saturating_sub(then);
        let own = if elapsed.is_zero() {
            0.0
        } else {
            cpu.saturating_sub(cpu_then).div_duration_f64(elapsed)
        };
        self.pace
            .set_rate(observation.idle_cpus, own, self.cpu.share());
        elapsed
    }

    /// Brings the budgets up to date.
    fn settle<M: Machine>(&mut self, machine: &M) {
        let now = machine.now();
        self.cpu.settle(now, machine.cpu_time());
        self.copying.settle(now);
    }

    /// Counts the zero-filled pages of the regions that the policy names, until the part of the CPU budget for that is used.
    fn inspect<M: Machine>(
        &mut self,
        machine: &mut M,
        observation: &mut Observation,
        elapsed: Duration,
        done: &mut Totals,
    ) {
        // Nothing is borrowed for it: what is found is given back slowly, too.
        let earned = self.cpu.share() * elapsed.as_secs_f64();
        let allowed = self.cpu.left().min(earned) * INSPECTING_SHARE;
        let cpu_at_start = machine.cpu_time();
        let mut spent = 0.0;
        let mut count = 0;
        for target in self.policy.inspect(observation) {
            // What is counted says what a demotion would give back.
            let kind = ActionKind::Demote;
            if self.failures.holds(&Action { kind, target }).is_some() {
                continue;
            }
            if spent + self.costs.inspection() > allowed {
                break;
            }
            if let Some(region) = observation.region_mut(target)
                && let Some(zero_filled) = machine.count_zero_filled(target)
            {
                let zero_filled = zero_filled.min(region.mapped);
                region.zero_filled = Some(zero_filled);
                done.inspected += 1;
                done.bytes_zero_filled += u64::from(zero_filled) * BASE_PAGE_SIZE;
            }
            count += 1;
            spent = machine
                .cpu_time()
                .saturating_sub(cpu_at_start)
                .as_secs_f64();
        }
        self.costs.learn_inspections(spent, count);
        self.settle(machine);
    }
}

/// The interval as the policy bears it.
fn borne(interval: Interval, policy: &dyn Policy) -> Interval {
    match interval {
        Interval::Auto if !policy.bears_any_interval() => Interval::Fixed(Interval::EQUAL),
        interval => interval,
    }
}

/// The time whose copies may be made at once.
fn copy_burst(interval: Interval) -> Duration {
    match interval {
        Interval::Fixed(interval) => interval,
        Interval::Auto => COPY_BURST,
    }
}

/// Seconds of CPU time that the promotion of a region takes by default.
fn usual_price<M: Machine>(machine: &M) -> f64 {
    machine.promotion_seconds().unwrap_or(Price::default().copy)
}
