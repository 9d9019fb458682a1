//! Acting on what the policy wants: within budgets, batch by batch, learning from each.

use std::collections::VecDeque;
use std::time::Duration;

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::machine::Machine;
use crate::observation::Observation;
use crate::process::ProcessId;

use super::course::Course;
use super::swapped::Swapped;
use super::waiting::Waiting;
use super::{Engine, LONGEST_ACTING, runs, usual_price};

/// The largest batch after a similar action failed for the same process. A failure may cost the kernel a vain compaction, or
/// the program a huge page for nothing.
const DOUBTFUL_BATCH: usize = 4;
/// The largest first batch of promotions of a step; each that follows may be twice as large. A few free blocks may be backed where
/// those behind are not, which makes promotions ten times as dear: that shows before many are made.
const FIRST_PROMOTIONS: usize = 4;

impl Engine {
    /// Performs what is wanted, until it is done or a budget is used up. Giant pages come last: they take the
    /// most of the copy budget, and what they replace is mapped by huge pages already.
    pub(super) fn perform<M: Machine>(
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
    /// over; or until promotions turn out dearer than the policy could know. Returns what it did not come to.
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
            let is_dearer = !self.rhythm.is_fixed()
                && first.kind == ActionKind::Promote
                && self.price(machine).is_dearer_than(&course.price);
            let is_over = machine.now() >= course.end || is_dearer;
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
                course.batches += 1;
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
            self.prepare(machine, promotions);
        }
        machine.rest(until.saturating_sub(machine.now()));
    }

    /// Prepares the first few promotions where the policy waits to know what that takes. It decides anew at once.
    pub(super) fn ask_for_the_price<M: Machine>(&mut self, machine: &mut M, course: &mut Course) {
        if self.policy.asks_for_price() && !self.prices.know_blocks(machine.now()) {
            self.prepare(machine, FIRST_PROMOTIONS);
            course.is_cut_short = true;
        }
    }

    /// Prepares the blocks of promotions, and learns what that takes.
    fn prepare<M: Machine>(&mut self, machine: &mut M, promotions: usize) {
        let before = machine.cpu_time();
        machine.prepare(promotions);
        let used = machine.cpu_time().saturating_sub(before);
        self.prices
            .learn_blocks((used.as_secs_f64(), promotions), machine.now());
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
                largest = self.largest_batch(action.kind, course.batches);
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

    /// How many actions the machine may get at once, after so many batches of promotions in this step.
    fn largest_batch(&self, kind: ActionKind, batches: u32) -> usize {
        let mut largest = self.costs.batch(kind, self.cpu.left());
        if kind.is_promotion() {
            let burst =
                (self.costs.standstill(kind)).map_or(usize::MAX, |each| self.pace.burst(each));
            largest = largest
                .min(burst)
                .min(FIRST_PROMOTIONS.saturating_mul(2_usize.saturating_pow(batches)));
        }
        largest
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

/// Bytes that a promotion is charged for: all that it can have copied, where it does not say.
fn copied(promotion: &Action, outcome: Option<Outcome>) -> u64 {
    match outcome {
        Some(Outcome::AlreadySo) => 0,
        Some(Outcome::Remapped { copied, .. }) => copied,
        _ => promotion.kind.page_size().bytes(),
    }
}

fn count(number: usize) -> u64 {
    number as u64
}
