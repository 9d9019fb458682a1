//! What huge pages would gain, on calibrations and touches made by hand.

use mega_core::Region;
use mega_core::worth::{
    Calibration, Estimate, HugeTouches, Locality, MappingTouches, Point, RegionTouches, Reuse,
    Touches, Touching, Validity, predict,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn validity() -> Validity {
    Validity {
        processor: "a processor".to_owned(),
        kernel: "6.18".to_owned(),
        hypervisor: None,
        memory: 8 << 30,
        method: 1,
    }
}

/// A touch of base pages takes `ns`; huge pages save that share of it, give or take a tenth.
fn point(working_set: u64, touching: Touching, ns: f64, share: f64) -> Point {
    let saved = ns * share;
    Point {
        working_set,
        touching,
        ns,
        saved: Estimate::within(saved, 0.9 * saved, 1.1 * saved),
    }
}

/// A machine whose walks cost more the larger the working set is; `share` is saved of a touch beyond the caches.
fn calibration(share: f64) -> Calibration {
    let sizes = [
        (2, 0.0, 10.0),
        (32, 0.25, 100.0),
        (512, 0.5, 200.0),
        (2048, 1.0, 300.0),
    ];
    let ways = [
        (Touching::Serial, 1.0),
        (Touching::TwoChains, 0.5),
        (Touching::FourChains, 0.25),
        (Touching::Overlapped, 0.1),
        (Touching::Worked, 1.2),
        (Touching::Rows, 1.2),
        (Touching::Busy, 3.0),
        (Touching::Neighbours, 0.05),
        (Touching::Visits, 0.08),
        (Touching::SerialVisits, 0.8),
    ];
    let of_size = |(mib, part, ns): (u64, f64, f64)| {
        let stream = point(mib * MIB, Touching::Stream, ns, 0.02 * part);
        let of_way = |(touching, pace): (Touching, f64)| {
            let near = [Touching::Visits, Touching::SerialVisits].contains(&touching);
            let share = if near { share / 2.0 } else { share };
            point(mib * MIB, touching, ns * pace, share * part)
        };
        ways.map(of_way).into_iter().chain([stream])
    };
    Calibration {
        valid_for: validity(),
        made: 0,
        points: sizes.into_iter().flat_map(of_size).collect(),
        apart: None,
        giant: None,
        promotion: Estimate::within(0.002, 0.001, 0.003),
        copy: Estimate::exact(0.001),
    }
}

fn reuse(share: f64, working_set: u64) -> Reuse {
    Reuse { share, working_set }
}

fn touches(per_cpu_second: f64, working_set: u64, rates: &[f64]) -> Touches {
    let region = |(number, &rate): (usize, &f64)| RegionTouches {
        region: Region::containing(number as u64 * 2 * MIB),
        mapped: 512,
        per_cpu_second: rate,
        weight: 2.0,
    };
    Touches {
        per_cpu_second: Estimate::within(
            per_cpu_second,
            0.95 * per_cpu_second,
            1.05 * per_cpu_second,
        ),
        cpu_share: 1.0,
        working_set,
        pages_per_line: 1.0,
        touches_per_visit: 1.0,
        frames_together: None,
        reuse: vec![reuse(1.0, working_set)],
        huge: None,
        mappings: vec![MappingTouches {
            range: 0..working_set,
            name: String::new(),
            resident: working_set,
            huge: 0,
            per_cpu_second,
        }],
        regions: rates.iter().enumerate().map(region).collect(),
    }
}

fn some_touches() -> impl Strategy<Value = Touches> {
    let rates = prop::collection::vec(0.0..1e6_f64, 0..50);
    let sizes = prop::collection::vec((0.1..1.0_f64, 0..(64_u64 << 30)), 0..5);
    let near = (1.0..8.0_f64, 1.0..512.0_f64);
    (0.0..3e8_f64, 0..(64_u64 << 30), near, sizes, rates).prop_map(
        |(rate, working_set, (line, visit), sizes, rates)| {
            let all: f64 = sizes.iter().map(|(share, _)| share).sum();
            let reuse = |(share, working_set)| reuse(share / all, working_set);
            Touches {
                pages_per_line: line,
                touches_per_visit: visit,
                reuse: sizes.into_iter().map(reuse).collect(),
                ..touches(rate, working_set, &rates)
            }
        },
    )
}

fn near(pages_per_line: f64, touches_per_visit: f64) -> Locality {
    Locality {
        pages_per_line,
        touches_per_visit,
    }
}

#[test]
fn touches_that_come_back_soon_hide_nothing_of_others() {
    let calibration = calibration(0.4);
    for per_second in [1e9 / 30.0, 1e9 / 150.0, 1e9 / 300.0] {
        let rare = predict(&touches(per_second, 2048 * MIB, &[]), &calibration).saved_share;
        let mut mixed = touches(8.0 * per_second, 2048 * MIB, &[]);
        mixed.reuse = vec![reuse(0.875, 2 * MIB), reuse(0.125, 2048 * MIB)];
        // Those that come back soon save nothing, and take no time in which the walks of the others are under way.
        let saved = predict(&mixed, &calibration).saved_share;
        assert!(
            (saved.value - rare.value).abs() < 1e-9,
            "{saved:?} {rare:?}"
        );
    }
}

#[test]
fn a_chase_saves_what_the_calibrations_chain_does() {
    let worth = predict(&touches(1e9 / 300.0, 2048 * MIB, &[1.0]), &calibration(0.4));
    assert!((worth.saved_share.value - 0.4).abs() < 1e-9, "{worth:?}");
    assert!(worth.saved_share.holds(0.4));
    // Or it touches all pages at once, one of ten times, and does something else in the rest: a tenth is saved, give or take.
    assert!((0.03..0.04).contains(&worth.saved_share.low), "{worth:?}");
    assert!((worth.speed_up.value - 1.0 / 0.6).abs() < 1e-9);
    // Two regions at 2 ms each, of which 0.4 s come back each second.
    assert_eq!(worth.cost_cpu_seconds, 0.004);
    assert!((worth.payback_seconds.unwrap() - 0.01).abs() < 1e-9);
    assert_eq!(worth.promotable, 4 * MIB);
}

#[test]
fn a_rate_that_no_waiting_touch_reaches_tells_that_they_overlap() {
    let overlapped = 0.1 * 300.0;
    let worth = predict(
        &touches(1e9 / overlapped, 2048 * MIB, &[]),
        &calibration(0.4),
    );
    let saved = worth.saved_share;
    assert!((saved.value - 0.4).abs() < 1e-9, "{saved:?}");
    assert!(saved.low > 0.3 && saved.high < 0.5, "{saved:?}");
}

#[test]
fn a_core_that_waits_for_each_touch_has_none_that_overlap() {
    let mut calibration = calibration(0.4);
    let waits = |point: &Point| matches!(point.touching, Touching::Serial | Touching::Neighbours);
    calibration.points.retain(waits);
    assert_eq!(calibration.overlapped(), calibration);
    let worth = predict(&touches(1e9 / 300.0, 2048 * MIB, &[]), &calibration);
    assert!(worth.saved_share.low > 0.3, "{worth:?}");
}

#[test]
fn what_is_touched_most_comes_first_in_the_curve() {
    let worth = predict(
        &touches(1e6, 512 * MIB, &[10.0, 0.0, 90.0, 0.0]),
        &calibration(0.4),
    );
    let curve: Vec<_> = worth
        .curve
        .iter()
        .map(|point| (point.promoted, point.gain))
        .collect();
    assert_eq!(
        curve,
        [(0.0, 0.0), (0.25, 0.9), (0.5, 1.0), (0.75, 1.0), (1.0, 1.0)]
    );
    assert_eq!(worth.most, 4 * MIB);
    assert_eq!(worth.promotable, 16 * MIB);
}

#[test]
fn a_stream_and_a_small_working_set_gain_next_to_nothing() {
    let mut stream = touches(1e9 / 300.0, 2048 * MIB, &[1.0]);
    stream.pages_per_line = 8.0;
    assert!(predict(&stream, &calibration(0.4)).saved_share.value < 0.021);
    let small = predict(&touches(1e8, 2 * MIB, &[1.0]), &calibration(0.4));
    assert!(!small.gains() && small.payback_seconds.is_none());
}

#[test]
fn giant_pages_are_weighed_where_there_are_some() {
    let mut touches = touches(0.0, 0, &[]);
    touches.huge = Some(HugeTouches {
        per_cpu_second: Estimate::exact(1e6),
        working_set: 2048 * MIB,
        reuse: Vec::new(),
    });
    let mut calibration = calibration(0.4);
    assert_eq!(predict(&touches, &calibration).saved_by_giant_share, None);
    calibration.giant = Some(calibration.points.clone());
    assert!(
        predict(&touches, &calibration)
            .saved_by_giant_share
            .unwrap()
            .value
            > 0.0
    );
}

#[test]
fn a_calibration_of_another_machine_is_told() {
    let now = validity();
    assert_eq!(now.differs_from(&now), None);
    let other = |change: fn(&mut Validity)| {
        let mut other = validity();
        change(&mut other);
        other.differs_from(&now)
    };
    assert_eq!(other(|it| it.memory += it.memory / 100), None);
    assert!(other(|it| it.memory *= 2).is_some());
    assert!(other(|it| it.method = 0).is_some());
    assert!(other(|it| it.kernel.push('x')).is_some());
    assert!(other(|it| it.processor.push('x')).is_some());
    assert!(other(|it| it.hypervisor = Some("x".to_owned())).is_some());
}

#[test]
fn nonsense_is_told() {
    assert_eq!(calibration(0.4).nonsense(), None);
    let damaged = |damage: fn(&mut Calibration)| {
        let mut calibration = calibration(0.4);
        damage(&mut calibration);
        calibration.nonsense().is_some()
    };
    assert!(damaged(|it| it.points.clear()));
    assert!(damaged(|it| it.points[0].ns = 0.0));
    assert!(damaged(|it| it.points[0].working_set = 0));
    assert!(damaged(|it| it.points[0].saved.low = 1e9));
    assert!(damaged(|it| it.points[0].saved.value = f64::NAN));
    assert!(damaged(|it| it.promotion = Estimate::exact(-1.0)));
    assert!(damaged(
        |it| it.giant = Some(vec![point(0, Touching::Serial, 1.0, 0.5)])
    ));
}

#[test]
fn an_unknown_rate_promises_nothing_and_rules_nothing_out() {
    let mut unknown = touches(0.0, 2048 * MIB, &[1.0]);
    unknown.per_cpu_second = Estimate::within(0.0, 0.0, f64::MAX);
    let worth = predict(&unknown, &calibration(0.4));
    assert_eq!((worth.saved_share.value, worth.saved_share.low), (0.0, 0.0));
    assert!(worth.saved_share.high > 0.1, "{:?}", worth.saved_share);
    assert!(!worth.gains());
}

proptest! {
    /// A program may touch in any of the ways that are as fast as it is, and do something else in the rest of its time.
    #[test]
    fn the_interval_holds_every_way_that_the_rate_allows(size in 0..4_usize, slower in 0.05..20.0_f64, share in 0.0..0.9_f64) {
        let calibration = calibration(share);
        let size = calibration.working_sets()[size];
        let ways = [Touching::Serial, Touching::TwoChains, Touching::FourChains, Touching::Overlapped];
        let points = calibration.points.iter().filter(|point| point.working_set == size);
        let points: Vec<&Point> = points.filter(|point| ways.contains(&point.touching)).collect();
        let ns = slower * points[0].ns;
        let saved = predict(&touches(1e9 / ns, size, &[]), &calibration).saved_share;
        for point in points.iter().filter(|point| point.ns <= ns) {
            let so = point.saved.value / ns;
            prop_assert!(saved.low <= so + 1e-9 && so <= saved.high + 1e-9, "{:?}: {} in {:?}", point.touching, so, saved);
        }
    }

    #[test]
    fn no_touch_saves_more_time_than_it_takes(ns in 0.0..2000.0_f64, working_set in 0..(64_u64 << 30), line in 1.0..8.0_f64, visit in 1.0..512.0_f64, sure in 0.0..10.0_f64) {
        let mut calibration = calibration(0.8);
        for point in &mut calibration.points {
            point.saved.high = point.saved.value * (1.0 + sure);
        }
        for calibration in [calibration.overlapped(), calibration] {
            let saved = calibration.saved_ns(working_set, ns, near(line, visit));
            prop_assert!(0.0 <= saved.low && saved.low <= saved.value, "{:?}", saved);
            prop_assert!(saved.value <= saved.high && saved.high <= ns, "{:?}", saved);
        }
    }

    #[test]
    fn what_is_said_is_in_bounds(touches in some_touches(), share in 0.0..0.9_f64) {
        let calibration = calibration(share);
        let worth = predict(&touches, &calibration);
        let saved = worth.saved_share;
        prop_assert!(0.0 <= saved.low && saved.low <= saved.value, "{:?}", saved);
        prop_assert!(saved.value <= saved.high && saved.high < 1.0, "{:?}", saved);
        prop_assert!(worth.speed_up.low >= 1.0 && worth.speed_up.high.is_finite());
        prop_assert!(worth.most <= worth.promotable);
        prop_assert_eq!(worth.gains(), worth.payback_seconds.is_some());
        for pair in worth.curve.windows(2) {
            prop_assert!(pair[0].promoted <= pair[1].promoted && pair[0].gain <= pair[1].gain);
            // The regions touched most come first.
            prop_assert!(pair[1].gain >= pair[1].promoted - 1e-9);
        }
        for mapping in &worth.mappings {
            prop_assert!((0.0..=saved.value).contains(&mapping.saved_share));
        }
    }

    /// Chance divides touches of one kind.
    #[test]
    fn touches_that_come_back_alike_save_the_same_together_or_apart(rate in 1e5..1e8_f64, mib in 1_u64..8192, share in 0.01..0.99_f64) {
        let calibration = calibration(0.4);
        let together = touches(rate, mib * MIB, &[]);
        let mut apart = together.clone();
        apart.reuse = [share, 1.0 - share].map(|share| reuse(share, mib * MIB)).to_vec();
        let [together, apart] = [together, apart].map(|touches| predict(&touches, &calibration).saved_share);
        prop_assert!((together.value - apart.value).abs() < 1e-9, "{:?} {:?}", together, apart);
    }

    #[test]
    fn no_touch_gains_nothing(working_set in 0..(64_u64 << 30)) {
        let worth = predict(&touches(0.0, working_set, &[0.0, 0.0]), &calibration(0.4));
        prop_assert_eq!(worth.saved_share, Estimate::exact(0.0));
        prop_assert!(!worth.gains());
        prop_assert_eq!(worth.most, 0);
    }

    #[test]
    fn more_touches_save_more(rate in 1.0..1e8_f64, more in 1.0..3.0_f64, mib in 1_u64..8192, line in 1.0..8.0_f64) {
        let calibration = calibration(0.4);
        let saved = |rate: f64| {
            let touches = Touches { pages_per_line: line, ..touches(rate, mib * MIB, &[]) };
            predict(&touches, &calibration).saved_share.value
        };
        prop_assert!(saved(rate * more) >= saved(rate) - 1e-9);
    }

    #[test]
    fn a_larger_working_set_saves_more(ns in 1.0..1000.0_f64, mib in 1_u64..4096, more in 1_u64..4096, line in 1.0..8.0_f64) {
        let calibration = calibration(0.4);
        let saved = |mib: u64| calibration.saved_ns(mib * MIB, ns, near(line, 1.0)).value;
        // Interpolated between paces that differ by working set: monotone up to that.
        prop_assert!(saved(mib + more) >= 0.8 * saved(mib) - 1e-9);
    }

    #[test]
    fn the_fewer_neighbours_the_more_is_saved(ns in 1.0..1000.0_f64, mib in 64_u64..4096, line in 1.0..8.0_f64) {
        let calibration = calibration(0.4);
        let saved = |line: f64| calibration.saved_ns(mib * MIB, ns, near(line, line)).value;
        prop_assert!(saved(1.0) >= saved(line) - 1e-9 && saved(line) >= saved(8.0) - 1e-9);
    }

    #[test]
    fn the_shorter_the_visits_the_more_is_saved(ns in 300.0..1000.0_f64, mib in 64_u64..4096, visit in 1.0..512.0_f64, more in 1.0..8.0_f64) {
        let calibration = calibration(0.4);
        let saved = |visit: f64| calibration.saved_ns(mib * MIB, ns, near(1.0, visit)).value;
        prop_assert!(saved(visit) >= saved(visit * more) - 1e-9);
    }

    /// A calibration that knows of no visits takes their touches for those that go anywhere.
    #[test]
    fn what_was_not_measured_is_as_far_as_it_was(ns in 1.0..1000.0_f64, mib in 1_u64..4096, visit in 1.0..512.0_f64) {
        let mut calibration = calibration(0.4);
        calibration.points.retain(|point| ![Touching::Visits, Touching::SerialVisits].contains(&point.touching));
        let saved = |visit: f64| calibration.saved_ns(mib * MIB, ns, near(1.0, visit));
        prop_assert_eq!(saved(visit), saved(1.0));
    }

    #[test]
    fn a_machine_that_saves_nothing_promises_nothing(touches in some_touches()) {
        let mut calibration = calibration(0.0);
        for point in &mut calibration.points {
            point.saved = Estimate::within(0.0, -1.0, 1.0);
        }
        let worth = predict(&touches, &calibration);
        prop_assert!(!worth.gains());
        prop_assert_eq!(worth.saved_share.value, 0.0);
    }

    #[test]
    fn a_calibration_survives_its_file(share in 0.0..0.9_f64) {
        let calibration = calibration(share);
        let text = serde_json::to_string(&calibration).unwrap();
        let read: Calibration = serde_json::from_str(&text).unwrap();
        prop_assert!(read.nonsense().is_none());
        prop_assert_eq!(read.points.len(), calibration.points.len());
    }
}

/// Frames that lie apart make walks of 512 MiB and more twice as long.
fn where_frames_matter() -> Calibration {
    let together = calibration(0.2);
    let longer = |point: &Point| Point {
        ns: point.ns + point.saved.value,
        saved: point.saved.scaled(2.0),
        ..*point
    };
    let large = |point: &&Point| point.working_set == 512 * MIB;
    Calibration {
        apart: Some(together.points.iter().filter(large).map(longer).collect()),
        ..together
    }
}

#[test]
fn frames_that_lie_apart_cost_more_where_that_was_measured_and_beyond() {
    let calibration = where_frames_matter();
    let saved = |working_set: u64, together: Option<f64>| {
        let ns = calibration
            .for_frames(together)
            .saved_ns(working_set, 1e4, Locality::SCATTERED);
        ns.value
    };
    for size in [512 * MIB, 2048 * MIB] {
        assert!(saved(size, Some(0.0)) > 1.2 * saved(size, Some(1.0)));
    }
    assert_eq!(saved(32 * MIB, Some(0.0)), saved(32 * MIB, Some(1.0)));
    let same = calibration.for_frames(Some(1.0));
    assert_eq!(same.points, calibration.points);
}

proptest! {
    /// What is said grows with the frames that lie apart, and where nobody knows how many do, all of it is possible.
    #[test]
    fn where_frames_lie_decides_within_bounds(
        touches in some_touches(),
        parts in (0.0..=1.0_f64, 0.0..=1.0_f64),
    ) {
        let calibration = where_frames_matter();
        let told = |frames_together| {
            let touches = Touches { frames_together, ..touches.clone() };
            predict(&touches, &calibration).saved_ns
        };
        let (less, more) = (parts.0.min(parts.1), parts.0.max(parts.1));
        let [apart, some, together] = [Some(0.0), Some(less), Some(1.0)].map(told);
        let unknown = told(None);
        prop_assert!(unknown.low <= together.low.min(apart.low) + 1e-6, "{unknown:?} {together:?} {apart:?}");
        for told in [apart, some, together, told(Some(more)), unknown] {
            prop_assert!(told.low <= told.value && told.value <= told.high);
        }
    }
}

/// Few touches with long walks may wait for each of them, and many with short ones overlap.
#[test]
fn it_may_be_the_long_walks_alone_that_wait() {
    let calibration = calibration(0.2);
    let told = |classes: &[(f64, u64)]| {
        let reuse = classes.iter().map(|&(share, mib)| reuse(share, mib * MIB));
        let touches = Touches {
            reuse: reuse.collect(),
            ..touches(1e7, 2048 * MIB, &[])
        };
        predict(&touches, &calibration).saved_ns
    };
    let apart = told(&[(0.9, 32), (0.1, 2048)]);
    assert!(apart.high > 1.3 * apart.value, "{apart:?}");
    // Walks of one length wait alike: classes that chance made change little.
    let one = told(&[(1.0, 2048)]);
    let alike = told(&[(0.5, 2000), (0.5, 2048)]);
    assert!(alike.high < 1.05 * one.high, "{alike:?} {one:?}");
}
