//! The paper's policy at the exact edges of the paper's thresholds (MEGA, sections 3.1 to 3.3).

use mega_core::{FailureMemory, Observation};

use crate::observations::{base, decides, demote, huge, policy, promote, seen};

const N: usize = 10;

/// What is decided for the last of `scans`, given as what one region looks like in each.
fn after(scans: &[mega_core::RegionObservation]) -> Vec<mega_core::Action> {
    let mut mega = policy("mega", &[]);
    scans
        .iter()
        .map(|region| mega.decide(&seen(vec![*region]), &FailureMemory::default()))
        .last()
        .unwrap_or_default()
}

#[test]
fn ninety_percent_mapped_is_461_base_pages() {
    assert_eq!(after(&[base(0, 461, 461); N]), [promote(1, 0)]);
    assert_eq!(after(&[base(0, 460, 460); N]), []);
}

#[test]
fn half_utilization_is_256_base_pages_on_average() {
    assert_eq!(after(&[base(0, 512, 256); N]), [promote(1, 0)]);
    let mut one_less = [base(0, 512, 256); N];
    one_less[3].accessed = 255;
    assert_eq!(after(&one_less), []);
    one_less[7].accessed = 257;
    assert_eq!(
        after(&one_less),
        [promote(1, 0)],
        "the mean counts, not each scan"
    );
}

#[test]
fn utilization_is_averaged_over_exactly_the_last_n_scans() {
    let mut cooling = vec![base(0, 512, 512); N];
    cooling.extend([base(0, 512, 0); N]);
    for (scans, expected) in [(N - 1, false), (N, true), (N + 5, true), (N + 6, false)] {
        assert_eq!(
            !after(&cooling[..scans]).is_empty(),
            expected,
            "after {scans} scans"
        );
    }
}

#[test]
fn tracking_starts_at_half_mapped() {
    // Tracked at 256 base pages from the first scan, so the history is full at the tenth; at 255 only
    // the last scan counts.
    let mut growing = [base(0, 256, 256); N];
    growing[N - 1] = base(0, 512, 512);
    assert_eq!(after(&growing), [promote(1, 0)]);
    let mut smaller = [base(0, 255, 255); N];
    smaller[N - 1] = base(0, 512, 512);
    assert_eq!(after(&smaller), []);
}

#[test]
fn tracking_stops_below_a_quarter_mapped() {
    let mut shrinking = [base(0, 512, 512); N];
    shrinking[4] = base(0, 128, 128);
    assert_eq!(
        after(&shrinking),
        [promote(1, 0)],
        "at 128 base pages it is still tracked"
    );
    shrinking[4] = base(0, 127, 127);
    assert_eq!(after(&shrinking), [], "below, its history is dropped");
}

#[test]
fn between_the_tracking_thresholds_only_what_was_tracked_stays_so() {
    let mut mega = policy(
        "mega",
        &[
            ("scans", 2.0),
            ("promote_mapped", 0.3),
            ("demote_mapped", 0.3),
        ],
    );
    // 200 base pages are mapped in both, 512 were once mapped in the first.
    mega.decide(
        &seen(vec![base(0, 512, 512), base(1, 200, 200)]),
        &FailureMemory::default(),
    );
    let last = mega.decide(
        &seen(vec![base(0, 200, 200), base(1, 200, 200)]),
        &FailureMemory::default(),
    );
    assert_eq!(last, [promote(1, 0)]);
}

#[test]
fn a_huge_page_is_demoted_below_a_quarter_utilization() {
    let mut scans = [huge(0, false, None); N];
    scans[0] = huge(0, true, None);
    scans[1] = huge(0, true, None);
    assert_eq!(after(&scans), [demote(1, 0)], "2 of 10 scans");
    scans[2] = huge(0, true, None);
    assert_eq!(after(&scans), [], "3 of 10 scans");
    let mut exactly = policy("mega", &[("scans", 4.0)]);
    exactly.decide(&seen(vec![huge(0, true, None)]), &FailureMemory::default());
    assert_eq!(
        decides(&mut *exactly, &seen(vec![huge(0, false, None)]), 3),
        [],
        "1 of 4 is a quarter"
    );
}

#[test]
fn an_idle_huge_page_is_demoted_which_the_pseudo_code_never_would() {
    assert_eq!(after(&[huge(0, false, None); N]), [demote(1, 0)]);
    assert_eq!(
        after(&[huge(0, false, None); N - 1]),
        [],
        "not before N scans were seen"
    );
}

#[test]
fn a_huge_page_with_fewer_than_256_pages_in_use_is_demoted_at_once() {
    assert_eq!(after(&[huge(0, true, Some(257))]), [demote(1, 0)]);
    assert_eq!(after(&[huge(0, true, Some(256))]), []);
    assert_eq!(
        after(&[huge(0, true, None)]),
        [],
        "not counted means mapped whole"
    );
}

#[test]
fn a_region_that_loses_its_tracking_does_not_end_the_scan_as_in_the_pseudo_code() {
    let mut mega = policy("mega", &[]);
    let before = seen(vec![base(0, 512, 512), base(1, 512, 512)]);
    decides(&mut *mega, &before, N - 1);
    let last = mega.decide(
        &seen(vec![base(0, 100, 100), base(1, 512, 512)]),
        &FailureMemory::default(),
    );
    assert_eq!(last, [promote(1, 1)]);
}

#[test]
fn an_interval_whose_accesses_are_not_known_is_no_scan() {
    let mut mega = policy("mega", &[]);
    let known = seen(vec![base(0, 512, 512)]);
    let mut unknown: Observation = seen(vec![base(0, 512, 0)]);
    unknown.processes[0].accesses_known = false;
    mega.decide(&unknown, &FailureMemory::default());
    assert_eq!(decides(&mut *mega, &known, N - 1), []);
    assert_eq!(mega.decide(&unknown, &FailureMemory::default()), []);
    assert_eq!(
        mega.decide(&known, &FailureMemory::default()),
        [promote(1, 0)]
    );
}

#[test]
fn a_region_just_promoted_is_judged_anew() {
    let mut mega = policy("mega", &[]);
    assert_eq!(
        decides(&mut *mega, &seen(vec![base(0, 512, 512)]), N),
        [promote(1, 0)]
    );
    let idle = seen(vec![huge(0, false, None)]);
    assert_eq!(decides(&mut *mega, &idle, N - 1), []);
    assert_eq!(
        mega.decide(&idle, &FailureMemory::default()),
        [demote(1, 0)]
    );
}

#[test]
fn every_threshold_is_a_parameter() {
    let mut mega = policy(
        "mega",
        &[
            ("start_tracking", 0.1),
            ("stop_tracking", 0.1),
            ("promote_mapped", 0.125),
            ("demote_mapped", 0.125),
            ("promote_utilization", 0.125),
            ("demote_utilization", 0.125),
            ("scans", 1.0),
        ],
    );
    let regions = vec![
        base(0, 64, 64),
        base(1, 64, 63),
        base(2, 63, 63),
        huge(3, false, None),
    ];
    assert_eq!(
        mega.decide(&seen(regions), &FailureMemory::default()),
        [promote(1, 0), demote(1, 3)]
    );
}
