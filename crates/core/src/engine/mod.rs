//! The loop: observe, decide, act within budgets, verify, learn.
//!
//! What a step costs beside the machine's own work: O(regions) for the policy and for adding up the report; O(wanted) for
//! holding back what failed and lining up the rest; O(granted x log granted) for each round of a budget; O(failures) for the
//! memory of failures. `benches/step.rs` measures it over a million regions.

mod budgets;
mod closeup;
mod costs;
mod report;
mod runs;
mod tally;
mod totals;
mod unmet;
mod waiting;
mod would;

pub use budgets::Budgets;
pub use closeup::{Closeup, RegionView, Verdict};
pub use report::{ProcessSummary, StepReport};
pub use tally::{LastFailure, Tally};
pub use totals::Totals;
pub use unmet::Unmet;
pub use would::{Would, would};

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::failures::{FailureMemory, Why};
use crate::machine::Machine;
use crate::observation::{Observation, ProcessObservation, RegionObservation, RegionRef};
use crate::page::BASE_PAGE_SIZE;
use crate::promotion::Policy;
use crate::sorted;

use budgets::{CopyBudget, CpuBudget};
use costs::Costs;
use tally::Tallies;
use unmet::Ledger;
use waiting::Waiting;

/// The part of the CPU time left after observing that inspections may take.
const INSPECTING_SHARE: f64 = 0.5;
/// The most actions that the machine gets at once after the like failed for the same process. A failure may cost the
/// kernel a vain compaction, or the program a huge page for nothing.
const DOUBTFUL_BATCH: usize = 4;

/// Runs a policy on a machine, within budgets.
pub struct Engine {
    policy: Box<dyn Policy>,
    budgets: Budgets,
    interval: Duration,
    cpu: CpuBudget,
    copying: CopyBudget,
    costs: Costs,
    failures: FailureMemory,
    /// Whose turn it is when the copy budget has less than one promotion for each process.
    turn: usize,
    totals: Totals,
    tallies: Tallies,
    /// The pids that somebody looks closely at.
    looked_at: BTreeSet<u32>,
}

/// What a step has done so far, and what it could not have.
struct Course {
    done: Totals,
    unmet: Ledger,
}

impl Course {
    fn begin(observation: &Observation) -> Self {
        let done = Totals {
            steps: 1,
            ..Totals::default()
        };
        Course {
            done,
            unmet: Ledger::new(observation),
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
    pub fn new(policy: Box<dyn Policy>, budgets: Budgets, interval: Duration) -> Self {
        Engine {
            policy,
            budgets,
            interval,
            cpu: CpuBudget::new(budgets.cpu_share, interval),
            copying: CopyBudget::new(budgets.copy_bytes_per_second, interval),
            costs: Costs::default(),
            failures: FailureMemory::default(),
            turn: 0,
            totals: Totals::default(),
            tallies: Tallies::default(),
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
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Lets another policy decide from now on. It starts without memory; totals, failures and what
    /// things cost stay.
    pub fn replace_policy(&mut self, policy: Box<dyn Policy>) {
        self.policy = policy;
    }

    /// Changes the budgets. What was overdrawn stays so.
    pub fn set_budgets(&mut self, budgets: Budgets) {
        self.budgets = budgets;
        self.apply_budgets();
    }

    /// Changes the interval.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        self.apply_budgets();
    }

    fn apply_budgets(&mut self) {
        self.cpu.set(self.budgets.cpu_share, self.interval);
        self.copying
            .set(self.budgets.copy_bytes_per_second, self.interval);
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
        self.failures.begin_step(&observation);
        self.tallies.begin_step(&observation);

        let mut course = Course::begin(&observation);
        self.inspect(machine, &mut observation, &mut course.done);
        let wanted = self.policy.decide(&observation, &self.failures);
        self.tallies.want(&wanted);
        let closeups = closeup::of(&observation, &self.looked_at, &wanted, &self.failures);
        for (process, blocks) in self.policy.blocks_short() {
            course.unmet.wants_blocks(process, blocks);
        }
        self.perform(machine, &observation, wanted, &mut course);
        let Course { done, unmet } = course;
        self.totals += &done;

        Ok(StepReport {
            processes: observation
                .processes
                .iter()
                .map(|observed| ProcessSummary::of(observed, self.tallies.of(observed.process)))
                .collect(),
            closeups,
            memory: observation.memory,
            actions: done,
            unmet: unmet.close(),
            observe_cpu,
            step_cpu: machine.cpu_time().saturating_sub(cpu_at_start),
            next_interval: self.cpu.next_interval(observe_cpu.as_secs_f64()),
        })
    }

    /// Brings the budgets up to date.
    fn settle<M: Machine>(&mut self, machine: &M) {
        let now = machine.now();
        self.cpu.settle(now, machine.cpu_time());
        self.copying.settle(now);
    }

    /// Has as many of the policy's regions looked into as their part of the CPU budget allows.
    fn inspect<M: Machine>(
        &mut self,
        machine: &mut M,
        observation: &mut Observation,
        done: &mut Totals,
    ) {
        let allowed = self.cpu.left() * INSPECTING_SHARE;
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
        let payable = self.costs.affordable(promotion, self.cpu.next());
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

    /// Performs one round batch by batch, in its order, until it is done or the CPU budget is used up. Returns what it did
    /// not come to.
    fn act<M: Machine>(
        &mut self,
        machine: &mut M,
        round: Vec<Action>,
        course: &mut Course,
    ) -> Vec<Action> {
        let mut queue = VecDeque::from(round);
        loop {
            let mut batch = self.next_batch(&mut queue, course);
            let Some(first) = batch.first() else {
                return Vec::new();
            };
            if self.cpu.left() <= 0.0 {
                batch.extend(queue);
                return batch;
            }
            let kind = first.kind;
            let cpu_before = machine.cpu_time();
            let outcomes = machine.act(&batch);
            let used = machine.cpu_time().saturating_sub(cpu_before).as_secs_f64();
            self.costs.learn_actions(kind, used, batch.len());
            self.learn(&batch, &outcomes, course);
            self.settle(machine);
        }
    }

    /// Takes the next actions that go to the machine together: of one kind, and no more than can be
    /// paid for. Those that have to wait since an earlier batch failed are passed over. Only within a batch
    /// neighbours come together: across batches the order stays the policy's, so whatever a budget cuts off is
    /// what was wanted least.
    fn next_batch(&mut self, queue: &mut VecDeque<Action>, course: &mut Course) -> Vec<Action> {
        let mut batch: Vec<Action> = Vec::new();
        let mut largest = 1;
        while let Some(action) = queue.front().copied() {
            // An earlier failure of this step holds back whole processes.
            if let Some(why) = self.failures.holds_all(action.target.process, action.kind) {
                queue.pop_front();
                course.hold(&action, why);
                continue;
            }
            if batch.is_empty() {
                largest = self.costs.batch(action.kind, self.cpu.left());
            }
            if self.failures.is_doubtful(&action) {
                largest = largest.min(DOUBTFUL_BATCH);
            }
            let another_kind = batch.first().is_some_and(|first| first.kind != action.kind);
            if batch.len() >= largest || another_kind {
                break;
            }
            queue.pop_front();
            batch.push(action);
        }
        runs::join(&batch)
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
