//! `mega record` of workloads that know what they touch.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use live::{
    HUGE_PAGE, WHOLE_CORE, area, finish, json, mega, mega_run, number, run, skip, start, text,
    until_promoted, workload,
};
use mega_core::compaction::Emptied;
use mega_core::engine::{Budgets, Engine, Interval};
use mega_core::promotion::{self, Parameters};
use mega_core::{ActionKind, CallKind, HUGE_PAGE_SIZE, Outcome};
use mega_lab::mapping::{Area, WORDS_PER_PAGE};
use mega_lab::workload::report::AreaReport;
use mega_record::replay::{ReplayedMachine, Terms, follow};
use mega_record::{Ending, Header, Look, Reader, Usable};
use rustix::process::{Pid, Signal, kill_process};

/// Reads a recording.
fn read(file: &Path) -> (Header, Vec<Look>, Usable) {
    let mut reader = Reader::new(File::open(file).expect("the file")).expect("a recording");
    let looks = reader.by_ref().collect();
    (reader.header().clone(), looks, reader.usable().clone())
}

/// The base pages mapped and accessed in each region of an area, at one look at a process; nothing where it was not seen.
fn pages_of(look: &Look, pid: u32, area: &AreaReport) -> Vec<(u16, u16)> {
    let processes = look.observation.processes.iter();
    processes
        .filter(|seen| seen.process.pid == pid)
        .flat_map(|seen| &seen.regions)
        .filter(|seen| (area.start..area.start + area.bytes).contains(&seen.region.start()))
        .map(|seen| (seen.mapped, seen.accessed))
        .collect()
}

fn record(options: &[&str], file: &Path) -> Command {
    let mut command = mega();
    command.arg("record").args(options).arg("-o").arg(file);
    command
}

#[test]
fn hot_regions_are_recorded_as_accessed_and_cold_ones_are_not() {
    let name = "hot_regions_are_recorded_as_accessed_and_cold_ones_are_not";
    if !live::can_run(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let (target, ready) = start(&mut workload(&["hot-cold", "--size=64MiB", "--until-eof"]));
    let pid = ready.pid.to_string();
    let report = json(&mut record(
        &["--pid", &pid, "--interval=500ms", "--for=4s", "--json"],
        &file,
    ));
    let (header, looks, usable) = read(&file);
    assert_eq!(usable.ending, Ending::Whole);
    assert_eq!(usable.looks, number(&report, "looks"));
    assert_eq!(usable.bytes, number(&report, "bytes"));
    assert!(looks.len() >= 2, "{report}");
    let missed: u64 = looks.iter().map(|look| u64::from(look.missed)).sum();
    assert_eq!(missed, number(&report, "missed"));
    assert_eq!(header.subject, format!("process {pid}"));
    let first = looks.first().expect("a look");
    assert!(first.news.others.is_some() && !first.free_lists.is_empty());
    let names: Vec<&String> = first.news.names.values().collect();
    assert_eq!(names, ["mega-lab"]);
    let covers = |area: &AreaReport| {
        let ranges = first.news.mappings.values().flatten();
        let end = area.start + area.bytes;
        ranges
            .clone()
            .any(|range| range.start <= area.start && end <= range.end)
    };
    let (hot, cold) = (area(&ready, "hot"), area(&ready, "cold"));
    assert!(covers(hot) && covers(cold), "{:?}", first.news.mappings);
    for look in &looks {
        for area in [hot, cold] {
            let pages = pages_of(look, ready.pid, area);
            assert!(pages.iter().all(|(mapped, _)| *mapped == 512), "{pages:?}");
        }
    }
    if header.tracker == "mapped" {
        return skip(name, "the tracker here sees no accesses");
    }
    let known = looks.iter().skip(1);
    let accessed = |area| {
        let pages = known
            .clone()
            .flat_map(move |look| pages_of(look, ready.pid, area));
        pages.map(|(_, accessed)| accessed).collect::<Vec<_>>()
    };
    assert!(accessed(cold).iter().all(|pages| *pages == 0));
    // On a busy machine the program may not come to touch all that is hot between two looks.
    let most = accessed(hot).into_iter().max();
    assert!(most >= Some(500), "{most:?}");
    finish(target);
}

#[test]
fn what_a_program_maps_and_frees_between_two_looks_is_recorded_at_its_time() {
    let name = "what_a_program_maps_and_frees_between_two_looks_is_recorded_at_its_time";
    if !live::can_run(name) {
        return;
    }
    const SIZE: u64 = 32 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let size = format!("--size={SIZE}");
    let (target, ready) = start(&mut workload(&["grow", "--bursts", &size, "--until-eof"]));
    let pid = ready.pid.to_string();
    let options = [
        "--pid",
        &pid,
        "--interval=400ms",
        "--for=3s",
        "--all-calls",
        "--json",
    ];
    json(&mut record(&options, &file));
    finish(target);
    let (header, looks, _) = read(&file);
    if let Some(why) = &header.no_calls {
        assert!(!header.calls);
        return skip(name, why);
    }
    assert!(header.calls);
    let mut last = Duration::ZERO;
    let (mut mapped, mut unmapped) = (0, 0);
    for look in &looks {
        for call in &look.calls {
            assert!(last <= call.at && call.at <= look.at, "{call:?}");
            assert_eq!(call.process.pid, ready.pid);
            last = call.at;
            let is_whole = |range: &Range<u64>| range.end - range.start >= SIZE;
            mapped += u32::from(matches!(&call.kind, CallKind::Mapped(range) if is_whole(range)));
            unmapped +=
                u32::from(matches!(&call.kind, CallKind::Unmapped(range) if is_whole(range)));
        }
    }
    // One follows the other.
    assert!(
        unmapped >= 2 && mapped.abs_diff(unmapped) <= 1,
        "{mapped} and {unmapped}"
    );
    let told = text(&run(mega().args(["lab", "trace-info"]).arg(&file)).stdout);
    let line = told
        .lines()
        .find(|line| line.starts_with("changes of mappings: "));
    assert!(
        line.is_some_and(|line| line.contains(" munmap (")),
        "{told}"
    );
}

#[test]
fn a_command_is_recorded_until_it_ends_and_its_exit_code_is_passed_on() {
    let name = "a_command_is_recorded_until_it_ends_and_its_exit_code_is_passed_on";
    if !live::can_run(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let mut command = record(&["--interval=50ms"], &file);
    let output = run(command.args(["--", "sh", "-c", "sleep 3; exit 7"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("looks at"), "{said}");
    let (header, looks, usable) = read(&file);
    assert_eq!(usable.ending, Ending::Whole);
    assert_eq!(header.subject, "sh -c sleep 3; exit 7");
    let names: Vec<&String> = looks
        .iter()
        .flat_map(|look| look.news.names.values())
        .collect();
    assert!(names.iter().any(|name| *name == "sleep"), "{names:?}");
}

#[test]
fn what_a_killed_recorder_wrote_is_usable_and_a_second_one_is_refused() {
    let name = "what_a_killed_recorder_wrote_is_usable_and_a_second_one_is_refused";
    if !live::can_run(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec");
    let (target, ready) = start(&mut workload(&["random", "--size=16MiB", "--until-eof"]));
    let pid = ready.pid.to_string();
    let mut recorder = record(&["--pid", &pid, "--interval=10ms"], &file)
        .spawn()
        .expect("mega starts");
    let length = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
    live::until("a header", || length(&file) > 0);
    let begun = length(&file);
    live::until("a block of looks", || length(&file) > begun);
    let other = run(&mut record(&["--pid", &pid], &folder.path().join("b.rec")));
    assert_eq!(other.status.code(), Some(1));
    assert!(
        text(&other.stderr).contains("managed by another mega"),
        "{}",
        text(&other.stderr)
    );
    recorder.kill().expect("killed");
    recorder.wait().expect("it ends");
    let (_, looks, usable) = read(&file);
    assert_eq!(usable.ending, Ending::Cut);
    assert!(!looks.is_empty());

    // One that is asked to stop ends its file well.
    let file = folder.path().join("c.rec");
    let mut recorder = record(&["--pid", &pid, "--interval=10ms"], &file)
        .spawn()
        .expect("mega starts");
    live::until("a header", || length(&file) > 0);
    let recorder_pid = Pid::from_child(&recorder);
    kill_process(recorder_pid, Signal::INT).expect("signalled");
    let status = recorder.wait().expect("it ends");
    let (_, _, usable) = read(&file);
    assert!(
        status.success() && usable.ending == Ending::Whole,
        "{status}: {usable}"
    );
    finish(target);
}

/// A manager that promotes a program as soon as it can, writes a recording, and at its end a report.
fn recorded(file: &Path, report: &Path, size: &str) -> Command {
    let record = format!("--record={}", file.display());
    let report = format!("--report={}", report.display());
    let options = [
        "--policy=ingens",
        "--interval=300ms",
        WHOLE_CORE,
        &record,
        &report,
    ];
    mega_run(&options, &["random", size, "--until-eof"])
}

#[test]
fn a_manager_records_each_step_and_what_came_of_its_actions() {
    if !live::can_run("a_manager_records_each_step_and_what_came_of_its_actions") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, report) = (folder.path().join("a.rec"), folder.path().join("a.json"));
    let (target, ready) = start(&mut recorded(&file, &report, "--size=32MiB"));
    let area = area(&ready, "random").clone();
    until_promoted(target.child.id(), area.bytes / HUGE_PAGE);
    finish(target);
    let (header, looks, usable) = read(&file);
    assert_eq!(usable.ending, Ending::Whole);
    assert_eq!(header.policy.as_deref(), Some("ingens"));
    let report = std::fs::read(&report).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let actions = &report["groups"][0]["actions"];
    assert_eq!(usable.looks, number(actions, "steps"));
    let acted = || looks.iter().flat_map(|look| &look.actions);
    let done = |kind| {
        let done = acted().filter(|acted| {
            acted.action.kind == kind && matches!(acted.outcome, Outcome::Done { .. })
        });
        done.count() as u64
    };
    assert_eq!(done(ActionKind::Promote), number(actions, "promoted"));
    assert_eq!(done(ActionKind::Demote), number(actions, "demoted"));
    let promoted = acted().filter(|acted| acted.action.target.process.pid == ready.pid);
    let starts: Vec<u64> = promoted
        .map(|acted| acted.action.target.region.start())
        .collect();
    let area_starts = (area.start..area.start + area.bytes).step_by(2 << 20);
    let found = area_starts.filter(|start| starts.contains(start)).count() as u64;
    assert!(found >= area.bytes / HUGE_PAGE / 10 * 9, "{starts:x?}");
    for pair in looks.windows(2) {
        let of_next = |acted: &&mega_record::Acted| acted.at <= pair[1].at;
        assert!(pair[0].actions.iter().all(|acted| of_next(&acted)));
    }
}

/// All of the free memory but some, of which every second base page is given back: there is room, and hardly a free block.
fn in_pieces() -> Area {
    /// Fewer blocks than the program of the test wants, and more than the kernel keeps to itself.
    const LEFT: u64 = 160 << 20;
    let memory = std::fs::read_to_string("/proc/meminfo").expect("the machine's memory");
    let free = memory.lines().find_map(|line| {
        let kibibytes = line.strip_prefix("MemFree:")?.strip_suffix("kB")?;
        kibibytes.trim().parse::<u64>().ok()
    });
    let bytes = (free.expect("free memory") << 10).saturating_sub(LEFT) / HUGE_PAGE * HUGE_PAGE;
    let mut area = Area::map(usize::try_from(bytes).expect("a length")).expect("memory");
    area.advise_base().expect("base pages");
    for page in 0..area.pages() {
        area.words_mut()[page * WORDS_PER_PAGE] = 1;
    }
    for page in (0..area.pages()).step_by(2) {
        area.give_back_pages(page..page + 1).expect("given back");
    }
    area
}

#[test]
#[ignore = "needs the kernel module, and fills memory: kernel/vm/suites/run module-live"]
fn what_a_manager_emptied_is_in_its_recording() {
    let _pieces = in_pieces();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, report) = (folder.path().join("a.rec"), folder.path().join("a.json"));
    let (target, _) = start(&mut recorded(&file, &report, "--size=384MiB"));
    let manager = target.child.id();
    live::until("an emptied block", || {
        let status = json(mega().args(["status", "--json"]));
        let managers = status["managers"].as_array().cloned().unwrap_or_default();
        let mut ours = managers.iter().filter(|status| status["pid"] == manager);
        ours.any(|status| status["compaction"]["emptied"].as_u64() > Some(0))
    });
    finish(target);
    let (_, looks, usable) = read(&file);
    assert_eq!(usable.ending, Ending::Whole);
    let report = std::fs::read(&report).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let emptied: Vec<Emptied> = looks
        .iter()
        .flat_map(|look| &look.compacted)
        .map(|compacted| compacted.emptied)
        .collect();
    let counted = |of: fn(&Emptied) -> u64| emptied.iter().map(of).sum::<u64>();
    let told = |what| number(&report["compaction"], what);
    assert_eq!(counted(|_| 1), told("tried"));
    let is_free = |emptied: &Emptied| u64::from(emptied.stopped.is_free());
    assert_eq!(counted(is_free), told("emptied"));
    assert!(told("emptied") > 0);
    let migrated = counted(|emptied| emptied.counts.migrated);
    assert_eq!(migrated, told("pages_migrated"));
    assert!(migrated > 0, "{emptied:?}");
    for pair in looks.windows(2) {
        let between = pair[0].at..=pair[1].at;
        let mut compacted = pair[0].compacted.iter();
        assert!(compacted.all(|compacted| between.contains(&compacted.at)));
    }
    let mut lab = Command::new(live::mega_lab());
    let info = json(lab.arg("trace-info").arg(&file).arg("--json"));
    assert_eq!(info["compaction"]["pages_migrated"], migrated);
    println!("{} tried, {migrated} pages moved", emptied.len());
}

/// On a busy machine the program may not come to touch all that is hot between two looks: then it is recorded for longer.
#[test]
fn a_recorded_program_replays_to_what_is_known_of_it() {
    let name = "a_recorded_program_replays_to_what_is_known_of_it";
    if !live::can_run(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (target, ready) = start(&mut workload(&["hot-cold", "--size=64MiB", "--until-eof"]));
    let (hot, cold) = (regions(area(&ready, "hot")), regions(area(&ready, "cold")));
    let all: BTreeSet<u64> = hot.union(&cold).copied().collect();
    let recorded = |seconds: u32| {
        let file = folder.path().join(format!("{seconds}.rec"));
        let (pid, seconds) = (ready.pid.to_string(), format!("--for={seconds}s"));
        let options = ["--pid", &pid, "--interval=200ms", &seconds, "--json"];
        json(&mut record(&options, &file));
        let (header, looks, _) = read(&file);
        (header, looks)
    };
    let mut last = None;
    let is_known = [4, 16, 32].into_iter().any(|seconds| {
        let (header, looks) = recorded(seconds);
        if header.tracker == "mapped" {
            last = None;
            return true;
        }
        let promoted = |policy| -> BTreeSet<u64> {
            let promoted = promoted(policy, &header, &looks);
            promoted.intersection(&all).copied().collect()
        };
        // MEGA promotes what is used, Ingens what is full.
        let found = [promoted("mega"), promoted("ingens")];
        assert!(found[0].is_disjoint(&cold), "{found:?}");
        last = Some(found.clone());
        found == [hot.clone(), all.clone()]
    });
    finish(target);
    assert!(is_known, "hot {hot:x?}, cold {cold:x?}, promoted {last:x?}");
    if last.is_none() {
        skip(name, "the tracker here sees no accesses");
    }
}

/// The starts of an area's regions.
fn regions(area: &AreaReport) -> BTreeSet<u64> {
    let numbers = 0..area.bytes / HUGE_PAGE_SIZE;
    numbers
        .map(|number| area.start + number * HUGE_PAGE_SIZE)
        .collect()
}

/// The starts of the regions that a policy has promoted at the end of a recording.
fn promoted(policy: &str, header: &Header, looks: &[Look]) -> BTreeSet<u64> {
    let machine = ReplayedMachine::new(header, looks.iter().cloned(), Terms::default());
    let policy = promotion::build(policy, &Parameters::new()).expect("a policy");
    let interval = Interval::Fixed(Duration::from_millis(200));
    let course = follow(Engine::new(policy, Budgets::default(), interval), machine).0;
    let promoted = course.promoted.iter();
    promoted.map(|target| target.region.start()).collect()
}

/// On a busy machine a manager may not come to all that it was predicted to do: then it is tried again.
#[test]
fn a_replay_predicts_what_a_policy_does_live() {
    let name = "a_replay_predicts_what_a_policy_does_live";
    if !live::can_run(name) {
        return;
    }
    let options =
        "replay-error --program hot-cold --policy ingens,base --size 32MiB --interval 200 --json";
    let holds = |seconds: u32| {
        let seconds = format!("--seconds={seconds}");
        let mut command = mega();
        command.arg("lab").args(options.split(' ')).arg(seconds);
        let found = json(&mut command);
        let comparisons = found["comparisons"]
            .as_array()
            .expect("comparisons")
            .clone();
        assert_eq!(comparisons.len(), 2, "{found}");
        let predicted = &comparisons[0];
        assert!(number(predicted, "predicted_regions") > 0, "{found}");
        assert_eq!(comparisons[1]["predicted_regions"], 0, "{found}");
        comparisons.iter().all(|one| one["holds"] == true)
    };
    assert!([4, 8, 16].into_iter().any(holds), "no prediction held");
}
