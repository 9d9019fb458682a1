//! `adaptive` weighs processes and page sizes against each other in one unit, CPU time.

use std::time::Duration;

use mega_core::worth::Estimate;
use mega_core::{
    Action, ActionKind, Circumstances, FailureMemory, Gain, HUGE_PAGE_SIZE, MemoryObservation,
    Observation, Policy,
};

use crate::observations::{
    PLENTY, base, huge, observation, policy, process, seen, target, with_giant_pages,
};
use crate::tiny_machine::certain;

const HOUR: Duration = Duration::from_secs(3600);

/// `adaptive` on a machine that can measure; each process gains what is said, and has lived for an hour.
fn settled(observed: &Observation, gain: impl Fn(u32) -> Gain) -> Box<dyn Policy> {
    let mut adaptive = policy("adaptive", &[]);
    for _ in 0..5 {
        decide(&mut *adaptive, observed);
        for asked in adaptive.unmeasured() {
            adaptive.learn_gain(asked, Some(gain(asked.pid)), HOUR);
        }
    }
    adaptive
}

fn decide(adaptive: &mut dyn Policy, observed: &Observation) -> Vec<Action> {
    adaptive.expect(Circumstances {
        measures: true,
        ..Circumstances::default()
    });
    adaptive.decide(observed, &FailureMemory::default())
}

fn two_programs(memory: MemoryObservation) -> Observation {
    let regions: Vec<_> = (0..100).map(|index| base(index, 512, 512)).collect();
    observation(memory, &[(1, regions.clone()), (2, regions)])
}

fn of_second(action: &Action) -> bool {
    action.target.process == process(2)
}

#[test]
fn what_saves_more_time_goes_first() {
    let observed = two_programs(PLENTY);
    let mut adaptive = settled(&observed, |pid| certain(0.05 * f64::from(pid), 1.0));
    let decided = decide(&mut *adaptive, &observed);
    assert_eq!(decided.len(), 200);
    assert!(decided[..100].iter().all(of_second));
}

#[test]
fn the_last_blocks_are_for_whom_they_save_most() {
    let few = MemoryObservation {
        contiguity: 10 * HUGE_PAGE_SIZE,
        ..PLENTY
    };
    let observed = two_programs(few);
    // The first gains 1 ms for each region, which pays for a copy of 0.6 ms and not for two more, by which a block is made.
    let mut adaptive = settled(&observed, |pid| {
        certain(if pid == 2 { 0.4 } else { 1.7e-4 }, 1.0)
    });
    let decided = decide(&mut *adaptive, &observed);
    assert!(decided.len() >= 10 && decided.iter().all(of_second));
    let short = adaptive.blocks_short();
    assert!(
        short
            .iter()
            .any(|(id, blocks)| *id == process(1) && *blocks > 0)
    );
}

#[test]
fn a_sparse_region_of_a_program_that_gains_much_is_worth_a_copy_and_a_full_one_of_another_is_not() {
    let regions = |used| (0..100).map(|index| base(index, 512, used)).collect();
    let observed = observation(PLENTY, &[(1, regions(512)), (2, regions(40))]);
    let mut adaptive = settled(&observed, |pid| {
        certain(if pid == 2 { 0.3 } else { 5e-5 }, 1.0)
    });
    let decided = decide(&mut *adaptive, &observed);
    assert_eq!(decided.len(), 100);
    assert!(decided.iter().all(of_second));
}

#[test]
fn a_giant_page_is_made_where_huge_pages_still_cost_enough() {
    let regions = (0..4 * 512).map(|index| huge(index, true, None)).collect();
    let observed = with_giant_pages(seen(regions));
    let gaining = |share| {
        let by_giant = Some(Estimate::exact(share));
        let gain = Gain {
            saved_by_giant_share: by_giant,
            ..certain(0.0, 1.0)
        };
        let mut adaptive = settled(&observed, |_| gain);
        decide(&mut *adaptive, &observed)
    };
    // 512 copies of 0.6 ms are 0.31 s; a quarter of the gain over ten minutes is 150 s of it.
    assert_eq!(gaining(0.0), []);
    assert_eq!(gaining(0.002), []);
    let spans: Vec<_> = (0..4)
        .map(|span| Action {
            kind: ActionKind::PromoteGiant,
            target: target(1, span * 512),
        })
        .collect();
    assert_eq!(gaining(0.003), spans);
}
