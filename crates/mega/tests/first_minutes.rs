//! The first minutes: `mega` alone, the end of `mega doctor`, and `mega init`.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use live::{area, can_run, finish, json, mega, run, start, text};
use tempfile::TempDir;

#[test]
fn mega_alone_says_what_to_do_next() {
    let folder = TempDir::new().expect("a folder");
    let output = run(mega().env("MEGA_RUN_DIR", folder.path()));
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stdout);
    assert!(said.lines().count() <= 6, "{said}");
    assert!(
        said.contains("mega doctor") && said.contains("mega --help"),
        "{said}"
    );
}

#[test]
fn the_doctor_ends_with_what_is_worth_doing() {
    let output = run(mega().arg("doctor"));
    let said = text(&output.stdout);
    let (_, end) = said
        .split_once("Worth doing here, in this order:")
        .expect("the end");
    let lines: Vec<&str> = end.trim().lines().map(str::trim).collect();
    assert!((1..=3).contains(&lines.len()), "{said}");
    assert!(lines[0].starts_with("1. "), "{said}");
    if can_run("the_doctor_ends_with_what_is_worth_doing") {
        let report = json(mega().args(["doctor", "--json"]));
        assert_eq!(report["worth_doing"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn a_configuration_is_written_from_what_runs_and_never_over_another() {
    const NAME: &str = "a_configuration_is_written_from_what_runs_and_never_over_another";
    if !can_run(NAME) {
        return;
    }
    // On the file system of the binary, which is linked to.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("a \"program\" [x]");
    std::fs::hard_link(live::mega_lab(), &program).expect("linked");
    let mut command = Command::new(&program);
    let (running, ready) = start(command.args([
        "workload",
        "random",
        "--size=128MiB",
        "--until-eof",
        "--json",
    ]));
    let config = folder.path().join("etc/mega.toml");
    let init = || {
        run(mega()
            .args(["init", "--min-resident=128MiB", "--config"])
            .arg(&config))
    };
    let output = init();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("mega daemon --check"));
    let written = std::fs::read_to_string(&config).expect("a configuration");
    assert!(written.contains(&format!("pid {}", ready.pid)), "{written}");
    assert!(
        written.contains("adaptive would make 128 MiB more huge"),
        "{written}"
    );
    let checked = run(mega().args(["daemon", "--check", "--config"]).arg(&config));
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    std::fs::write(&config, "mine").expect("written");
    let again = init();
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("overwrites none"));
    assert_eq!(
        std::fs::read_to_string(&config).expect("it is there"),
        "mine"
    );
    finish(running);
}

#[test]
fn a_user_without_root_looks_at_their_own_programs_and_learns_what_more_takes() {
    const NAME: &str = "a_user_without_root_looks_at_their_own_programs_and_learns_what_more_takes";
    const NOBODY: u32 = 65534;
    if !can_run(NAME) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).expect("opened");
    // By another program: a child that another test starts just then would inherit the files as we write them, and what
    // is open for writing cannot be run.
    let copied = run(Command::new("cp")
        .arg(mega().get_program())
        .arg(live::mega_lab())
        .arg(folder.path()));
    assert!(copied.status.success());
    let as_nobody = |program: &str| {
        let mut command = Command::new(folder.path().join(program));
        command
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .env("MEGA_RUN_DIR", folder.path().join("run"));
        command
    };
    let arguments = [
        "workload",
        "random",
        "--size=64MiB",
        "--until-eof",
        "--json",
    ];
    let (running, ready) = start(as_nobody("mega-lab").args(arguments));
    let pid = ready.pid.to_string();
    let scan = json(as_nobody("mega").args(["scan", "--dry-run", "--json", &pid]));
    let memory = area(&ready, "random");
    let mapped: u64 = live::regions_of(&scan, memory)
        .into_iter()
        .map(|region| live::number(region, "mapped"))
        .sum();
    assert_eq!(mapped, memory.bytes);
    let refused = run(as_nobody("mega").args(["promote", &pid]));
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        text(&refused.stderr).contains("run as root"),
        "{}",
        text(&refused.stderr)
    );
    let next = run(&mut as_nobody("mega"));
    assert!(
        text(&next.stdout).contains("as root"),
        "{}",
        text(&next.stdout)
    );
    finish(running);
}
