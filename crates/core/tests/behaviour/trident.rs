//! `trident`: the largest page that the addresses allow.

use mega_core::promotion::{MachineSetting, registry};
use mega_core::{Action, ActionKind, MemoryObservation, Policy, RegionObservation};

use crate::observations::{
    PLENTY, base, decides, giant, huge, observation, of_span, policy, promote, seen,
    with_giant_pages,
};

fn trident() -> Box<dyn Policy> {
    policy("trident", &[])
}

fn huge_span(span: u64) -> impl Iterator<Item = RegionObservation> {
    (0..512).map(move |index| huge(span * 512 + index, false, None))
}

fn promotions(regions: impl Iterator<Item = u64>) -> Vec<Action> {
    regions.map(|index| promote(1, index)).collect()
}

#[test]
fn a_span_goes_from_base_to_huge_to_giant() {
    let first = with_giant_pages(seen((0..512).map(|index| base(index, 1, 0)).collect()));
    assert_eq!(
        decides(&mut *trident(), &first, 1),
        promotions(0..512),
        "whether it is used is not asked"
    );
    let then = with_giant_pages(seen(huge_span(0).collect()));
    assert_eq!(
        decides(&mut *trident(), &then, 1),
        [of_span(ActionKind::PromoteGiant, 1, 0)]
    );
    let last = with_giant_pages(seen((0..512).map(|i| giant(i, false, None)).collect()));
    assert_eq!(decides(&mut *trident(), &last, 1), []);
}

#[test]
fn a_span_with_a_hole_and_a_part_of_one_get_huge_pages() {
    let hole = (0..512).filter(|index| *index != 77);
    let part = 512..600;
    let regions = hole.clone().chain(part.clone());
    let observed = seen(regions.map(|index| base(index, 200, 0)).collect());
    assert_eq!(
        decides(&mut *trident(), &with_giant_pages(observed), 1),
        promotions(hole.chain(part))
    );
}

#[test]
fn giant_pages_come_before_huge_ones() {
    let mut regions = vec![base(0, 512, 512)];
    regions.extend(huge_span(1));
    let observed = with_giant_pages(seen(regions));
    assert_eq!(
        decides(&mut *trident(), &observed, 1),
        [of_span(ActionKind::PromoteGiant, 1, 1), promote(1, 0)]
    );
}

#[test]
fn without_giant_pages_it_stays_at_huge_ones() {
    assert_eq!(
        decides(&mut *trident(), &seen(huge_span(0).collect()), 5),
        []
    );
}

#[test]
fn its_thresholds_are_parameters() {
    let observed = with_giant_pages(seen((0..520).map(|index| base(index, 300, 0)).collect()));
    let mut cautious = policy("trident", &[("giant_mapped", 0.6), ("huge_mapped", 0.5)]);
    assert_eq!(decides(&mut *cautious, &observed, 1), promotions(0..520));
    let mut cautious = policy("trident", &[("giant_mapped", 0.5), ("huge_mapped", 0.6)]);
    assert_eq!(
        decides(&mut *cautious, &observed, 1),
        promotions(0..512),
        "a region of a span that suits a giant page need not suit a huge one"
    );
}

/// What differs is the order in which the kernel empties chunks.
#[test]
fn without_smart_compaction_it_decides_the_same() {
    let mut regions: Vec<RegionObservation> = huge_span(0).collect();
    regions.extend((512..600).map(|index| base(index, 1, 0)));
    let observed = with_giant_pages(seen(regions));
    let all = decides(&mut *trident(), &observed, 1);
    assert_eq!(decides(&mut *policy("trident-nc", &[]), &observed, 1), all);
    let sequential: Vec<&str> = registry()
        .iter()
        .filter(|info| info.settings.contains(&MachineSetting::SequentialChunks))
        .map(|info| info.name)
        .collect();
    assert_eq!(sequential, ["trident-nc"]);
}

#[test]
fn while_memory_is_short_nothing_is_added() {
    let short = MemoryObservation {
        available: PLENTY.total / 10,
        ..PLENTY
    };
    let regions = vec![base(0, 511, 511), base(1, 512, 0)];
    let observed = observation(short.clone(), &[(1, regions)]);
    assert_eq!(decides(&mut *trident(), &observed, 1), [promote(1, 1)]);
}
