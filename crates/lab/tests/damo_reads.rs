//! damo itself reads what `mega lab damo` makes of a recording.
//!
//! `DAMO` names its `damo.py`: `make test-long` fetches it, and runs this.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mega_core::{
    HUGE_PAGE_SIZE, Observation, PageSize, ProcessId, ProcessObservation, Region, RegionObservation,
};
use mega_record::{Header, Look, Writer};
use serde_json::Value;

/// A region as damo has it: its addresses, and the samples that saw it accessed.
type Seen = (u64, u64, u64);

const PIDS: [u32; 2] = [7, 9];
/// Of the recording; damo knows nothing of the first.
const LOOKS: u64 = 5;
const INTERVAL: Duration = Duration::from_millis(250);
const FIRST: u64 = 100;

/// The base pages of a process that were accessed at a look: in its first region ever more, in the next two always the same, behind
/// a hole none, and the last is a huge page, of which one is known to be.
fn regions(pid: u32, look: u64) -> Vec<RegionObservation> {
    let more = u16::try_from(look).unwrap() * 100 + u16::try_from(pid).unwrap();
    let region = |(index, accessed, page_size)| RegionObservation {
        region: Region::containing(index * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed,
        page_size,
        zero_filled: None,
        swapped: 0,
    };
    [
        (FIRST, more, PageSize::Base),
        (FIRST + 1, 3, PageSize::Base),
        (FIRST + 2, 3, PageSize::Base),
        (FIRST + 9, 0, PageSize::Base),
        (FIRST + 10, 1, PageSize::Huge),
    ]
    .map(region)
    .to_vec()
}

/// The same as damo is to have it.
fn expected(pid: u32, look: u64) -> Vec<Seen> {
    let at = |from: u64, to: u64| (from * HUGE_PAGE_SIZE, to * HUGE_PAGE_SIZE);
    [
        (at(FIRST, FIRST + 1), look * 100 + u64::from(pid)),
        (at(FIRST + 1, FIRST + 3), 3),
        (at(FIRST + 9, FIRST + 10), 0),
        (at(FIRST + 10, FIRST + 11), 512),
    ]
    .map(|((start, end), accessed)| (start, end, accessed))
    .to_vec()
}

fn record(file: &Path) {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for look in 0..LOOKS {
        let process = |pid| ProcessObservation {
            process: ProcessId { pid, start_time: 1 },
            cpu_time: None,
            regions: regions(pid, look),
            accesses_known: look > 0,
            node: None,
            cgroup: None,
        };
        let observation = Observation {
            interval: INTERVAL,
            processes: PIDS.map(process).to_vec(),
            ..Observation::default()
        };
        let look = Look {
            at: INTERVAL * u32::try_from(look).unwrap(),
            observation,
            ..Look::default()
        };
        writer.write(&look).unwrap();
    }
    std::fs::write(file, writer.finish().unwrap().0).unwrap();
}

/// What damo says of a record. It needs neither DAMON nor a privilege for that.
fn damo(program: &str, arguments: &[&str], record: &Path) -> String {
    let output = Command::new("python3")
        .args(["-I", program, "report"])
        .args(arguments)
        .arg("--input")
        .arg(record)
        .output()
        .expect("python3 runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "damo report {arguments:?}: {complaint}"
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A number, which damo writes as "209,715,200".
fn number(value: &Value) -> u64 {
    let text = match value {
        Value::String(text) => text.replace(',', ""),
        other => other.to_string(),
    };
    text.parse()
        .unwrap_or_else(|_| panic!("no number: {value}"))
}

fn seen(snapshot: &Value) -> Vec<Seen> {
    let regions = snapshot["regions"].as_array().expect("regions").iter();
    let seen = |region: &Value| {
        let [start, end] = ["start", "end"].map(|field| number(&region[field]));
        (start, end, number(&region["nr_accesses"]["samples"]))
    };
    regions.map(seen).collect()
}

#[test]
#[ignore = "needs damo: make test-long fetches it"]
fn damo_reads_what_is_exported_as_it_was_recorded() {
    let Ok(program) = std::env::var("DAMO") else {
        let skipped = "SKIPPED damo_reads_what_is_exported_as_it_was_recorded: DAMO names no damo.py (kernel/vm/figures/fetch-damo)";
        // Past the capture of the test harness, which shows nothing of a test that passes.
        let _ = writeln!(std::io::stderr(), "{skipped}");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{skipped}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (file, exported) = (
        folder.path().join("a.rec"),
        folder.path().join("damon.data"),
    );
    record(&file);
    let done = Command::new(env!("CARGO_BIN_EXE_mega-lab"))
        .arg("damo")
        .args([&file, Path::new("-o"), &exported])
        .output()
        .expect("mega-lab runs");
    assert!(done.status.success(), "{done:?}");

    let said = damo(&program, &["access", "--json", "--raw_number"], &exported);
    let records: Value = serde_json::from_str(&said).expect("JSON");
    let records = records.as_array().expect("records");
    let targets: Vec<u64> = records
        .iter()
        .map(|one| number(&one["target_id"]))
        .collect();
    assert_eq!(targets, PIDS.map(u64::from));
    for (record, pid) in records.iter().zip(PIDS) {
        let aggregation = number(&record["intervals"]["aggr_us"]);
        assert_eq!(u128::from(aggregation), INTERVAL.as_micros());
        let snapshots = record["snapshots"].as_array().expect("snapshots");
        assert_eq!(snapshots.len() as u64, LOOKS - 1);
        for (snapshot, look) in snapshots.iter().zip(1_u32..) {
            let times =
                ["start_time", "end_time"].map(|field| u128::from(number(&snapshot[field])));
            assert_eq!(
                times,
                [look - 1, look].map(|look| (INTERVAL * look).as_nanos())
            );
            assert_eq!(
                seen(snapshot),
                expected(pid, look.into()),
                "{pid} at {look}"
            );
        }
    }

    // The most that can be seen of a page is what a huge page was: damo takes it for all of the time.
    let percent = &records[0]["snapshots"][0]["regions"][3]["nr_accesses"]["percent"];
    assert!(number(percent) >= 99, "{percent}");
    // It draws it, too: its heat map says which time it is of.
    let picture = damo(&program, &["heatmap", "--output", "stdout"], &exported);
    assert!(picture.contains("y-axis: time [0 ns, 1 s)"), "{picture}");
}
