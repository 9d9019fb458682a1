//! The loop: observe, decide, act within budgets, verify, learn.
//!
//! What a step costs beside the machine's own work: O(regions) for the policy and for adding up the report; O(wanted) for
//! holding back what failed and lining up the rest; O(granted x log granted) for each round of a budget; O(failures) for the
//! memory of failures. `benches/step.rs` measures it over a million regions.

mod account;
mod budgets;
mod closeup;
mod costs;
mod gains;
mod interval;
mod pace;
mod prices;
mod report;
mod runs;
mod tally;
mod totals;
mod unmet;
mod waiting;
mod would;

pub use budgets::Budgets;
pub use closeup::{Closeup, RegionView, Verdict};
pub use gains::MeasuredGain;
pub use interval::Interval;
pub use report::{Covered, ProcessSummary, Rest, StepReport};
pub use tally::{LastFailure, Tally};
pub use totals::Totals;
pub use unmet::Unmet;
pub use would::{Would, would};

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::failures::{FailureMemory, Why};
use crate::gain::{Circumstances, Price};
use crate::machine::Machine;
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::BASE_PAGE_SIZE;
use crate::process::ProcessId;
use crate::promotion::Policy;
use crate::sorted;

use account::CpuAccount;
use budgets::CopyBudget;
use costs::Costs;
use gains::Gains;
use interval::Rhythm;
use pace::Pace;
use prices::Prices;
use tally::Tallies;
use unmet::Demand;
use waiting::Waiting;

/// The part of an interval's CPU time that inspections may take.
const INSPECTING_SHARE: f64 = 0.5;
/// How long a step may act before the machine is observed anew; in longer fixed intervals up to [`Interval::EQUAL`]. Looking is dear for a
/// program with much memory: it loses as much time as half a second for 4 GiB when its Accessed bits are cleared.
const LONGEST_ACTING: Duration = Duration::from_secs(2);
/// A step may always act for this many times the CPU time of its observation, so that most of the time goes into acting.
const LEAST_ACTING: u32 = 4;
/// Where the interval is not fixed, this much time's share of the copy budget can be used at once.
const COPY_BURST: Duration = Duration::from_secs(1);
/// The largest batch after a similar action failed for the same process. A failure may cost the kernel a vain compaction, or
/// the program a huge page for nothing.
const DOUBTFUL_BATCH: usize = 4;

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

/// What a step has done so far, and what it could not have.
struct Course {
    done: Totals,
    unmet: Demand,
    /// Until when it may act.
    end: Duration,
    /// Whether it ended before all was done that the budgets would have allowed.
    is_cut_short: bool,
}

impl Course {
    fn begin(observation: &Observation, end: Duration) -> Self {
        let done = Totals {
            steps: 1,
            ..Totals::default()
        };
        Course {
            done,
            unmet: Demand::new(observation),
            end,
            is_cut_short: false,
        }
    }

    /// Counts an action that is held back.
    fn hold(&mut self, action: &Action, why: Why) {
        match why {
            Why::LeftOut => return,
            Why::Failed(Cause::NoMemory) => self.unmet.lacked(action),
            Why::Failed(_) | Why::Unreported | Why::InVain => {}
        }
        self.done.backed_off += 1;
    }
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
        let mut observation = machine.observe()?;
        observation.normalise();
        let observe_cpu = machine.cpu_time().saturating_sub(cpu_at_start);
        self.settle(machine);
        let elapsed = self.since_last_observation(machine, &observation);
        let counts = self.rhythm.counts(elapsed);
        self.failures.begin_step(&observation, counts);
        self.policy.expect(Circumstances {
            counts,
            measures: machine.measures(),
            price: self.price(machine),
        });
        self.tallies.begin_step(&observation);
        self.gains.begin_step(&observation);

        let acting = self.longest_acting().max(observe_cpu * LEAST_ACTING);
        let mut course = Course::begin(&observation, machine.now() + acting);
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
        self.measure(machine, &mut course);
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
        let interval = self
            .rhythm
            .next(machine.now(), &processes, look_cpu.as_secs_f64());
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

    /// Measures what the first process that the policy waits for would gain. The next step decides by it.
    fn measure<M: Machine>(&mut self, machine: &mut M, course: &mut Course) {
        if machine.measures()
            && let Some(process) = self.policy.unmeasured().first().copied()
        {
            let gain = machine.gain(process);
            self.policy.learn_gain(process, gain);
            self.gains.record(process, gain, machine.now());
            course.is_cut_short = true;
        }
    }

    /// What the promotion of a region costs at present.
    fn price<M: Machine>(&self, machine: &M) -> Price {
        let copy = self.prices.now(usual_price(machine), machine.now());
        Price {
            standstill: copy,
            // What runs on an idle CPU takes nothing from anybody.
            cpu: copy * (1.0 - self.pace.idle()),
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
        let idle = observation.idle_cpus.map(|idle| idle + own);
        self.pace.set_rate(idle, self.cpu.share());
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

    /// Performs what is wanted, until it is done or a budget is used up. Giant pages come last: they take the
    /// most of the copy budget, and what they replace is mapped by huge pages already.
    fn perform<M: Machine>(
        &mut self,
        machine: &mut M,
        observation: &Observation,
        mut wanted: Vec<Action>,
        course: &mut Course,
    ) {
        self.hold_back(observation, &mut wanted, course);
        let mut giant = Vec::new();
        wanted.retain(|action| {
            let is_giant = action.kind == ActionKind::PromoteGiant;
            giant.extend(is_giant.then_some(*action));
            !is_giant
        });
        self.perform_rounds(machine, ActionKind::Promote, wanted, course);
        self.perform_rounds(machine, ActionKind::PromoteGiant, giant, course);
    }

    /// Performs actions round by round. Those that are promotions are all of kind `promotion`. A round is what
    /// can be paid for as far as is known, shared fairly; often it turns out to cost less.
    fn perform_rounds<M: Machine>(
        &mut self,
        machine: &mut M,
        promotion: ActionKind,
        actions: Vec<Action>,
        course: &mut Course,
    ) {
        let mut waiting = Waiting::new(actions);
        let mut cut_off = Vec::new();
        while cut_off.is_empty() && waiting.len() > 0 {
            let payable = self.costs.affordable(promotion, self.cpu.left());
            let allowed = self.copying.promotions(promotion).min(payable);
            let granted = waiting.take(allowed, &mut self.turn);
            if granted.is_empty() {
                break;
            }
            cut_off = self.act(machine, granted, course);
        }
        course.done.deferred_by_budget += count(cut_off.len() + waiting.len());
        // What the next step can pay for comes then, and finds its blocks if compaction knows of it now.
        let payable = self
            .costs
            .affordable(promotion, self.cpu.left().min(LONGEST_ACTING.as_secs_f64()));
        let next = self.copying.next_promotions(promotion).min(payable);
        let more = next.saturating_sub(cut_off.len());
        cut_off.extend(waiting.take(more, &mut self.turn.clone()));
        let promotions = cut_off.iter().filter(|action| action.kind == promotion);
        promotions
            .take(next)
            .for_each(|action| course.unmet.lacked(action));
    }

    /// Takes out of `wanted` what has to wait: what failed a while ago, and the promotion of what is swapped out. Costs
    /// O(wanted) where they come in address order for the most part.
    fn hold_back(&self, observation: &Observation, wanted: &mut Vec<Action>, course: &mut Course) {
        let mut asker = self.failures.asker();
        let mut swapped = Swapped::of(observation);
        wanted.retain(|action| {
            if let Some(why) = asker.holds(action) {
                course.hold(action, why);
                return false;
            }
            let is_swapped = action.kind == ActionKind::Promote && swapped.holds(action.target);
            course.done.held_for_swap += u64::from(is_swapped);
            !is_swapped
        });
    }

    /// Performs one round batch by batch, in its order, until it is done, the CPU budget is used up or the step's time is
    /// over. Returns what it did not come to.
    fn act<M: Machine>(
        &mut self,
        machine: &mut M,
        round: Vec<Action>,
        course: &mut Course,
    ) -> Vec<Action> {
        let mut queue = VecDeque::from(round);
        loop {
            let mut batch = self.next_batch(&mut queue, machine.now(), course);
            let Some(first) = batch.first().copied() else {
                return Vec::new();
            };
            let is_over = machine.now() >= course.end;
            if self.cpu.left() <= 0.0 || is_over {
                course.is_cut_short |= self.cpu.left() > 0.0;
                batch.extend(queue);
                return batch;
            }
            let began = (machine.now(), machine.cpu_time());
            if first.kind.is_promotion() {
                self.let_run(machine, first, batch.len());
            }
            let (acting, cpu_before) = (machine.now(), machine.cpu_time());
            let outcomes = machine.act(&batch);
            let (now, cpu) = (machine.now(), machine.cpu_time());
            let used = cpu.saturating_sub(cpu_before).as_secs_f64();
            self.costs.learn_actions(first.kind, used, batch.len());
            if first.kind == ActionKind::Promote {
                let together = (used, batch.len());
                self.prices.learn(usual_price(machine), together, now);
            }
            if first.kind.is_promotion() {
                let stood = now.saturating_sub(acting);
                self.costs
                    .learn_standstill(first.kind, stood.as_secs_f64(), batch.len());
                self.pace.stood(first.target.process, stood, now);
            }
            self.pace.worked(began.0, cpu.saturating_sub(began.1));
            self.learn(&batch, &outcomes, course);
            self.settle(machine);
        }
    }

    /// Lets programs run until the next promotions are due, and prepares those meanwhile.
    fn let_run<M: Machine>(&mut self, machine: &mut M, first: Action, promotions: usize) {
        let until = machine.now() + self.pace.wait(first.target.process, machine.now());
        if first.kind == ActionKind::Promote {
            machine.prepare(promotions);
        }
        machine.rest(until.saturating_sub(machine.now()));
    }

    /// Takes the next actions that go to the machine together: of one kind, of one process where they are promotions, and
    /// no more than can be paid for and than make a burst. Those that have to wait since an earlier batch failed are passed
    /// over. A process that has to be left to run lets others pass. Only within a batch neighbours come together: across
    /// batches the order stays the policy's, so whatever a budget cuts off is what was wanted least.
    fn next_batch(
        &mut self,
        queue: &mut VecDeque<Action>,
        now: Duration,
        course: &mut Course,
    ) -> Vec<Action> {
        let mut batch: Vec<Action> = Vec::new();
        let mut largest = 1;
        let mut place = self.first_due(queue, now);
        while let Some(action) = queue.get(place).copied() {
            // An earlier failure of this step holds back whole processes.
            if let Some(why) = self.failures.holds_all(action.target.process, action.kind) {
                queue.remove(place);
                course.hold(&action, why);
                if batch.is_empty() {
                    place = self.first_due(queue, now);
                }
                continue;
            }
            if batch.is_empty() {
                largest = self.largest_batch(action.kind);
            }
            if self.failures.is_doubtful(&action) {
                largest = largest.min(DOUBTFUL_BATCH);
            }
            let is_another = batch.first().is_some_and(|first| {
                let other_process = first.target.process != action.target.process;
                first.kind != action.kind || (action.kind.is_promotion() && other_process)
            });
            if batch.len() >= largest || is_another {
                break;
            }
            queue.remove(place);
            batch.push(action);
        }
        runs::join(&batch)
    }

    /// The place in the queue of the first action that need not wait for its process to have run; the first of all where
    /// each has to.
    fn first_due(&self, queue: &VecDeque<Action>, now: Duration) -> usize {
        let mut resting: Option<ProcessId> = None;
        let is_due = |action: &Action| {
            let process = action.target.process;
            if !action.kind.is_promotion() {
                return true;
            }
            if resting != Some(process) {
                resting = (!self.pace.is_rested(process, now)).then_some(process);
            }
            resting.is_none()
        };
        queue.iter().position(is_due).unwrap_or(0)
    }

    /// How many actions the machine may get at once.
    fn largest_batch(&self, kind: ActionKind) -> usize {
        let largest = self.costs.batch(kind, self.cpu.left());
        match self.costs.standstill(kind).filter(|_| kind.is_promotion()) {
            Some(each) => largest.min(self.pace.burst(each)),
            None => largest,
        }
    }

    /// Whether a demotion that was to give something back did not; `None` where it was for something else, was not
    /// done, or nobody saw what was resident.
    fn was_in_vain(&self, action: &Action, outcome: Option<Outcome>) -> Option<bool> {
        let Some(Outcome::Done {
            resident_before,
            resident_after,
        }) = outcome
        else {
            return None;
        };
        let is_for_memory = action.kind == ActionKind::Demote && self.policy.demotes_to_give_back();
        (is_for_memory && resident_before > 0).then_some(resident_after >= resident_before)
    }

    /// Counts what came of a batch, and tells the policy and the memory of failures. Actions without an outcome
    /// were perhaps done and perhaps not: the next observation will tell.
    fn learn(&mut self, batch: &[Action], outcomes: &[Outcome], course: &mut Course) {
        for (index, action) in batch.iter().enumerate() {
            let outcome = outcomes.get(index).copied();
            self.failures.record(action, outcome);
            if let Some(in_vain) = self.was_in_vain(action, outcome) {
                self.failures.record_demotion(action, in_vain);
            }
            if action.kind.is_promotion() {
                self.copying.charge(copied(action, outcome));
            }
            match outcome {
                Some(outcome) => {
                    match outcome {
                        Outcome::Done { .. } => course.unmet.took(action),
                        Outcome::Failed(Cause::NoMemory) => course.unmet.lacked(action),
                        _ => {}
                    }
                    course.done.record(action.kind, outcome);
                    self.tallies.record(action, outcome, self.totals.steps);
                    self.policy.learn(action, outcome);
                }
                None => course.done.unreported += 1,
            }
        }
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

/// Which regions are swapped out in part.
struct Swapped<'a> {
    /// The processes that have such regions, and where the last search in each ended.
    processes: Vec<(&'a ProcessObservation, usize)>,
    last: usize,
}

impl<'a> Swapped<'a> {
    fn of(observation: &'a Observation) -> Self {
        let has_some = |process: &&ProcessObservation| {
            let mut regions = process.regions.iter();
            regions.any(|region| region.swapped > 0)
        };
        let processes = observation.processes.iter().filter(has_some);
        Swapped {
            processes: processes.map(|process| (process, 0)).collect(),
            last: 0,
        }
    }

    fn holds(&mut self, target: RegionRef) -> bool {
        let key = |(process, _): &(&ProcessObservation, usize)| process.process;
        let place = sorted::find(&self.processes, &mut self.last, &target.process, key);
        let Some((process, near)) = place.and_then(|place| self.processes.get_mut(place)) else {
            return false;
        };
        let key = |region: &RegionObservation| region.region;
        let region = sorted::find(&process.regions, near, &target.region, key);
        region.is_some_and(|region| process.regions[region].swapped > 0)
    }
}

/// Seconds of CPU time that the promotion of a region takes by default.
fn usual_price<M: Machine>(machine: &M) -> f64 {
    machine.promotion_seconds().unwrap_or(Price::default().cpu)
}

/// Bytes that a promotion is charged for: all that it can have copied, where it does not say.
fn copied(promotion: &Action, outcome: Option<Outcome>) -> u64 {
    match outcome {
        Some(Outcome::AlreadySo) => 0,
        Some(Outcome::Remapped { copied }) => copied,
        _ => promotion.kind.page_size().bytes(),
    }
}

fn count(number: usize) -> u64 {
    number as u64
}
