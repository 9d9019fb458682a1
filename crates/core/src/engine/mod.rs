//! The loop: observe, decide, act within budgets, verify, learn.

mod budgets;
mod costs;
mod report;
mod runs;
mod totals;
mod waiting;
mod would;

pub use budgets::Budgets;
pub use report::{ProcessSummary, StepReport};
pub use totals::{Failures, Totals};
pub use would::{Would, would};

use std::collections::VecDeque;
use std::time::Duration;

use crate::action::{Action, ActionKind, Outcome};
use crate::failures::{FailureMemory, Why};
use crate::machine::Machine;
use crate::observation::Observation;
use crate::policy::Policy;

use budgets::{CopyBudget, CpuBudget};
use costs::Costs;
use waiting::Waiting;

/// The part of the CPU time left after observing that inspections may take.
const INSPECTING_SHARE: f64 = 0.5;
/// The most actions that the machine gets at once for a process of which the like failed when it was last tried: a
/// failure may cost the kernel a vain compaction, or the program a huge page for nothing.
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
        }
    }

    /// What was done since the start.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
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

        let mut done = Totals {
            steps: 1,
            ..Totals::default()
        };
        self.inspect(machine, &mut observation, &mut done);
        let wanted = self.policy.decide(&observation, &self.failures);
        self.perform(machine, wanted, &mut done);
        self.totals += &done;

        Ok(StepReport {
            processes: observation
                .processes
                .iter()
                .map(ProcessSummary::of)
                .collect(),
            memory: observation.memory,
            actions: done,
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
                region.zero_filled = Some(zero_filled.min(region.mapped));
                done.inspected += 1;
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
    fn perform<M: Machine>(&mut self, machine: &mut M, wanted: Vec<Action>, done: &mut Totals) {
        let (giant, rest) = self
            .ready(wanted, done)
            .into_iter()
            .partition(|action| action.kind == ActionKind::PromoteGiant);
        self.perform_rounds(machine, ActionKind::Promote, rest, done);
        self.perform_rounds(machine, ActionKind::PromoteGiant, giant, done);
    }

    /// Performs actions of which the promotions are all of kind `promotion`, round by round. A round is what
    /// can be paid for as far as is known, shared fairly; often it turns out to cost less.
    fn perform_rounds<M: Machine>(
        &mut self,
        machine: &mut M,
        promotion: ActionKind,
        actions: Vec<Action>,
        done: &mut Totals,
    ) {
        let mut waiting = Waiting::new(actions);
        while waiting.len() > 0 {
            let payable = self.costs.affordable(promotion, self.cpu.left());
            let allowed = self.copying.promotions(promotion).min(payable);
            let granted = waiting.take(allowed, &mut self.turn);
            let complete = !granted.is_empty() && self.act(machine, granted, done);
            if !complete {
                break;
            }
        }
        done.deferred_by_budget += count(waiting.len());
    }

    /// The wanted actions that need not wait, in their order.
    fn ready(&self, mut wanted: Vec<Action>, done: &mut Totals) -> Vec<Action> {
        let mut asker = self.failures.asker();
        wanted.retain(|action| match asker.holds(action) {
            None => true,
            Some(Why::LeftOut) => false,
            Some(_) => {
                done.backed_off += 1;
                false
            }
        });
        wanted
    }

    /// Performs one round batch by batch, in its order; whether it could before the CPU budget was used up.
    fn act<M: Machine>(&mut self, machine: &mut M, round: Vec<Action>, done: &mut Totals) -> bool {
        let mut queue = VecDeque::from(round);
        loop {
            let batch = self.next_batch(&mut queue, done);
            let Some(first) = batch.first() else {
                return true;
            };
            if self.cpu.left() <= 0.0 {
                done.deferred_by_budget += count(batch.len() + queue.len());
                return false;
            }
            let kind = first.kind;
            let cpu_before = machine.cpu_time();
            let outcomes = machine.act(&batch);
            let used = machine.cpu_time().saturating_sub(cpu_before).as_secs_f64();
            self.costs.learn_actions(kind, used, batch.len());
            self.learn(&batch, &outcomes, done);
            self.settle(machine);
        }
    }

    /// Takes the next actions that go to the machine together: of one kind, and no more than can be
    /// paid for. Those that have to wait since an earlier batch failed are passed over. Only within a batch
    /// neighbours come together: across batches the order stays the policy's, so whatever a budget cuts off is
    /// what was wanted least.
    fn next_batch(&mut self, queue: &mut VecDeque<Action>, done: &mut Totals) -> Vec<Action> {
        let mut batch: Vec<Action> = Vec::new();
        let mut largest = 1;
        while let Some(action) = queue.front().copied() {
            if self.is_held_by_now(&action) {
                queue.pop_front();
                done.backed_off += 1;
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

    /// Whether an earlier failure of this step holds it back: those hold whole processes.
    fn is_held_by_now(&self, action: &Action) -> bool {
        let held = self.failures.holds_all(action.target.process, action.kind);
        held.is_some()
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
    fn learn(&mut self, batch: &[Action], outcomes: &[Outcome], done: &mut Totals) {
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
                    done.record(action.kind, outcome);
                    self.policy.learn(action, outcome);
                }
                None => done.unreported += 1,
            }
        }
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
