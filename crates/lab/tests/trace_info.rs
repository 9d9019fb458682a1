//! `mega lab trace-info` of a recording whose parts are known.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use mega_core::compaction::{Emptied, MigrationCounts, Stopped, ToEmpty, Unit};
use mega_core::{
    HUGE_PAGE_SIZE, Observation, PageSize, ProcessId, ProcessObservation, Region, RegionObservation,
};
use mega_record::{Compacted, Header, Look, News, Writer};
use serde_json::Value;

const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_time: 1,
};

/// A minute of a process with three regions: used whole, never used, and huge.
fn recording(folder: &Path) -> PathBuf {
    let region = |index: u64, accessed, page_size| RegionObservation {
        region: Region::containing(index * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed,
        page_size,
        zero_filled: None,
        swapped: 0,
    };
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for second in 0..61 {
        let first = second == 0;
        let look = Look {
            at: Duration::from_secs(second),
            missed: u32::from(second == 9),
            observation: Observation {
                processes: vec![ProcessObservation {
                    process: PROCESS,
                    cpu_time: None,
                    regions: vec![
                        region(0x10, 512, PageSize::Base),
                        region(0x20, 0, PageSize::Base),
                        region(0x30, 512, PageSize::Huge),
                    ],
                    accesses_known: !first,
                    node: None,
                    cgroup: None,
                }],
                ..Observation::default()
            },
            news: News {
                names: first
                    .then(|| (PROCESS, "prog".to_owned()))
                    .into_iter()
                    .collect(),
                others: first.then(|| vec!["DAMON runs".to_owned()]),
                ..News::default()
            },
            compacted: if second == 30 {
                [Stopped::Emptied, Stopped::NoMemory].map(chunk).to_vec()
            } else {
                Vec::new()
            },
            ..Look::default()
        };
        writer.write(&look).unwrap();
    }
    let path = folder.join("a.rec");
    std::fs::write(&path, writer.finish().unwrap().0).unwrap();
    path
}

/// A chunk out of which a block's pages were moved.
fn chunk(stopped: Stopped) -> Compacted {
    Compacted {
        at: Duration::from_secs(30),
        emptied: Emptied {
            target: ToEmpty {
                unit: Unit::Chunk,
                first_pfn: 1 << 18,
                pages: 512,
                empties: true,
            },
            stopped,
            counts: MigrationCounts {
                migrated: 512,
                ..MigrationCounts::default()
            },
            took: Duration::from_millis(1),
        },
    }
}

fn trace_info(file: &Path, options: &[&str]) -> Output {
    lab("trace-info", file, options)
}

fn lab(command: &str, file: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mega-lab"))
        .arg(command)
        .arg(file)
        .args(options)
        .output()
        .expect("mega-lab runs")
}

#[test]
fn what_was_used_what_was_not_and_what_is_hidden_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let text = String::from_utf8(trace_info(&file, &[]).stdout).unwrap();
    let row = |address: &str| {
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with(address));
        let row = row.unwrap_or_else(|| panic!("{address} is missing in {text}"));
        let (_, cells) = row.split_once('|').unwrap();
        cells.trim_end_matches('|').to_owned()
    };
    let used = |cells: String| cells.chars().collect::<std::collections::BTreeSet<char>>();
    // The first look knows nothing of accesses. Of 64 columns, three have no look and show what was seen before.
    assert_eq!(used(row("2000000 ")), ['?', '█'].into());
    assert_eq!(used(row("4000000 ")), ['?', '.'].into());
    assert_eq!(used(row("6000000 ")), ['?', 'H'].into());
    for part in [
        "all of it is usable: 61 looks",
        "1 looks were missed",
        "also: DAMON runs",
        "prog",
        "compaction for it: 2 chunks: 1 emptied, 1 no memory; 4 MiB moved in 2.0 ms",
        "`e` blocks or chunks emptied",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn json_and_picture_have_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let picture = folder.path().join("a.svg");
    let option = format!("--svg={}", picture.display());
    let output = trace_info(&file, &["--json", "--pid=7", &option]);
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["processes"][0]["mapped"], 3 * HUGE_PAGE_SIZE);
    assert_eq!(info["processes"][0]["accessed"], 2 * HUGE_PAGE_SIZE);
    assert_eq!(info["processes"][0]["huge"], HUGE_PAGE_SIZE);
    assert_eq!(info["heat"]["rows"].as_array().unwrap().len(), 3);
    let at = info["heat"]["compacted"].as_array().unwrap().iter();
    let at: Vec<&Value> = at.filter(|cell| cell["emptied"] != 0).collect();
    assert_eq!(at.len(), 1, "{info}");
    assert_eq!(
        (&at[0]["failed"], &at[0]["pages_migrated"]),
        (&1.into(), &1024.into())
    );
    assert_eq!(info["compaction"]["stopped"]["no_memory"], 1);
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.contains("blocks or chunks emptied"));
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    let other = trace_info(&file, &["--pid=8"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("has no process 8"));
}

/// It goes there and back by `mega-lab damo`, and is drawn the same; a file that is neither is refused.
#[test]
fn a_recording_goes_to_damo_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path());
    let (record, back) = (
        folder.path().join("damon.data"),
        folder.path().join("b.rec"),
    );
    let damo = |from: &Path, to: &Path| {
        let output = lab("damo", from, &["-o", to.to_str().unwrap()]);
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, said) = damo(&file, &record);
    assert!(code == Some(0) && said.contains("targets 7"), "{said}");
    let (code, said) = damo(&record, &back);
    assert!(
        code == Some(0) && said.contains("60 looks of target 7"),
        "{said}"
    );
    let text = String::from_utf8(trace_info(&back, &[]).stdout).unwrap();
    assert!(text.contains("all of it is usable: 60 looks"), "{text}");
    std::fs::write(&record, "neither").unwrap();
    assert_eq!(damo(&record, &back).0, Some(1));
}

#[test]
fn a_recording_without_a_look_has_no_table_and_no_record_of_damos() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.rec");
    let (whole, _) = Writer::new(Vec::new(), &Header::default())
        .and_then(Writer::finish)
        .unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let text = String::from_utf8(trace_info(&file, &[]).stdout).unwrap();
    assert!(
        text.contains("it was cut off; usable are 0 looks"),
        "{text}"
    );
    assert!(!text.contains("pid"), "{text}");
    let record = folder.path().join("damon.data");
    let refused = lab("damo", &file, &["-o", record.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("cut.rec has no look"), "{said}");
    assert!(!record.exists());
}
