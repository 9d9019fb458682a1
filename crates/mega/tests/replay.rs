//! `mega replay` of recordings that the tests make themselves: no root, and no live program.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use mega_core::{
    Action, ActionKind, HUGE_PAGE_SIZE, MemoryObservation, Observation, Outcome, PageSize,
    ProcessId, ProcessObservation, Region, RegionObservation, RegionRef,
};
use mega_record::{Acted, Header, Look, News, Reader, TouchRate, Writer};
use serde_json::Value;

const GIB: u64 = 1 << 30;
const REGIONS: u64 = 64;

/// Two minutes of a program of which one half is used and the other never. The first `huge` regions are huge already.
fn recording(folder: &Path, huge: u64) -> PathBuf {
    let path = folder.join("a.rec");
    let header = Header {
        kernel: "6.12".to_owned(),
        tracker: "bpf".to_owned(),
        subject: "a <b>".to_owned(),
        interval_ms: 1000,
        ..Header::default()
    };
    let region = |index| RegionObservation {
        region: Region::containing(GIB + index * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed: if index < REGIONS / 2 { 512 } else { 0 },
        page_size: if index < huge {
            PageSize::Huge
        } else {
            PageSize::Base
        },
        zero_filled: None,
        swapped: 0,
    };
    let mut writer = Writer::new(File::create(&path).expect("a file"), &header).expect("written");
    for second in 0..120 {
        let look = Look {
            at: Duration::from_secs(second),
            missed: u32::from(second == 60),
            observation: Observation {
                interval: Duration::from_secs(second.min(1)),
                processes: vec![ProcessObservation {
                    process: PROCESS,
                    cpu_time: None,
                    regions: (0..REGIONS).map(region).collect(),
                    accesses_known: second > 0,
                    node: None,
                    cgroup: None,
                }],
                memory: MemoryObservation {
                    total: 16 * GIB,
                    available: 8 * GIB,
                    free: 8 * GIB,
                    contiguity: 8 * GIB,
                    nodes: Vec::new(),
                },
                ..Observation::default()
            },
            news: touches(second),
            ..Look::default()
        };
        writer.write(&look).expect("written");
    }
    writer.finish().expect("written");
    path
}

const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_time: 1,
};
/// Touches a second.
const TOUCHES: f64 = 2e6;

/// It uses one CPU, as was measured in the beginning.
fn touches(second: u64) -> News {
    let rate = TouchRate {
        per_cpu_second: TOUCHES,
        cpus: 1.0,
        working_set: REGIONS / 2 * HUGE_PAGE_SIZE,
        gain: None,
    };
    let measured = (second == 0).then_some((PROCESS, rate));
    News {
        touches: measured.into_iter().collect(),
        ..News::default()
    }
}

fn replay(file: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mega"))
        .arg("replay")
        .arg(file)
        .args(options)
        .output()
        .expect("mega runs")
}

fn json(file: &Path, options: &[&str]) -> Value {
    let output = replay(file, &[options, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn policies_are_compared_on_one_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let report = json(&file, &["--policy", "base,mega,ingens"]);
    let promoted: Vec<u64> = report["policies"]
        .as_array()
        .expect("policies")
        .iter()
        .map(|policy| policy["actions"]["promoted"].as_u64().expect("a number"))
        .collect();
    assert_eq!(promoted, [0, REGIONS / 2, REGIONS]);
    assert_eq!(report["open_loop"], true);
    assert_eq!(report["recording"]["looks"], 120);
    assert_eq!(report["recording"]["missed"], 1);
    assert_eq!(report["recording"]["broken"], Value::Null);
    let last = &report["policies"][2]["last"];
    assert_eq!(last["huge"], last["resident"]);
    let again = json(&file, &["--policy", "base,mega,ingens"]);
    assert_eq!(again, report, "the same recording gives the same");
}

/// What promotions take is that of the processor's machine, and walks in a guest are longer.
#[test]
fn a_processor_brings_its_costs_and_a_guest_its_walks() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let number = |report: &Value, path: &str| report.pointer(path).and_then(Value::as_f64);
    let cpu = |options: &[&str]| {
        let report = json(&file, &[&["--policy=ingens"], options].concat());
        number(&report, "/policies/0/cpu_seconds").expect("a number")
    };
    // Its memory is slower: a page's copy takes 2.29 us there, and 0.46 on MEGA's machine.
    assert!(cpu(&["--cpu=skylake-sp"]) > cpu(&[]));
    let translation = |options: &[&str]| {
        let options = [&["--policy=base", "--cpu=skylake-sp"], options].concat();
        let report = json(&file, &options);
        number(&report, "/policies/0/translation/seconds").expect("a number")
    };
    assert!(translation(&["--host-pages=huge"]) > translation(&[]));
    let alone = replay(&file, &["--host-pages=huge"]);
    assert_eq!(alone.status.code(), Some(2));
}

#[test]
fn fragmented_memory_holds_promotions_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let options = ["--policy=ingens", "--memory=16GiB", "--fragmentation=1.0"];
    let report = json(&file, &options);
    let actions = &report["policies"][0]["actions"];
    assert_eq!(actions["promoted"], 0);
    assert!(actions["failures"]["promote"]["no_memory"].as_u64() > Some(0));
}

#[test]
fn on_the_simulated_kernel_compaction_answers_what_promotions_lack() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    // 8 GiB are in use of 16: of this machine a few hundred MiB are free.
    let options = ["--policy=ingens", "--memory=8448MiB", "--fragmentation=1.0"];
    let report = json(&file, &[options.as_slice(), &["--simulated"]].concat());
    assert_eq!(report["simulated"], true);
    let policy = &report["policies"][0];
    assert!(policy["actions"]["promoted"].as_u64() > Some(0), "{policy}");
    assert!(policy["last"]["moved"].as_u64() > Some(0), "{policy}");
    let text = replay(&file, &["--policy=base", "--simulated", "--memory=8448MiB"]).stdout;
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(
        text.contains("Simulated: ") && text.contains("contiguous"),
        "{text}"
    );
    assert_eq!(
        json(&file, &options)["policies"][0]["actions"]["promoted"],
        0
    );
}

#[test]
fn a_processor_translates_faster_what_huge_pages_map() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let picture = folder.path().join("a.svg");
    let picture_option = format!("--svg={}", picture.display());
    let options = ["--policy=base,ingens", "--cpu=zen-2", &picture_option];
    let report = json(&file, &options);
    assert_eq!(report["processor"], "zen-2");
    let of = |policy: usize, what: &str| {
        report["policies"][policy]["translation"][what]
            .as_f64()
            .expect("a number")
    };
    assert!((of(0, "touches") - 119.0 * TOUCHES).abs() < 1.0);
    assert!((of(0, "program_cpu_seconds") - 119.0).abs() < 1e-6);
    assert_eq!(of(0, "seconds"), of(0, "recorded_seconds"));
    assert_eq!(of(1, "recorded_seconds"), of(0, "seconds"));
    // 64 MiB are more than its TLBs hold of base pages, and less than they hold of huge ones.
    assert!(of(1, "seconds") < of(0, "seconds") / 2.0, "{report}");
    let picture = std::fs::read_to_string(picture).expect("a picture");
    assert!(picture.contains("translation until then"));
    let text = replay(&file, &["--cpu=haswell"]).stdout;
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("a core of haswell"), "{text}");
    assert!(text.contains("contiguous"), "{text}");
    let unknown = replay(&file, &["--cpu=i486"]);
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("skylake-sp"), "{said}");
}

#[test]
fn the_table_says_what_to_know_to_believe_it_and_the_picture_has_a_line_for_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 16);
    let picture = folder.path().join("a.svg");
    let picture_option = format!("--svg={}", picture.display());
    let output = replay(&file, &["--policy=adaptive,base", &picture_option]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    for part in [
        "as recorded",
        "adaptive",
        "base",
        "open loop",
        "Blind: 25.0 %",
        "missed",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let picture = std::fs::read_to_string(picture).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    // Four plots of two policies, and three of the recording.
    assert_eq!(picture.matches("<polyline").count(), 11);
    assert!(picture.contains("a &lt;b&gt;, replayed"), "{picture}");
}

#[test]
fn a_cut_recording_is_replayed_as_far_as_it_goes_and_another_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let bytes = std::fs::read(&file).expect("the file");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    let report = json(&file, &["--policy=base"]);
    let looks = report["recording"]["looks"].as_u64().expect("a number");
    assert!((1..120).contains(&looks), "{looks}");
    let broken = report["recording"]["broken"].as_str().expect("why");
    assert!(broken.starts_with("it was cut off"), "{broken}");
    std::fs::write(&file, "something else").expect("written");
    let refused = replay(&file, &[]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("it is not a recording"), "{said}");
    let unknown = replay(&file, &["--policy=adaptiv"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn a_recording_without_a_look_is_refused_by_all_who_show_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cut.rec");
    let (whole, _) = Writer::new(Vec::new(), &Header::default())
        .and_then(Writer::finish)
        .expect("written");
    std::fs::write(&file, &whole[..whole.len() - 1]).expect("written");
    for command in ["replay", "report", "top"] {
        let output = Command::new(env!("CARGO_BIN_EXE_mega"))
            .arg(command)
            .arg(&file)
            .output()
            .expect("mega runs");
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(output.stdout.is_empty(), "{command}");
        let said = String::from_utf8_lossy(&output.stderr);
        let why = "cut.rec has no look: it was cut off; usable are 0 looks";
        assert!(said.contains(why), "{command}: {said}");
    }
}

/// What a host exchanged for the manager that recorded, and what was free in blocks, stand with the recording.
#[test]
fn what_was_exchanged_when_it_was_recorded_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let exchanged = GIB / 2;
    let reader = Reader::new(File::open(&file).expect("a file")).expect("a recording");
    let header = reader.header().clone();
    let mut looks: Vec<Look> = reader.collect();
    let at = looks[5].at;
    looks[5].actions.push(Acted {
        at,
        action: Action {
            kind: ActionKind::PromoteGiant,
            target: RegionRef {
                process: PROCESS,
                region: Region::containing(GIB),
            },
        },
        outcome: Outcome::Remapped {
            copied: 0,
            exchanged,
        },
    });
    let mut writer = Writer::new(File::create(&file).expect("a file"), &header).expect("written");
    for look in &looks {
        writer.write(look).expect("written");
    }
    writer.finish().expect("written");
    let report = json(&file, &["--policy=base"]);
    assert_eq!(report["recording"]["exchanged"], exchanged);
    assert_eq!(report["recording"]["contiguity"], 8 * GIB);
    let said = replay(&file, &["--policy=base"]).stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("exchange 512 MiB for giant pages"), "{said}");
    let recorded = said.lines().find(|line| line.starts_with("as recorded"));
    assert!(
        recorded.is_some_and(|line| line.ends_with("8 GiB")),
        "{said}"
    );
}

/// Each quantity has a table, a plot and values in JSON, which say the same of the same times.
#[test]
fn all_is_told_over_time_in_words_in_the_picture_and_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path(), 0);
    let picture = folder.path().join("a.svg");
    let picture_option = format!("--svg={}", picture.display());
    let options = ["--policy=base,ingens", "--cpu=zen-2", &picture_option];
    let report = json(&file, &options);
    let said = replay(&file, &options).stdout;
    let said = String::from_utf8(said).expect("UTF-8");
    let picture = std::fs::read_to_string(picture).expect("a picture");
    let points = report["policies"][1]["points"].as_array().expect("points");
    let at_end = &points[points.len() - 1];
    let bytes = |field: &str| mega_core::bytes::format(at_end[field].as_u64().expect("bytes"));
    let seconds = |field: &str| format!("{:.3} s", at_end[field].as_f64().expect("seconds"));
    let whole = || "100 %".to_owned();
    for (quantity, begins, ends, recorded) in [
        ("in huge pages", "0 %", whole(), Some("0 %".to_owned())),
        (
            "resident",
            "128 MiB",
            bytes("resident"),
            Some(bytes("recorded")),
        ),
        (
            "free memory in huge blocks",
            "8 GiB",
            bytes("contiguity"),
            Some(bytes("recorded_contiguity")),
        ),
        ("copied until then", "0 B", bytes("copied"), None),
        (
            "translation until then",
            "0.000 s",
            seconds("translation"),
            Some(seconds("recorded_translation")),
        ),
    ] {
        assert!(picture.contains(quantity), "{quantity}");
        let title = format!("\n{quantity} over time\n");
        let (_, table) = said.split_once(&title).unwrap_or_else(|| {
            panic!("{quantity} is missing in {said}");
        });
        let mut lines = table.lines();
        let times = lines.next().expect("times");
        assert!(times.contains("0 s") && times.ends_with("119 s"), "{times}");
        let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        if let Some(recorded) = recorded {
            assert!(rows[0].starts_with("as recorded"), "{table}");
            assert!(rows[0].ends_with(&recorded), "{quantity}: {}", rows[0]);
        }
        let ingens = rows[rows.len() - 1];
        let cells: Vec<&str> = ingens.split("  ").filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells.len(), 7, "{ingens}");
        assert_eq!((cells[0], cells[1].trim()), ("ingens", begins), "{ingens}");
        assert_eq!(cells[6].trim(), ends, "{ingens}");
    }
}
