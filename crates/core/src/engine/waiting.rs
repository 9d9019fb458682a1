//! The actions that wait, and how the engine divides a budget that does not suffice for all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::action::Action;
use crate::process::ProcessId;
use crate::sorted;

/// The actions of one step that are still to be performed. Each has its rank: its place in the policy's order.
///
/// Building it costs O(actions). Each [`Waiting::take`] costs O(granted x log granted + processes), however many
/// actions wait.
#[derive(Debug)]
pub(super) struct Waiting {
    by_rank: Vec<Action>,
    /// The promotions of each process, by process.
    promotions: Vec<(ProcessId, Queue)>,
    /// What is no promotion, and so takes no copy budget.
    others: Queue,
}

/// Ranks, best first; those before `next` are taken.
#[derive(Debug, Default)]
struct Queue {
    ranks: Vec<u32>,
    next: usize,
}

impl Queue {
    fn len(&self) -> usize {
        self.ranks.len() - self.next
    }

    fn first(&self) -> Option<u32> {
        self.ranks.get(self.next).copied()
    }

    fn take(&mut self, count: usize, granted: &mut Vec<u32>) {
        let end = self.ranks.len().min(self.next.saturating_add(count));
        granted.extend_from_slice(&self.ranks[self.next..end]);
        self.next = end;
    }
}

impl Waiting {
    /// Lines up `actions`, which are in the policy's order: the first 2^32 of them, more than any machine has regions.
    pub(super) fn new(mut actions: Vec<Action>) -> Self {
        actions.truncate(u32::MAX as usize);
        let mut promotions: Vec<(ProcessId, Queue)> = Vec::new();
        let mut others = Queue::default();
        let mut near = 0;
        for (rank, action) in (0_u32..).zip(&actions) {
            let queue = if action.kind.is_promotion() {
                sorted::entry(&mut promotions, &mut near, action.target.process)
            } else {
                &mut others
            };
            queue.ranks.push(rank);
        }
        Waiting {
            by_rank: actions,
            promotions,
            others,
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        let promotions: usize = self.promotions.iter().map(|(_, queue)| queue.len()).sum();
        promotions + self.others.len()
    }

    /// Takes `allowed` promotions, and everything else, in the policy's order; the rest goes on waiting.
    ///
    /// Each process that wants promotions gets at least its equal part of those allowed. What processes with
    /// smaller wishes leave over goes by the policy's order. What cannot be divided, or is less than one for
    /// each, they take in turns: `turn` is where the last round ended.
    pub(super) fn take(&mut self, allowed: usize, turn: &mut usize) -> Vec<Action> {
        let mut granted = Vec::new();
        self.others.take(usize::MAX, &mut granted);
        let wished: usize = self.promotions.iter().map(|(_, queue)| queue.len()).sum();
        if wished <= allowed {
            for (_, queue) in &mut self.promotions {
                queue.take(usize::MAX, &mut granted);
            }
        } else {
            self.share(allowed, turn, &mut granted);
        }
        granted.sort_unstable();
        granted
            .iter()
            .map(|rank| self.by_rank[*rank as usize])
            .collect()
    }

    /// Grants `allowed` promotions, fewer than are wished.
    fn share(&mut self, allowed: usize, turn: &mut usize, granted: &mut Vec<u32>) {
        let mut left = allowed;
        for (queue, sure) in self.assured(allowed, turn) {
            left -= sure;
            self.promotions[queue].1.take(sure, granted);
        }
        let firsts = self.promotions.iter().enumerate();
        let mut next: BinaryHeap<Reverse<(u32, usize)>> = firsts
            .filter_map(|(index, (_, queue))| Some(Reverse((queue.first()?, index))))
            .collect();
        while left > 0
            && let Some(Reverse((_, index))) = next.pop()
        {
            let queue = &mut self.promotions[index].1;
            queue.take(1, granted);
            left -= 1;
            next.extend(queue.first().map(|rank| Reverse((rank, index))));
        }
    }

    /// The promotions that each queue is sure to get: an equal part, and of what that leaves one each in turn.
    fn assured(&self, allowed: usize, turn: &mut usize) -> Vec<(usize, usize)> {
        let wishes = self.promotions.iter().enumerate();
        let wishes: Vec<(usize, usize)> = wishes
            .map(|(index, (_, queue))| (index, queue.len()))
            .filter(|(_, wish)| *wish > 0)
            .collect();
        let (equal, rest) = (allowed / wishes.len(), allowed % wishes.len());
        let first = *turn % wishes.len();
        *turn = first + rest;
        let in_turn = wishes.iter().cycle().skip(first).take(wishes.len());
        let sure = |(place, (index, wish)): (usize, &(usize, usize))| {
            let one_more = usize::from(place < rest);
            (*index, (*wish).min(equal + one_more))
        };
        in_turn.enumerate().map(sure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ActionKind;
    use crate::observation::RegionRef;
    use crate::page::{HUGE_PAGE_SIZE, Region};

    fn promotions(wishes: &[(u32, u64)]) -> Vec<Action> {
        wishes
            .iter()
            .flat_map(|(pid, count)| {
                (0..*count).map(|index| Action {
                    kind: ActionKind::Promote,
                    target: RegionRef {
                        process: ProcessId {
                            pid: *pid,
                            start_time: 0,
                        },
                        region: Region::containing(index * HUGE_PAGE_SIZE),
                    },
                })
            })
            .collect()
    }

    fn granted(actions: &[Action], pid: u32) -> usize {
        actions
            .iter()
            .filter(|action| action.target.process.pid == pid)
            .count()
    }

    #[test]
    fn the_last_in_order_gets_its_equal_part() {
        let mut waiting = Waiting::new(promotions(&[(1, 100), (2, 100), (3, 2)]));
        let taken = waiting.take(30, &mut 0);
        // 10 each; the 8 that process 3 does not want go to the first in the policy's order.
        assert_eq!([1, 2, 3].map(|pid| granted(&taken, pid)), [18, 10, 2]);
        let rest = waiting.take(usize::MAX, &mut 0);
        assert_eq!([1, 2, 3].map(|pid| granted(&rest, pid)), [82, 90, 0]);
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn enough_for_all_keeps_the_order() {
        let wanted = promotions(&[(1, 3), (2, 4)]);
        let mut waiting = Waiting::new(wanted.clone());
        assert_eq!(waiting.take(7, &mut 0), wanted);
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn what_is_granted_is_the_best_of_each_process_in_order() {
        let mut wanted = promotions(&[(1, 6), (2, 6)]);
        wanted.reverse();
        let taken = Waiting::new(wanted.clone()).take(4, &mut 0);
        assert_eq!(taken, [wanted[0], wanted[1], wanted[6], wanted[7]]);
    }

    #[test]
    fn what_cannot_be_divided_is_taken_in_turns() {
        for (allowed, each) in [(2, 4), (7, 14)] {
            let mut turn = 0;
            let mut got = [0; 5];
            for _ in 0..10 {
                let wanted = promotions(&[(0, 9), (1, 9), (2, 9), (3, 9), (4, 9)]);
                let mut waiting = Waiting::new(wanted);
                for action in waiting.take(allowed, &mut turn) {
                    got[action.target.process.pid as usize] += 1;
                }
                assert_eq!(waiting.len(), 45 - allowed);
            }
            assert_eq!(got, [each; 5]);
        }
    }

    #[test]
    fn demotions_need_no_copy_budget() {
        let mut wanted = promotions(&[(1, 4)]);
        for action in wanted.iter_mut().skip(1) {
            action.kind = ActionKind::Demote;
        }
        let mut waiting = Waiting::new(wanted);
        assert_eq!(waiting.take(0, &mut 0).len(), 3);
        assert_eq!(waiting.len(), 1);
    }
}
