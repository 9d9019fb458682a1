//! What a run teaches, on programs made by hand and at random.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::observation::RegionObservation;
use crate::page::{HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, Region};
use crate::worth::Estimate;

const MEMORY: MappingClass = MappingClass {
    kind: MappingKind::Anonymous,
    size_log2: 30,
};

fn profile() -> Profile {
    Profile::new(Key::new("/usr/bin/prog", ["serve"], None))
}

fn region(index: usize, mapped: u16, page_size: PageSize) -> RegionObservation {
    RegionObservation {
        region: Region::containing(index as u64 * HUGE_PAGE_SIZE),
        mapped,
        accessed: 0,
        page_size,
        zero_filled: None,
        swapped: 0,
    }
}

/// A program that touches `touched[i]` base pages of region i, and leaves zeros in `zeros` of them.
struct Program {
    touched: Vec<u16>,
    zeros: u16,
}

impl Program {
    fn dense() -> Self {
        Program {
            touched: vec![PAGES_PER_REGION; 64],
            zeros: 0,
        }
    }

    fn sparse() -> Self {
        Program {
            touched: vec![16; 64],
            zeros: 0,
        }
    }

    /// One run: it fills one region after the other, 0.1 s each; then all is promoted where `promoted`.
    fn run(&self, huge_from_the_start: bool, promoted: bool) -> RunSummary {
        let mut learner = Learner::default();
        let mut look = |now: usize, regions: &[RegionObservation]| {
            let mapping = MappingLook {
                class: MEMORY,
                range: 0..1 << 30,
                regions,
            };
            learner.look(Duration::from_millis(100 * now as u64), &[mapping]);
        };
        let size = |huge| if huge { PageSize::Huge } else { PageSize::Base };
        let at_end = |huge: bool| -> Vec<RegionObservation> {
            let regions = self.touched.iter().enumerate();
            let pages = |touched: u16| if huge { PAGES_PER_REGION } else { touched };
            regions
                .map(|(index, &touched)| region(index, pages(touched), size(huge)))
                .collect()
        };
        let end = at_end(huge_from_the_start);
        for filled in 0..end.len() {
            let mut so_far = end[..filled].to_vec();
            // The region that it is about to fill.
            so_far.push(region(filled, 1, PageSize::Base));
            look(filled, &so_far);
        }
        look(end.len(), &end);
        look(end.len() + 1, &end);
        let later = at_end(huge_from_the_start || promoted);
        let mapping = MappingLook {
            class: MEMORY,
            range: 0..1 << 30,
            regions: &later,
        };
        learner.look(Duration::from_secs(3600), &[mapping]);
        for inside in learner.to_look_into() {
            let index = usize::try_from(inside.start() / HUGE_PAGE_SIZE).unwrap();
            let zeros = PAGES_PER_REGION - self.touched[index] + self.zeros;
            learner.looked_into(inside, zeros);
        }
        learner.summary()
    }
}

#[test]
fn memory_that_fills_up_gets_huge_pages_next_time() {
    for promoted in [false, true] {
        let mut profile = profile();
        assert_eq!(profile.verdict(MEMORY), Verdict::Base(Reason::Unknown));
        let run = Program::dense().run(false, promoted);
        assert!(profile.learn(&run).is_empty());
        assert_eq!(profile.verdict(MEMORY), Verdict::Huge);
        assert_eq!(profile.verdict_as_a_whole(), Verdict::Huge);
        assert_eq!(profile.resident_base, Some(64 * HUGE_PAGE_SIZE));
        // And so it stays.
        for _ in 0..3 {
            assert!(profile.learn(&Program::dense().run(true, false)).is_empty());
            assert_eq!(profile.verdict(MEMORY), Verdict::Huge);
        }
        assert_eq!(profile.resident_huge, Some(64 * HUGE_PAGE_SIZE));
    }
}

#[test]
fn sparse_memory_keeps_base_pages() {
    for promoted in [false, true] {
        let mut profile = profile();
        profile.learn(&Program::sparse().run(false, promoted));
        assert_eq!(profile.verdict(MEMORY), Verdict::Base(Reason::Sparse));
        assert_ne!(profile.verdict_as_a_whole(), Verdict::Huge);
    }
}

#[test]
fn a_program_that_became_sparse_is_found_out_and_told() {
    let mut profile = profile();
    profile.learn(&Program::dense().run(false, true));
    for (times, runs) in [1, 2, 4, 8].into_iter().enumerate() {
        // Whether it was seen before the huge pages came, or told by its zeros.
        let huge_at_once = times % 2 == 0;
        let run = Program::sparse().run(huge_at_once, true);
        assert_eq!(profile.learn(&run), [MEMORY], "{times}");
        for _ in 0..runs {
            assert_eq!(profile.verdict(MEMORY), Verdict::Base(Reason::Wasted));
            assert_eq!(profile.verdict_as_a_whole(), Verdict::Base(Reason::Wasted));
            profile.learn(&Program::dense().run(false, true));
        }
        assert_eq!(profile.verdict(MEMORY), Verdict::Huge);
    }
}

#[test]
fn what_huge_pages_save_is_kept_from_the_last_run_with_base_pages() {
    let dense = Program::dense();
    let (base, huge) = (dense.run(false, true), dense.run(true, false));
    let mut profile = profile();
    for (run, measured, kept) in [(&base, 0.4, 0.4), (&huge, 0.0, 0.4), (&base, 0.1, 0.1)] {
        profile.learn_gain(run, Estimate::exact(measured));
        assert_eq!(profile.saved_share, Some(Estimate::exact(kept)));
    }
}

#[test]
fn zeros_that_the_program_writes_are_no_waste() {
    let program = Program {
        zeros: 300,
        ..Program::dense()
    };
    let mut profile = profile();
    profile.learn(&program.run(false, true));
    assert_eq!(profile.verdict(MEMORY), Verdict::Huge);
    assert!(profile.learn(&program.run(true, false)).is_empty());
    assert_eq!(profile.verdict(MEMORY), Verdict::Huge);
}

#[test]
fn huge_pages_that_the_program_asked_for_are_no_mistake() {
    let mut profile = profile();
    assert!(
        profile
            .learn(&Program::sparse().run(true, false))
            .is_empty()
    );
    assert_eq!(profile.verdict(MEMORY), Verdict::Base(Reason::Unknown));
}

#[test]
fn what_is_told_of_a_profile_is_its_interface() {
    let mut profile = profile();
    profile.learn(&Program::dense().run(false, true));
    let json = serde_json::to_value(&profile).unwrap();
    let names: Vec<&str> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for name in [
        "version",
        "name",
        "executable",
        "arguments",
        "unit",
        "runs",
        "mappings",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(json["mappings"][0]["class"]["kind"], "anonymous");
}

fn summaries() -> impl Strategy<Value = RunSummary> {
    let class = (0..3_usize, 0..64_u8).prop_map(|(kind, size_log2)| MappingClass {
        kind: [
            MappingKind::Heap,
            MappingKind::Anonymous,
            MappingKind::Shared,
        ][kind],
        size_log2,
    });
    let zeros = || prop::option::of(0.0..=1.0);
    let mapping = (
        (class, 0..u64::MAX, 0..1_000_u64, 0..=512_u64, 0..1_000_u64),
        (0.0..1e6, zeros(), zeros()),
    );
    let mapping = mapping.prop_map(|(counts, (filled_seconds, full, unknown))| {
        let (class, touched_regions, known_regions, pages, huge_regions) = counts;
        MappingSummary {
            class,
            touched_regions,
            known_regions,
            known_pages: known_regions * pages,
            huge_regions,
            filled_seconds,
            zeros_when_full: full,
            zeros_when_unknown: unknown,
        }
    });
    (
        prop::collection::vec(mapping, 0..30),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(mappings, resident, started_huge)| RunSummary {
            mappings,
            resident,
            started_huge,
            seconds: 1.0,
        })
}

proptest! {
    /// Whatever runs report, a profile stays small, can be stored, and chooses huge pages only where the program fills what
    /// it touches, and not after waste.
    #[test]
    fn a_profile_stays_small_and_careful(runs in prop::collection::vec(summaries(), 0..12)) {
        let mut profile = profile();
        for run in &runs {
            for class in profile.learn(run) {
                prop_assert_ne!(profile.verdict(class), Verdict::Huge);
            }
            for known in &profile.mappings {
                if known.verdict() == Verdict::Huge {
                    prop_assert!(known.filled >= Some(1.0 - WASTE_ALLOWED));
                    prop_assert_eq!(known.base_for, 0);
                }
            }
        }
        prop_assert!(profile.mappings.len() <= 16);
        prop_assert!(profile.mappings.is_sorted_by(|a, b| a.class < b.class));
        let text = serde_json::to_string(&profile).unwrap();
        prop_assert!(text.len() < 8 << 10, "{}", text.len());
        let back: Profile = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(back.mappings.len(), profile.mappings.len());
        prop_assert_eq!(back.key, profile.key);
    }

    /// What a program touches decides, however it came to be seen.
    #[test]
    fn what_is_touched_decides(touched in prop::collection::vec(1..=PAGES_PER_REGION, 8..80), promoted: bool) {
        let pages: u64 = touched.iter().copied().map(u64::from).sum();
        let all = touched.len() as u64 * u64::from(PAGES_PER_REGION);
        let program = Program { touched, zeros: 0 };
        let mut profile = profile();
        profile.learn(&program.run(false, promoted));
        let wastes = (all - pages) * 50 > all;
        prop_assert_eq!(profile.verdict(MEMORY) == Verdict::Huge, !wastes);
    }

    /// No order of looks makes the learner say what cannot be.
    #[test]
    fn a_summary_is_within_bounds(
        looks in prop::collection::vec(
            prop::collection::vec((0..50_usize, 1..=PAGES_PER_REGION, any::<bool>()), 0..60), 0..10),
    ) {
        let mut learner = Learner::default();
        for (now, look) in looks.iter().enumerate() {
            let mut regions: Vec<RegionObservation> = look
                .iter()
                .map(|&(index, mapped, huge)| {
                    region(index, mapped, if huge { PageSize::Huge } else { PageSize::Base })
                })
                .collect();
            regions.sort_by_key(|seen| seen.region);
            regions.dedup_by_key(|seen| seen.region);
            let mapping = MappingLook { class: MEMORY, range: 0..1 << 30, regions: &regions };
            learner.look(Duration::from_secs(now as u64), &[mapping]);
            for inside in learner.to_look_into() {
                learner.looked_into(inside, 17);
            }
        }
        for mapping in learner.summary().mappings {
            prop_assert!(mapping.known_regions <= mapping.touched_regions);
            prop_assert!(mapping.huge_regions <= mapping.touched_regions);
            prop_assert!(mapping.known_pages <= mapping.known_regions * u64::from(PAGES_PER_REGION));
            prop_assert!((0.0..=10.0).contains(&mapping.filled_seconds));
        }
    }
}
