//! The claims of `adaptive`, each on the case that breaks one of the others.

use mega_core::engine::would;
use mega_core::{
    Action, ActionKind, FailureMemory, HUGE_PAGE_SIZE, MemoryObservation, Observation, Outcome,
    Policy, RegionObservation,
};

use crate::observations::{
    GIB, PLENTY, base, decides, demote, huge, observation, policy, promote, seen,
};

/// `count` regions of base pages alike.
fn regions(count: u64, mapped: u16, accessed: u16) -> Vec<RegionObservation> {
    (0..count)
        .map(|index| base(index, mapped, accessed))
        .collect()
}

/// All regions of process 1 promoted.
fn all(count: u64) -> Vec<Action> {
    (0..count).map(|index| promote(1, index)).collect()
}

fn adaptive() -> Box<dyn Policy> {
    policy("adaptive", &[])
}

/// Memory of which this share is available, one block in ten of it contiguous.
fn available(percent: u64) -> MemoryObservation {
    let available = percent * GIB;
    MemoryObservation {
        total: 100 * GIB,
        available,
        free: available,
        contiguity: available / 10,
        nodes: Vec::new(),
    }
}

#[test]
fn a_sparse_program_over_memory_mapped_whole_is_promoted_while_contiguity_is_plentiful() {
    // MEGA table 6: 64 of 512 base pages in use, which no utilization threshold lets pass.
    let stride = seen(regions(100, 512, 64));
    assert_eq!(decides(&mut *adaptive(), &stride, 2), all(100));
    assert_eq!(decides(&mut *policy("mega", &[]), &stride, 20), []);
}

#[test]
fn the_bar_rises_as_contiguity_becomes_scarce() {
    let with = |contiguity, accessed| {
        let memory = MemoryObservation {
            contiguity,
            ..PLENTY
        };
        let observed = observation(memory.clone(), &[(1, regions(1000, 512, accessed))]);
        decides(&mut *adaptive(), &observed, 2).len()
    };
    assert_eq!(with(32 * GIB, 64), 1000);
    assert_eq!(
        with(0, 64),
        0,
        "without free blocks sparse regions are not worth a compaction"
    );
    assert_eq!(with(0, 264), 0);
    assert_eq!(with(0, 265), 1000, "but well used ones are");
    let some = with(GIB, 200);
    assert!(
        0 < some && some < 1000,
        "a few sparse regions take what is left: {some}"
    );
}

#[test]
fn when_contiguity_is_scarce_the_most_used_regions_get_it() {
    let mut mixed = regions(1000, 512, 64);
    for region in mixed.iter_mut().skip(500).take(10) {
        region.accessed = 512;
    }
    let memory = MemoryObservation {
        contiguity: 10 * HUGE_PAGE_SIZE,
        ..PLENTY
    };
    let decided = decides(
        &mut *adaptive(),
        &observation(memory.clone(), &[(1, mixed)]),
        2,
    );
    assert_eq!(
        decided,
        (500..510)
            .map(|index| promote(1, index))
            .collect::<Vec<_>>()
    );
}

#[test]
fn one_page_in_eight_is_never_promoted() {
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(1000, 64, 64)), 50),
        []
    );
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(1000, 64, 0)), 50),
        []
    );
}

#[test]
fn what_is_nine_tenths_mapped_counts_against_no_bloat_budget() {
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(20, 461, 200)), 2),
        all(20)
    );
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(20, 460, 200)), 2),
        all(1),
        "1 % of 20 * 460 base pages is 92, enough for 52 once"
    );
}

#[test]
fn well_used_regions_with_bloat_are_promoted_within_the_bloat_budget() {
    // 312 base pages each are missing; 1 % of 1000 * 200 base pages is 2000, enough for 6 of them.
    let few_are_used = |used| {
        let mut all = regions(1000, 200, 0);
        for region in all.iter_mut().take(100) {
            region.accessed = used;
            region.mapped = 400;
        }
        decides(&mut *adaptive(), &seen(all), 2).len()
    };
    // 112 missing each; 1 % of 900 * 200 + 100 * 400 = 2200.
    assert_eq!(few_are_used(400), 19);
    assert_eq!(few_are_used(121), 19);
    assert_eq!(
        few_are_used(120),
        0,
        "a page that is added costs what one in use saves"
    );
}

#[test]
fn what_promotions_added_counts_against_the_bloat_budget() {
    let mut adaptive = adaptive();
    let mut observed = seen(regions(100, 400, 400));
    // 1 % of 100 * 400 base pages is 400: enough for 3 times 112.
    let decided = decides(&mut *adaptive, &observed, 2);
    assert_eq!(decided, all(3));
    for action in &decided {
        let done = Outcome::Done {
            resident_before: 400 << 12,
            resident_after: 512 << 12,
        };
        adaptive.learn(action, done);
    }
    for index in 0..3 {
        observed.processes[0].regions[index] = huge(index as u64, true, None);
    }
    assert_eq!(decides(&mut *adaptive, &observed, 20), []);
}

#[test]
fn a_program_that_fits_the_tlb_is_left_alone() {
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(3, 512, 512)), 20),
        []
    );
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(4, 512, 512)), 2),
        all(4)
    );
    // 24 regions of which each has 64 base pages in use are 1536 translations.
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(24, 512, 64)), 20),
        []
    );
    assert_eq!(
        decides(&mut *adaptive(), &seen(regions(25, 512, 64)), 2),
        all(25)
    );
}

#[test]
fn huge_pages_in_use_take_one_translation_each() {
    let with_huge = |accessed| {
        let mut all = regions(3, 512, 511);
        all.extend((10..14).map(|index| huge(index, accessed, None)));
        decides(&mut *adaptive(), &seen(all), 2).len()
    };
    assert_eq!(with_huge(true), 3);
    assert_eq!(with_huge(false), 0);
}

#[test]
fn a_huge_page_that_its_program_breaks_up_is_replaced_ever_more_rarely() {
    let mut adaptive = adaptive();
    let observed = seen(regions(4, 512, 512));
    let mut promotions = Vec::new();
    for interval in 0..100 {
        let decided = adaptive.decide(&observed, &FailureMemory::default());
        if !decided.is_empty() {
            promotions.push(interval);
        }
        for action in decided {
            let done = Outcome::Done {
                resident_before: 2 << 20,
                resident_after: 2 << 20,
            };
            adaptive.learn(&action, done);
        }
    }
    assert_eq!(promotions, [1, 6, 15, 32, 65]);
}

#[test]
fn memory_touched_once_is_not_promoted() {
    let mut adaptive = adaptive();
    assert_eq!(
        adaptive.decide(&seen(regions(100, 512, 512)), &FailureMemory::default()),
        []
    );
    assert_eq!(decides(&mut *adaptive, &seen(regions(100, 512, 0)), 20), []);
}

#[test]
fn memory_in_use_is_promoted_at_the_first_whole_interval() {
    let mut adaptive = adaptive();
    let mut first = seen(regions(100, 512, 0));
    first.processes[0].accesses_known = false;
    assert_eq!(adaptive.decide(&first, &FailureMemory::default()), []);
    assert_eq!(
        adaptive.decide(&seen(regions(100, 512, 512)), &FailureMemory::default()),
        all(100)
    );
}

#[test]
fn short_lived_memory_is_left_alone() {
    // MEGA table 5: the same addresses, freed and mapped again; every second look finds half of them.
    let mut adaptive = adaptive();
    let (low, high) = (
        regions(500, 512, 512),
        (500..1000).map(|index| base(index, 512, 512)).collect(),
    );
    let looks = [seen(low), seen(high), seen(regions(1000, 512, 512))];
    for look in looks.iter().cycle().take(30) {
        assert_eq!(adaptive.decide(look, &FailureMemory::default()), []);
    }
    // Once it stops freeing, it is served, after a few intervals more than another.
    let steady = &looks[2];
    let waited = (0..20)
        .take_while(|_| {
            adaptive
                .decide(steady, &FailureMemory::default())
                .is_empty()
        })
        .count();
    assert!((1..10).contains(&waited), "{waited} intervals");
}

#[test]
fn neighbours_stay_together_whatever_the_noise() {
    let noisy = (0..100)
        .map(|index| base(index, 512, 500 + (index * 7 % 11) as u16))
        .collect();
    assert_eq!(decides(&mut *adaptive(), &seen(noisy), 2), all(100));
}

#[test]
fn nothing_is_promoted_when_memory_is_short() {
    let with = |percent| {
        let observed = observation(available(percent), &[(1, regions(100, 512, 512))]);
        decides(&mut *adaptive(), &observed, 3).len()
    };
    assert_eq!(with(9), 0);
    assert_eq!(with(11), 100);
}

#[test]
fn promotions_leave_the_watermark_untouched() {
    // 51 base pages missing in each; what may be added is just under 10 MiB.
    let memory = MemoryObservation {
        available: 10 * GIB + (10 << 20),
        ..available(11)
    };
    let observed = observation(memory.clone(), &[(1, regions(1000, 461, 461))]);
    let decided = decides(&mut *adaptive(), &observed, 2).len() as u64;
    let added = decided * 51 * 4096;
    assert!(
        added + HUGE_PAGE_SIZE <= 10 << 20 && added + 2 * HUGE_PAGE_SIZE > 10 << 20,
        "{decided}"
    );
}

/// Lets it inspect and decide as the engine does: only what it asks for is counted.
fn step(adaptive: &mut dyn Policy, truth: &Observation) -> Vec<Action> {
    let mut observed = truth.clone();
    let inspected = adaptive.inspect(&observed);
    for process in &mut observed.processes {
        for region in &mut process.regions {
            let wanted = |target: &mega_core::RegionRef| {
                target.process == process.process && target.region == region.region
            };
            region.zero_filled = region.zero_filled.filter(|_| inspected.iter().any(wanted));
        }
    }
    adaptive.decide(&observed, &FailureMemory::default())
}

#[test]
fn without_pressure_a_cold_huge_page_stays() {
    let cold = observation(available(16), &[(1, vec![huge(0, false, Some(512))])]);
    let mut adaptive = adaptive();
    for _ in 0..50 {
        assert_eq!(adaptive.inspect(&cold), []);
        assert_eq!(step(&mut *adaptive, &cold), []);
    }
}

#[test]
fn under_pressure_cold_huge_pages_that_are_mostly_zero_are_demoted_worst_first() {
    let pages = vec![
        huge(0, false, Some(100)),
        huge(1, false, Some(500)),
        huge(2, true, Some(416)),
        huge(3, true, Some(417)),
        huge(4, false, Some(59)),
        huge(5, false, Some(0)),
    ];
    let truth = observation(available(5), &[(1, pages)]);
    let mut adaptive = adaptive();
    let mut decided = Vec::new();
    for _ in 0..5 {
        decided = step(&mut *adaptive, &truth);
    }
    // Cold from 60 zero-filled base pages, in use only from 417; never those with nothing to give back.
    assert_eq!(decided, [demote(1, 1), demote(1, 0)]);
    let mut young = self::adaptive();
    assert_eq!(step(&mut *young, &truth), [], "the first look only begins");
    assert_eq!(
        step(&mut *young, &truth),
        [demote(1, 1), demote(1, 3)],
        "nearly all zeros need not be cold"
    );
}

#[test]
fn no_more_is_demoted_than_the_shortage_asks_for() {
    let pages = (0..1000)
        .map(|index| huge(index, false, Some(512)))
        .collect();
    let memory = MemoryObservation {
        available: 15 * GIB - (100 << 20),
        ..available(15)
    };
    let mut adaptive = adaptive();
    step(&mut *adaptive, &observation(available(5), &[(1, vec![])]));
    let truth = observation(memory.clone(), &[(1, pages)]);
    let mut decided = Vec::new();
    for _ in 0..5 {
        decided = step(&mut *adaptive, &truth);
    }
    assert_eq!(decided.len(), 50, "100 MiB");
    assert_eq!(step(&mut *adaptive, &observation(available(15), &[])), []);
}

#[test]
fn what_was_demoted_comes_back_only_without_pressure_and_when_well_used() {
    let demoted = || {
        let mut adaptive = adaptive();
        let truth = observation(
            available(5),
            &[(
                1,
                (0..8).map(|index| huge(index, false, Some(400))).collect(),
            )],
        );
        for _ in 0..5 {
            step(&mut *adaptive, &truth);
        }
        for index in 0..8 {
            let done = Outcome::Done {
                resident_before: 2 << 20,
                resident_after: 112 << 12,
            };
            adaptive.learn(&demote(1, index), done);
        }
        adaptive
    };
    let sees = |percent, mapped, accessed| {
        decides(
            &mut *demoted(),
            &observation(available(percent), &[(1, regions(8, mapped, accessed))]),
            30,
        )
    };
    assert_eq!(sees(50, 512, 512), all(8));
    assert_eq!(sees(50, 512, 255), [], "not used well enough");
    assert_eq!(sees(50, 112, 112), [], "it would be bloat again");
    assert_eq!(sees(9, 512, 512), [], "pressure has not ended");
}

#[test]
fn where_accesses_are_never_known_old_memory_mapped_whole_is_promoted() {
    let mut blind = seen(regions(100, 512, 0));
    blind.processes[0].accesses_known = false;
    let mut adaptive = adaptive();
    assert_eq!(decides(&mut *adaptive, &blind, 2), []);
    assert_eq!(adaptive.decide(&blind, &FailureMemory::default()), all(100));
    let mut sparse = seen(regions(100, 64, 0));
    sparse.processes[0].accesses_known = false;
    assert_eq!(decides(&mut *policy("adaptive", &[]), &sparse, 50), []);
}

#[test]
fn would_says_what_it_would_do_once_settled() {
    let outlook = would(adaptive(), &seen(regions(100, 512, 64)));
    assert_eq!(
        (
            outlook.wanted[ActionKind::Promote],
            outlook.wanted[ActionKind::Demote]
        ),
        (100, 0)
    );
    assert_eq!(
        (outlook.bytes_copied, outlook.bytes_given_back),
        (100 * HUGE_PAGE_SIZE, 0)
    );
    let outlook = would(
        policy("mega", &[]),
        &seen(vec![base(0, 512, 512), huge(1, false, Some(100))]),
    );
    assert_eq!(
        (
            outlook.wanted[ActionKind::Promote],
            outlook.wanted[ActionKind::Demote],
            outlook.bytes_given_back
        ),
        (1, 1, 100 << 12)
    );
    let short = observation(
        available(5),
        &[(1, vec![huge(1, false, Some(100)), huge(2, true, Some(100))])],
    );
    let outlook = would(adaptive(), &short);
    assert_eq!(
        (
            outlook.wanted[ActionKind::Promote],
            outlook.wanted[ActionKind::Demote],
            outlook.bytes_given_back
        ),
        (0, 1, 100 << 12)
    );
}
