//! Runs of neighbours that can share one system call.

use crate::action::Action;

/// Brings actions of one kind on neighbouring regions, or spans, of one process together, in address order. A run
/// of neighbours takes the place of its most wanted member.
pub(super) fn join(wanted: &[Action]) -> Vec<Action> {
    let mut by_address: Vec<(usize, Action)> = wanted.iter().copied().enumerate().collect();
    by_address.sort_by_key(|(_, action)| (action.kind, action.target));
    by_address.dedup_by_key(|(_, action)| (action.kind, action.target));
    let mut runs: Vec<&[(usize, Action)]> = by_address
        .chunk_by(|(_, left), (_, right)| are_neighbours(left, right))
        .collect();
    runs.sort_by_key(|run| run.iter().map(|(rank, _)| *rank).min());
    runs.into_iter()
        .flatten()
        .map(|(_, action)| *action)
        .collect()
}

fn are_neighbours(left: &Action, right: &Action) -> bool {
    left.kind == right.kind
        && left.target.process == right.target.process
        && left.end() == right.target.region.start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ActionKind;
    use crate::observation::RegionRef;
    use crate::page::{HUGE_PAGE_SIZE, Region};
    use crate::process::ProcessId;

    fn promote(pid: u32, index: u64) -> Action {
        let process = ProcessId { pid, start_time: 0 };
        let region = Region::containing(index * HUGE_PAGE_SIZE);
        Action {
            kind: ActionKind::Promote,
            target: RegionRef { process, region },
        }
    }

    #[test]
    fn a_run_takes_the_place_of_its_most_wanted_member() {
        let wanted = [
            promote(1, 7),
            promote(2, 3),
            promote(1, 9),
            promote(1, 8),
            promote(1, 4),
        ];
        let joined = [
            promote(1, 7),
            promote(1, 8),
            promote(1, 9),
            promote(2, 3),
            promote(1, 4),
        ];
        assert_eq!(join(&wanted), joined);
    }

    #[test]
    fn neighbours_of_another_kind_or_process_stay_apart() {
        let demote = Action {
            kind: ActionKind::Demote,
            ..promote(1, 1)
        };
        let wanted = [promote(1, 2), demote, promote(2, 3), promote(1, 0)];
        assert_eq!(join(&wanted), wanted);
    }

    #[test]
    fn neighbouring_spans_come_together() {
        let giant = |index: u64| Action {
            kind: ActionKind::PromoteGiant,
            ..promote(1, index * 512)
        };
        let wanted = [giant(2), promote(1, 1), giant(1)];
        assert_eq!(join(&wanted), [giant(1), giant(2), promote(1, 1)]);
    }

    #[test]
    fn an_action_wanted_twice_is_done_once() {
        assert_eq!(join(&[promote(1, 1), promote(1, 1)]), [promote(1, 1)]);
    }
}
