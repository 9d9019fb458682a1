//! The table of processes against what `/proc` says of real processes.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use mega_core::ProcessId;
use mega_linux::kernel::LiveKernel;
use mega_linux::process::{self, Table};
use rustix::process::{Pid, Signal, kill_process_group};

/// A process that is ended with the test, and all that it has started.
struct Helper(Child);

impl Helper {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        Helper(command.spawn().unwrap())
    }

    fn id(&self) -> ProcessId {
        process::identify(&LiveKernel, self.0.id()).unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        kill_process_group(Pid::from_child(&self.0), Signal::KILL).unwrap();
        self.0.wait().unwrap();
    }
}

fn refreshed(table: &mut Table) {
    table.refresh(&LiveKernel, true).unwrap();
}

/// Tables that are kept up to date by what this machine allows.
fn tables() -> Vec<Table> {
    let mut by_bpf = Table::default();
    refreshed(&mut by_bpf);
    if rustix::process::geteuid().is_root() {
        assert!(by_bpf.is_by_bpf(), "root may use BPF");
        return vec![by_bpf, Table::by_proc()];
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "not root");
    eprintln!("SKIP the table by BPF: not root");
    vec![Table::by_proc()]
}

#[test]
fn both_ways_find_what_proc_says() {
    let helper = Helper::start("sleep 60 & wait");
    sleep(Duration::from_millis(200));
    let own = process::identify(&LiveKernel, std::process::id()).unwrap();
    for mut table in tables() {
        refreshed(&mut table);
        let descendants = table.descendants(own);
        assert!(descendants.contains(&helper.id()));
        assert!(
            descendants.len() >= 3,
            "the shell's child too: {descendants:?}"
        );
        for known in table.processes() {
            let Ok(facts) = process::facts(&LiveKernel, known.facts.process.pid) else {
                continue;
            };
            let told = &known.facts;
            assert_eq!(
                (told.process, told.uid, &told.cgroup),
                (facts.process, facts.uid, &facts.cgroup)
            );
        }
    }
}

#[test]
fn another_program_is_seen() {
    let mut helper = Helper::start("read line; exec sleep 60");
    let id = helper.id();
    // Not by the program's file: where busybox is the shell, it is `sleep` too.
    let name = |table: &Table| {
        let mut all = table.processes().iter();
        let found = all.find(|known| known.facts.process == id);
        found.unwrap().facts.name.clone()
    };
    let now = || process::facts(&LiveKernel, id.pid).unwrap().name;
    let mut tables = tables();
    for table in &mut tables {
        refreshed(table);
        assert_eq!(name(table), "sh");
    }
    helper.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    while now() != "sleep" {
        sleep(Duration::from_millis(10));
    }
    for table in &mut tables {
        refreshed(table);
        assert_eq!(name(table), "sleep");
    }
}

#[test]
fn who_runs_is_told_from_who_rests() {
    let resting = Helper::start("exec sleep 60");
    let running = Helper::start("while :; do :; done");
    sleep(Duration::from_millis(300));
    let mut table = tables().remove(0);
    if !table.is_by_bpf() {
        return;
    }
    refreshed(&mut table);
    let activity = |table: &Table, helper: &Helper| table.activity(helper.id()).unwrap();
    let before = [&resting, &running].map(|helper| activity(&table, helper));
    assert!(
        !before[0].is_idle_since(&before[0]),
        "one refresh says nothing"
    );
    sleep(Duration::from_millis(300));
    refreshed(&mut table);
    assert!(activity(&table, &resting).is_idle_since(&before[0]));
    assert!(!activity(&table, &running).is_idle_since(&before[1]));
}
