//! `trident-1g-only`: `trident` without huge pages of their own.

use mega_core::{
    Action, ActionKind, Cause, MemoryObservation, Observation, Outcome, Policy, RegionObservation,
};

use crate::observations::{
    PLENTY, base, decides, demote, giant, huge, observation, of_span, policy, promote, seen,
    with_giant_pages,
};

const RETRY: usize = 3;

fn trident_1g_only() -> Box<dyn Policy> {
    policy("trident-1g-only", &[("retry_intervals", 3.0)])
}

fn span_of(region: impl Fn(u64) -> RegionObservation) -> Observation {
    with_giant_pages(seen((0..512).map(region).collect()))
}

fn promotions() -> Vec<Action> {
    (0..512).map(|index| promote(1, index)).collect()
}

fn promote_giant() -> Action {
    of_span(ActionKind::PromoteGiant, 1, 0)
}

#[test]
fn a_span_goes_from_base_to_giant() {
    let mut policy = trident_1g_only();
    let first = span_of(|index| base(index, 1, 0));
    assert_eq!(decides(&mut *policy, &first, 1), promotions());
    let then = span_of(|index| huge(index, false, None));
    assert_eq!(decides(&mut *policy, &then, 1), [promote_giant()]);
    let last = span_of(|index| giant(index, false, None));
    assert_eq!(decides(&mut *policy, &last, 1), []);
}

#[test]
fn what_no_giant_page_can_map_stays_at_base_pages() {
    let hole = (0..512).filter(|index| *index != 77);
    let part = 512..600;
    let regions = hole.chain(part);
    let observed = seen(regions.map(|index| base(index, 512, 512)).collect());
    let observed = with_giant_pages(observed);
    assert_eq!(decides(&mut *trident_1g_only(), &observed, 5), []);
}

#[test]
fn without_giant_pages_it_does_nothing() {
    let observed = seen((0..512).map(|index| base(index, 512, 512)).collect());
    assert_eq!(decides(&mut *trident_1g_only(), &observed, 5), []);
}

#[test]
fn a_span_without_a_chunk_goes_back_to_base_pages_and_is_tried_again() {
    let mut policy = trident_1g_only();
    let all_huge = span_of(|index| huge(index, false, None));
    assert_eq!(decides(&mut *policy, &all_huge, 1), [promote_giant()]);
    policy.learn(&promote_giant(), Outcome::Failed(Cause::NoMemory));

    let demotions: Vec<Action> = (0..512).map(|index| demote(1, index)).collect();
    assert_eq!(decides(&mut *policy, &all_huge, 1), demotions);
    let all_base = span_of(|index| base(index, 512, 0));
    assert_eq!(decides(&mut *policy, &all_base, RETRY - 1), []);
    assert_eq!(decides(&mut *policy, &all_base, 1), promotions());
}

#[test]
fn a_busy_span_stays_huge() {
    let mut policy = trident_1g_only();
    policy.learn(&promote_giant(), Outcome::Failed(Cause::Busy));
    let all_huge = span_of(|index| huge(index, false, None));
    assert_eq!(decides(&mut *policy, &all_huge, 1), [promote_giant()]);
}

#[test]
fn while_memory_is_short_no_span_is_begun_that_adds_some() {
    let short = MemoryObservation {
        available: PLENTY.total / 10,
        ..PLENTY
    };
    let of_mapped = |mapped| {
        let regions = (0..512).map(|index| base(index, mapped, 0)).collect();
        with_giant_pages(observation(short.clone(), &[(1, regions)]))
    };
    assert_eq!(decides(&mut *trident_1g_only(), &of_mapped(511), 1), []);
    let whole = decides(&mut *trident_1g_only(), &of_mapped(512), 1);
    assert_eq!(whole, promotions());
}
