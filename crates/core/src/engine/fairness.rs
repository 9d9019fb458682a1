//! Who gets how much of a copy budget that is not enough for all.

use std::collections::BTreeMap;

use crate::action::Action;
use crate::process::ProcessId;

/// Takes `allowed` promotions, and every demotion, out of `waiting`, in their order; the rest stays
/// there.
///
/// Each process that wants promotions gets at least its equal part of those allowed; what processes with
/// smaller wishes leave over goes by the policy's order. What cannot be divided, or is less than one for
/// each, they take in turns: `turn` is where the last round ended.
pub(super) fn take(waiting: &mut Vec<Action>, allowed: usize, turn: &mut usize) -> Vec<Action> {
    let mut wishes: BTreeMap<ProcessId, usize> = BTreeMap::new();
    for action in waiting.iter().filter(|action| action.kind.is_promotion()) {
        *wishes.entry(action.target.process).or_default() += 1;
    }
    if wishes.values().sum::<usize>() <= allowed {
        return std::mem::take(waiting);
    }
    let mut assured = assured(&wishes, allowed, turn);
    let mut left_over = allowed - assured.values().sum::<usize>();
    let (taken, rest) = std::mem::take(waiting).into_iter().partition(|action| {
        if !action.kind.is_promotion() {
            return true;
        }
        if let Some(assured) = assured.get_mut(&action.target.process)
            && *assured > 0
        {
            *assured -= 1;
            return true;
        }
        let lucky = left_over > 0;
        left_over -= usize::from(lucky);
        lucky
    });
    *waiting = rest;
    taken
}

/// The promotions that each process is sure to get: an equal part, and of what that leaves one each in
/// turn.
fn assured(
    wishes: &BTreeMap<ProcessId, usize>,
    allowed: usize,
    turn: &mut usize,
) -> BTreeMap<ProcessId, usize> {
    let (equal, rest) = (allowed / wishes.len(), allowed % wishes.len());
    let mut assured: BTreeMap<ProcessId, usize> = wishes
        .iter()
        .map(|(process, wish)| (*process, equal.min(*wish)))
        .collect();
    let first = *turn % wishes.len();
    *turn = first + rest;
    for (process, wish) in wishes.iter().cycle().skip(first).take(rest) {
        if *wish > equal
            && let Some(assured) = assured.get_mut(process)
        {
            *assured += 1;
        }
    }
    assured
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
        let mut waiting = promotions(&[(1, 100), (2, 100), (3, 2)]);
        let taken = take(&mut waiting, 30, &mut 0);
        // 10 each; the 8 that process 3 does not want go to the first in the policy's order.
        assert_eq!([1, 2, 3].map(|pid| granted(&taken, pid)), [18, 10, 2]);
        assert_eq!([1, 2, 3].map(|pid| granted(&waiting, pid)), [82, 90, 0]);
    }

    #[test]
    fn enough_for_all_keeps_the_order() {
        let mut waiting = promotions(&[(1, 3), (2, 4)]);
        let before = waiting.clone();
        assert_eq!(take(&mut waiting, 7, &mut 0), before);
        assert_eq!(waiting, []);
    }

    #[test]
    fn what_cannot_be_divided_is_taken_in_turns() {
        for (allowed, each) in [(2, 4), (7, 14)] {
            let mut turn = 0;
            let mut got = [0; 5];
            for _ in 0..10 {
                let mut waiting = promotions(&[(0, 9), (1, 9), (2, 9), (3, 9), (4, 9)]);
                for action in take(&mut waiting, allowed, &mut turn) {
                    got[action.target.process.pid as usize] += 1;
                }
                assert_eq!(waiting.len(), 45 - allowed);
            }
            assert_eq!(got, [each; 5]);
        }
    }

    #[test]
    fn demotions_need_no_copy_budget() {
        let mut waiting = promotions(&[(1, 4)]);
        for action in waiting.iter_mut().skip(1) {
            action.kind = ActionKind::Demote;
        }
        assert_eq!(take(&mut waiting, 0, &mut 0).len(), 3);
        assert_eq!(waiting.len(), 1);
    }
}
