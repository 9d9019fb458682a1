//! Records of damo's become recordings, and recordings records that say the same.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::time::Duration;

use mega_core::{
    HUGE_PAGE_SIZE, Observation, PageSize, ProcessId, ProcessObservation, Region, RegionObservation,
};
use mega_record::damo::{self, ImportError};
use mega_record::{Header, Look};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// As damo 3.4.3 writes it: numbers as strings, some of them with commas.
const RECORD: &str = r#"[
  {"kdamond_idx": 0, "context_idx": 0, "scheme_idx": null, "target_id": 7, "scheme_filters": [],
   "intervals": {"sample_us": "5,000", "aggr_us": "100,000", "ops_update_us": "1,000,000"},
   "snapshots": [
     {"start_time": "82877215633000", "end_time": "82877315633000", "total_bytes": "8388608", "damos_stats": null,
      "regions": [
        {"start": "4,194,304", "end": "8,388,608", "nr_accesses": {"samples": 3, "percent": null},
         "age": {"usec": null, "aggr_intervals": "5"}, "probe_hits": [], "sz_filter_passed": "0 B"},
        {"start": "8,388,608", "end": "9,437,184", "nr_accesses": {"samples": 0, "percent": null},
         "age": {"usec": null, "aggr_intervals": "6"}, "probe_hits": [], "sz_filter_passed": "0 B"}]},
     {"start_time": 82877315633000, "end_time": 82877415633000,
      "regions": [{"start": 4194304, "end": 6291456, "nr_accesses": {"samples": null, "percent": 100}}]}],
   "data_source": "unknown"},
  {"target_id": 9, "intervals": null, "snapshots": []}]"#;

/// First address, mapped and accessed base pages of each region.
fn seen(look: &Look) -> Vec<(u64, u16, u16)> {
    let regions = look.observation.processes[0].regions.iter();
    let seen = regions.map(|region| (region.region.start(), region.mapped, region.accessed));
    seen.collect()
}

#[test]
fn a_record_of_damos_becomes_looks() {
    let record = damo::read(RECORD.as_bytes(), None).unwrap();
    assert_eq!((record.target, record.others), (7, vec![9]));
    assert_eq!(
        (record.header.tracker.as_str(), record.header.interval_ms),
        ("damon", 100)
    );
    let [first, second] = record.looks.as_slice() else {
        panic!("{:?}", record.looks);
    };
    // 3 of 20 samples: 77 of 512 pages at least. Of the last region only a half is there.
    assert_eq!(
        seen(first),
        [(4 * MIB, 512, 77), (6 * MIB, 512, 77), (8 * MIB, 256, 0)]
    );
    assert_eq!(seen(second), [(4 * MIB, 512, 512)]);
    let tenth = Duration::from_millis(100);
    assert_eq!((first.at, second.at), (tenth, tenth * 2));
    assert_eq!(second.observation.interval, tenth);
}

#[test]
fn without_intervals_the_most_samples_are_all() {
    let record = RECORD.replace(r#""5,000""#, "0");
    let record = damo::read(record.as_bytes(), Some(7)).unwrap();
    assert_eq!(seen(&record.looks[0])[0], (4 * MIB, 512, 512));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let refused = |text: &str, target| damo::read(text.as_bytes(), target).unwrap_err().to_string();
    let no_target = refused(RECORD, Some(8));
    assert!(
        no_target.contains("target 8; its targets are: 7, 9"),
        "{no_target}"
    );
    assert!(refused(RECORD, Some(9)).contains("no snapshot of target 9"));
    for (from, to, why) in [
        (
            r#""9,437,184""#,
            r#""8,388,608""#,
            "snapshot 0 has a region with impossible addresses",
        ),
        (
            r#""9,437,184""#,
            r#""999,999,999,999,999,999""#,
            "impossible addresses",
        ),
        (r#""9,437,184""#, "140737488355328", "has more than 8 TiB"),
        (r#""4,194,304""#, r#""4 MiB""#, "\"4 MiB\" is no number"),
        (r#""4,194,304""#, "-1", "no record of damo's"),
        (
            "82877415633000",
            "1",
            "snapshot 1 ends before the first begins",
        ),
        (
            r#""samples": null, "percent": 100"#,
            "",
            "does not say how often",
        ),
    ] {
        let text = RECORD.replace(from, to);
        assert_ne!(text, RECORD);
        let said = refused(&text, None);
        assert!(said.contains(why), "{to}: {said}");
    }
    assert!(matches!(
        damo::read(&b"\x78\x9c and no zlib"[..], None),
        Err(ImportError::Io(_))
    ));
}

const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_time: 3,
};

fn looks(accessed: &[Vec<u16>]) -> Vec<Look> {
    let region = |(index, accessed): (usize, &u16)| RegionObservation {
        region: Region::containing((index as u64 + 100) * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed: *accessed,
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    };
    let look = |(place, accessed): (usize, &Vec<u16>)| Look {
        at: Duration::from_millis(250) * u32::try_from(place).unwrap(),
        observation: Observation {
            interval: Duration::from_millis(250),
            processes: vec![ProcessObservation {
                process: PROCESS,
                cpu_time: None,
                regions: accessed.iter().enumerate().map(region).collect(),
                accesses_known: place > 0,
                node: None,
                cgroup: None,
            }],
            ..Observation::default()
        },
        ..Look::default()
    };
    accessed.iter().enumerate().map(look).collect()
}

fn exported(looks: &[Look]) -> Vec<u8> {
    let mut out = Vec::new();
    let again = || Ok::<_, String>(looks.iter().cloned());
    let pids = damo::export(&Header::default(), again, &mut out).unwrap();
    assert_eq!(pids, [PROCESS.pid]);
    out
}

#[test]
fn a_huge_page_was_accessed_whole_or_not_at_all() {
    let mut looks = looks(&[vec![0, 0], vec![1, 0]]);
    for region in &mut looks[1].observation.processes[0].regions {
        region.page_size = PageSize::Huge;
    }
    let record = damo::read(exported(&looks).as_slice(), None).unwrap();
    let accessed: Vec<u16> = seen(&record.looks[0]).iter().map(|seen| seen.2).collect();
    assert_eq!(accessed, [512, 0]);
}

proptest! {
    /// What was exported says the same when it is read again, but for the first look, at which nothing was known.
    #[test]
    fn what_is_exported_is_read_as_it_was(accessed in prop::collection::vec(prop::collection::vec(0u16..=512, 1..20), 2..20)) {
        let looks = looks(&accessed);
        let record = damo::read(exported(&looks).as_slice(), Some(7)).unwrap();
        let expected: Vec<_> = looks[1..].iter().map(seen).collect();
        prop_assert_eq!(record.looks.iter().map(seen).collect::<Vec<_>>(), expected);
        let intervals = record.looks.iter().map(|look| look.observation.interval);
        prop_assert!(intervals.into_iter().all(|interval| interval == Duration::from_millis(250)));
    }

    /// Whatever a file holds, reading it ends with looks or with an error.
    #[test]
    fn no_file_makes_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..RECORD.len()) {
        let _ = damo::read(bytes.as_slice(), None);
        let _ = damo::read(&RECORD.as_bytes()[..cut], None);
    }

    /// Nor does any number in it.
    #[test]
    fn no_number_makes_it_fail(numbers in prop::array::uniform6(any::<u64>()), samples in any::<f64>()) {
        let [sample, aggregation, start, end, from, to] = numbers;
        let samples = if samples.is_finite() { samples } else { 0.5 };
        // What lies within the addresses, too: the way that ends with looks.
        for (start, end) in [(start, end), (start % (1 << 30), end % (1 << 30))] {
            let text = format!(
                r#"[{{"intervals": {{"sample_us": {sample}, "aggr_us": {aggregation}}}, "snapshots": [
                    {{"start_time": {from}, "end_time": {to}, "regions": [
                        {{"start": {start}, "end": {end}, "nr_accesses": {{"samples": {samples:e}}}}}]}}]}}]"#
            );
            let _ = damo::read(text.as_bytes(), None);
        }
    }
}
