//! `base`, `ingens` and `hawkeye`.

use mega_core::{FailureMemory, MemoryObservation, Outcome, RegionObservation};

use crate::observations::{
    GIB, base, decides, demote, huge, observation, policy, promote, seen, target,
};

/// Memory of which this share is in use.
fn in_use(percent: u64) -> MemoryObservation {
    let available = 100 * GIB - percent * GIB;
    MemoryObservation {
        total: 100 * GIB,
        available,
        free: available,
        contiguity: available,
        nodes: Vec::new(),
    }
}

#[test]
fn base_does_nothing() {
    let mut base_policy = policy("base", &[]);
    let everything = seen(vec![base(0, 512, 512), huge(1, false, Some(512))]);
    assert_eq!(decides(&mut *base_policy, &everything, 30), []);
}

#[test]
fn ingens_promotes_from_461_base_pages_whether_used_or_not() {
    let mut ingens = policy("ingens", &[]);
    let regions = vec![
        base(0, 461, 0),
        base(1, 460, 460),
        base(2, 512, 512),
        huge(3, false, Some(512)),
    ];
    assert_eq!(
        ingens.decide(&seen(regions), &FailureMemory::default()),
        [promote(1, 0), promote(1, 2)]
    );
}

#[test]
fn ingens_serves_the_process_with_fewer_huge_pages_first() {
    let mut ingens = policy("ingens", &[]);
    let rich = vec![base(0, 512, 512), huge(1, true, None), huge(2, true, None)];
    let poor = vec![
        base(0, 512, 512),
        base(1, 512, 512),
        base(2, 512, 512),
        base(3, 512, 512),
    ];
    let decided = ingens.decide(
        &observation(in_use(50), &[(1, rich), (2, poor)]),
        &FailureMemory::default(),
    );
    let expected = [
        promote(2, 0),
        promote(2, 1),
        promote(1, 0),
        promote(2, 2),
        promote(2, 3),
    ];
    assert_eq!(decided, expected);
}

#[test]
fn ingens_weighs_huge_pages_that_are_not_used_more() {
    let holding = |used| vec![base(0, 512, 512), huge(1, used, None), huge(2, used, None)];
    let mut ingens = policy("ingens", &[]);
    let decided = ingens.decide(
        &observation(in_use(50), &[(1, holding(false)), (2, holding(true))]),
        &FailureMemory::default(),
    );
    assert_eq!(decided, [promote(2, 0), promote(1, 0)]);
}

#[test]
fn hawkeye_promotes_in_order_of_coverage_over_all_processes() {
    let mut hawkeye = policy("hawkeye", &[]);
    let first = vec![base(0, 512, 100), base(1, 512, 500), base(2, 512, 0)];
    let second = vec![base(0, 512, 300), base(1, 512, 490), base(2, 60, 60)];
    let decided = decides(
        &mut *hawkeye,
        &observation(in_use(50), &[(1, first), (2, second)]),
        2,
    );
    // In the highest bucket the process with the larger overhead, the second, comes first.
    let expected = [
        promote(2, 1),
        promote(1, 1),
        promote(2, 0),
        promote(2, 2),
        promote(1, 0),
    ];
    assert_eq!(decided, expected);
}

/// Lets hawkeye inspect and decide, as the engine does.
fn step(
    hawkeye: &mut dyn mega_core::Policy,
    percent: u64,
    regions: &[RegionObservation],
) -> Vec<mega_core::Action> {
    let mut observed = observation(in_use(percent), &[(1, regions.to_vec())]);
    let inspected = hawkeye.inspect(&observed);
    for region in &mut observed.processes[0].regions {
        let named = inspected
            .iter()
            .any(|target| target.region == region.region);
        region.zero_filled = region.zero_filled.filter(|_| named);
    }
    hawkeye.decide(&observed, &FailureMemory::default())
}

#[test]
fn hawkeye_recovers_bloat_between_its_watermarks() {
    let mut hawkeye = policy("hawkeye", &[]);
    let regions = [
        huge(0, false, Some(300)),
        huge(1, true, Some(500)),
        huge(2, false, Some(255)),
    ];
    assert_eq!(step(&mut *hawkeye, 80, &regions), []);
    assert_eq!(
        step(&mut *hawkeye, 85, &regions),
        [],
        "at the high watermark not yet"
    );
    let most_zeros_first = [demote(1, 1), demote(1, 0)];
    assert_eq!(step(&mut *hawkeye, 86, &regions), most_zeros_first);
    assert_eq!(
        step(&mut *hawkeye, 69, &regions),
        [],
        "below the low watermark no more"
    );
}

#[test]
fn hawkeye_keeps_recovering_until_the_low_watermark() {
    let mut hawkeye = policy("hawkeye", &[]);
    step(&mut *hawkeye, 90, &[huge(0, false, Some(0))]);
    let another = [huge(0, false, Some(0)), huge(1, false, Some(512))];
    step(&mut *hawkeye, 72, &another);
    assert_eq!(step(&mut *hawkeye, 71, &another), [demote(1, 1)]);
}

#[test]
fn hawkeye_does_not_promote_again_what_it_demoted_for_bloat() {
    let mut hawkeye = policy("hawkeye", &[]);
    let bloated = [huge(0, true, Some(400))];
    step(&mut *hawkeye, 90, &bloated);
    assert_eq!(step(&mut *hawkeye, 90, &bloated), [demote(1, 0)]);
    let done = Outcome::Done {
        resident_before: 2 << 20,
        resident_after: 112 << 12,
    };
    hawkeye.learn(&demote(1, 0), done);
    for _ in 0..20 {
        assert_eq!(step(&mut *hawkeye, 50, &[base(0, 112, 112)]), []);
    }
    assert_eq!(
        step(&mut *hawkeye, 50, &[base(0, 368, 368)]),
        [promote(1, 0)],
        "its program uses more now"
    );
    assert_eq!(target(1, 0), promote(1, 0).target);
}
