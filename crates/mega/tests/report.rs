//! `mega report`: the last day of a real daemon, over a reload and a restart.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::process::{Command, Output};

use live::daemon::{Daemon, Place};
use live::{can_run, finish, mega, run, start, text, until};
use rustix::process::Signal;
use serde_json::Value;

fn state_dir(place: &Place) -> std::path::PathBuf {
    place.0.path().join("state")
}

/// A daemon that keeps its state in the place.
fn daemon(place: &Place, more: &str) -> Daemon {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec \"$0\" \"$@\" {more}")])
        .arg(mega().get_program())
        .env("MEGA_RUN_DIR", place.run_dir());
    Daemon::spawn(&mut command, &place.config())
}

fn report(place: &Place, arguments: &[&str]) -> Output {
    let mut command = mega();
    command.arg("report").args(arguments);
    run(command.env("MEGA_RUN_DIR", place.run_dir()))
}

/// The slots of the only daemon.
fn slots(place: &Place) -> Vec<Value> {
    let output = report(place, &["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let slots = answer["days"][0]["slots"].as_array();
    slots.cloned().unwrap_or_default()
}

/// A sum over the slots of what they say of the selection.
fn sum(slots: &[Value], of: impl Fn(&Value) -> u64) -> u64 {
    let selections = slots
        .iter()
        .filter_map(|slot| slot["selections"].as_array())
        .flatten();
    selections
        .filter(|selection| selection["name"] == "mine")
        .map(of)
        .sum()
}

fn promoted(slots: &[Value]) -> u64 {
    sum(slots, |selection| {
        selection["done"]["promoted"].as_u64().unwrap_or(0)
    })
}

fn cpu(slots: &[Value]) -> f64 {
    let cpu = slots.iter().filter_map(|slot| slot["cpu_seconds"].as_f64());
    cpu.sum()
}

#[test]
fn a_day_survives_a_reload_and_a_restart() {
    if !can_run("a_day_survives_a_reload_and_a_restart") {
        return;
    }
    let place = Place::new();
    place.select_program("ingens");
    let nobody = report(&place, &[]);
    assert_eq!(nobody.status.code(), Some(1));
    assert_eq!(
        text(&nobody.stderr),
        "mega: no `mega daemon` is running that has a history"
    );
    let (program, _) = start(&mut place.workload());
    let first = daemon(&place, "");
    // It looks every ten seconds.
    until("promotions in the report", || {
        promoted(&slots(&place)) >= 30
    });
    let before = slots(&place);
    let most = |field: &str| {
        let values = before.iter().filter_map(|slot| {
            let mine = slot["selections"].as_array()?.first()?;
            mine[field].as_u64()
        });
        values.max().unwrap_or(0)
    };
    assert_eq!(most("processes"), 1, "{before:?}");
    assert!(most("mapped") >= 60 << 20, "{before:?}");
    assert!(cpu(&before) > 0.0);

    place.select_program("base");
    first.signal(Signal::HUP);
    first.logs("reloaded");
    assert!(promoted(&slots(&place)) >= promoted(&before));
    assert_eq!(first.stop(), Some(0));

    let second = daemon(&place, "");
    until("the day of before the restart", || {
        let now = slots(&place);
        promoted(&now) >= promoted(&before) && cpu(&now) > cpu(&before)
    });
    // A second daemon may run, and keeps its own day in memory.
    let folder = place.0.path().join("page.html");
    let name = folder.to_string_lossy().into_owned();
    let written = report(&place, &["-o", &name]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert!(written.stdout.is_empty() && written.stderr.is_empty());
    let page = std::fs::read_to_string(&folder).expect("the page");
    assert!(page.contains(">Memory of mine over time</title>"), "{page}");
    assert!(page.contains("program"), "{page}");
    let refused = report(&place, &["-o", "/nowhere/page.html"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    finish(program);
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn who_has_no_place_for_it_keeps_the_day_in_memory() {
    if !can_run("who_has_no_place_for_it_keeps_the_day_in_memory") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let kept_in = |place: &Place| {
        let output = report(place, &["--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let days = answer["days"].as_array().cloned().unwrap_or_default();
        days.into_iter()
            .map(|day| day["kept_in"].clone())
            .collect::<Vec<_>>()
    };
    let first = daemon(&place, "");
    let second = daemon(&place, "");
    second.logs("the history of the day ends with this daemon: another mega keeps its own in");
    until("both answer", || kept_in(&place).len() == 2);
    let in_memory = kept_in(&place).iter().filter(|kept| kept.is_null()).count();
    assert_eq!(in_memory, 1);
    assert_eq!(first.stop(), Some(0));
    assert_eq!(second.stop(), Some(0));

    // A dry run leaves nothing behind.
    std::fs::remove_dir_all(state_dir(&place)).expect("removed");
    let dry = daemon(&place, "--dry-run");
    until("it answers", || kept_in(&place) == [Value::Null]);
    assert_eq!(dry.stop(), Some(0));
    assert!(!state_dir(&place).join("history").exists());
}
