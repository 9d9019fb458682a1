use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mega_core::{
    HUGE_PAGE_SIZE, MemoryObservation, ProcessId, ProcessObservation, Region, RegionObservation,
};
use mega_record::{Header, Look, News, Reader, TouchRate, Writer};

use super::*;
use crate::sim::numbers::number;

const MIB: u64 = 1 << 20;
const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_time: 1,
};
/// The parts of the known program, as regions: all of it is used; mapped and never used; one page in eight mapped and used.
const HOT: std::ops::Range<u64> = 512..520;
const COLD: std::ops::Range<u64> = 600..608;
const SPARSE: std::ops::Range<u64> = 700..704;

fn region(index: u64, mapped: u16, accessed: u16) -> RegionObservation {
    RegionObservation {
        region: Region::containing(index * HUGE_PAGE_SIZE),
        mapped,
        accessed,
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    }
}

/// A recording of so many seconds, with a measurement of touches if there is one.
fn write(path: &Path, seconds: u64, touches: Option<TouchRate>, more: &[RegionObservation]) {
    let header = Header {
        cpus: 4,
        touches: touches.is_some(),
        ..Header::default()
    };
    let file = std::fs::File::create(path).unwrap();
    let mut writer = Writer::new(file, &header).unwrap();
    for second in 0..seconds {
        let hot = HOT.map(|index| region(index, 512, 512));
        let cold = COLD.map(|index| region(index, 512, 0));
        let sparse = SPARSE.map(|index| region(index, 64, 64));
        let regions = hot.chain(cold).chain(sparse).chain(more.iter().copied());
        let mut news = News::default();
        if second == 0 {
            news.mappings = [(PROCESS, std::iter::once(1 << 30..1 << 31).collect())].into();
        }
        if second == 1 {
            news.touches = touches
                .map(|rate| (PROCESS, rate))
                .into_iter()
                .collect::<BTreeMap<_, _>>();
        }
        let look = Look {
            at: Duration::from_secs(second),
            observation: mega_core::Observation {
                interval: Duration::from_secs(second.min(1)),
                processes: vec![ProcessObservation {
                    process: PROCESS,
                    cpu_time: None,
                    regions: regions.collect(),
                    accesses_known: second > 0,
                    node: None,
                    cgroup: None,
                }],
                memory: MemoryObservation {
                    total: 256 * MIB,
                    available: 200 * MIB,
                    free: 180 * MIB,
                    contiguity: 160 * MIB,
                    nodes: Vec::new(),
                },
                ..mega_core::Observation::default()
            },
            news,
            ..Look::default()
        };
        writer.write(&look).unwrap();
    }
    writer.finish().unwrap();
}

fn args(folder: &Path, files: &[&str], system: &[&str]) -> Args {
    Args {
        files: files.iter().map(|file| folder.join(file)).collect(),
        beside: Vec::new(),
        memory: None,
        alone: false,
        fragmentation: None,
        cpu: SKYLAKE_SP,
        host_pages: None,
        system: system.iter().map(|&name| name.to_owned()).collect(),
        seed: 1,
        out: folder.join("out"),
        json: true,
    }
}

/// What a table says of a row under each system.
fn numbers(json: &str, title: &str, row: usize) -> Vec<Option<f64>> {
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    let tables = report["tables"].as_array().unwrap();
    let table = tables
        .iter()
        .find(|table| table["title"].as_str().unwrap().starts_with(title));
    let ours = table.unwrap()["rows"][row]["ours"]
        .as_array()
        .unwrap()
        .clone();
    ours.iter().map(serde_json::Value::as_f64).collect()
}

/// Hot regions are huge under mega, full ones under ingens, none with base pages; and nobody adds memory.
#[test]
fn a_known_program_comes_to_the_known_answer_alone_and_two_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one.rec", "two.rec"] {
        write(&folder.path().join(name), 180, None, &[]);
    }
    let all = number(16 * 512 + 4 * 64);
    for files in [&["one.rec"][..], &["one.rec", "two.rec"]] {
        let json = run(&args(folder.path(), files, &["base", "ingens", "mega"])).unwrap();
        for row in 0..files.len() {
            let large = numbers(&json, "part of its memory in huge", row);
            let resident = numbers(&json, "resident memory", row);
            for (place, most) in [(0, 0.0), (1, 16.0 * 512.0 / all), (2, 8.0 * 512.0 / all)] {
                // A mean over three minutes: they begin with none, and mega waits for nearly one.
                let large = large[place].unwrap();
                assert!(
                    large <= most && large >= most * 0.5,
                    "{place}: {large} of {most}"
                );
                assert_eq!(resident[place], Some(all * 4096.0));
            }
            assert_eq!(numbers(&json, "how late", row), [Some(0.0); 3]);
            assert_eq!(numbers(&json, "time of translation", row), [None; 3]);
        }
    }
}

#[test]
fn measured_touches_take_their_time_and_huge_pages_save_some() {
    let folder = tempfile::tempdir().unwrap();
    let rate = TouchRate {
        per_cpu_second: 2e6,
        cpus: 0.5,
        working_set: 16 * MIB,
        gain: None,
    };
    write(&folder.path().join("one.rec"), 40, Some(rate), &[]);
    let json = run(&args(folder.path(), &["one.rec"], &["base", "ingens"])).unwrap();
    let cpu = numbers(&json, "CPU time", 0);
    // Half of a CPU for 39 s, as it was recorded with base pages.
    let base = cpu[0].unwrap();
    assert!((base / 19.5 - 1.0).abs() < 0.05, "{base}");
    let translation = numbers(&json, "time of translation", 0);
    let (base, huge) = (translation[0].unwrap(), translation[1].unwrap());
    assert!(base > 0.0 && huge < base, "{huge} of {base}");
    assert!(cpu[1].unwrap() < cpu[0].unwrap());
}

/// What a huge page mapped is in use, no system sees it, and it is told how much it is.
#[test]
fn what_the_recording_hides_is_blind() {
    let folder = tempfile::tempdir().unwrap();
    let huge = RegionObservation {
        page_size: PageSize::Huge,
        ..region(720, 512, 512)
    };
    write(&folder.path().join("one.rec"), 10, None, &[huge]);
    let json = run(&args(folder.path(), &["one.rec"], &["base"])).unwrap();
    let all = number(16 * 512 + 4 * 64);
    let blind = numbers(&json, "blind", 0)[0].unwrap();
    assert!((blind - 512.0 / (all + 512.0)).abs() < 1e-9, "{blind}");
    assert_eq!(numbers(&json, "resident memory", 0), [Some(all * 4096.0)]);
    assert_eq!(numbers(&json, "part of its memory in huge", 0), [Some(0.0)]);
}

#[test]
fn programs_beside_it_run_as_long_as_it_does() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("one.rec"), 2, None, &[]);
    let beside = ["idle:8MiB", "cache:8MiB"].map(|one| Beside::parse(one).unwrap());
    let args = Args {
        beside: beside.to_vec(),
        ..args(folder.path(), &["one.rec"], &["base"])
    };
    let first = run(&args).unwrap();
    assert_eq!(
        first,
        run(&args).unwrap(),
        "the same command gives the same bytes"
    );
    assert!(numbers(&first, "operations a second", 0)[0].unwrap() > 0.0);
    let report = std::fs::read_to_string(folder.path().join("out/recording/report.md")).unwrap();
    assert!(
        report.contains("--beside idle:8388608 --beside cache:8388608"),
        "{report}"
    );
}

#[test]
fn a_file_that_is_no_recording_and_one_that_is_cut_are_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.rec");
    let refused = |files: &[&str]| {
        let error = run(&args(folder.path(), files, &["base"])).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(refused(&["missing.rec"]).contains("missing.rec"));
    std::fs::write(&path, "nothing of the kind").unwrap();
    assert!(refused(&["one.rec"]).contains("not a recording"));
    write(&path, 20, None, &[]);
    let whole = std::fs::read(&path).unwrap();
    // So that only the header is left.
    let header = Reader::new(whole.as_slice()).unwrap().usable().bytes;
    let header = usize::try_from(header).unwrap();
    std::fs::write(&path, &whole[..header + 3]).unwrap();
    assert!(refused(&["one.rec"]).contains("no look"));
    // Its end alone is missing: what lies before runs.
    std::fs::write(&path, &whole[..whole.len() - 2]).unwrap();
    run(&args(folder.path(), &["one.rec"], &["base"])).unwrap();
    // More than there is room for.
    let args = Args {
        beside: vec![Beside::parse("idle:4GiB").unwrap()],
        ..args(folder.path(), &["one.rec"], &["base"])
    };
    let error = run(&args).unwrap_err().to_string();
    assert!(error.contains("--memory"), "{error}");
}

#[test]
fn alone_it_has_the_machine_to_itself_in_pieces_or_whole() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("one.rec"), 3, None, &[]);
    let free = |fragmentation| {
        let args = Args {
            memory: Some(512 * MIB),
            alone: true,
            fragmentation,
            ..args(folder.path(), &["one.rec"], &["base"])
        };
        numbers(&run(&args).unwrap(), "free memory in blocks", 0)[0].unwrap()
    };
    assert!(free(Some(0.0)) > number(440 * MIB), "{}", free(Some(0.0)));
    assert!(free(Some(0.9)) < number(100 * MIB), "{}", free(Some(0.9)));
}

#[test]
fn parts_are_read() {
    assert_eq!((part("80%"), part("0.25")), (Ok(0.8), Ok(0.25)));
    for wrong in ["101%", "2", "-1%", "many"] {
        assert!(part(wrong).is_err(), "{wrong}");
    }
}
