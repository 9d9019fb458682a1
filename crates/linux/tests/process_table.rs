//! The table of processes against what `/proc` says of real processes.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use mega_core::ProcessId;
use mega_linux::kernel::LiveKernel;
use mega_linux::process::{self, Table};

/// A process that is ended with the test.
struct Helper(Child);

impl Helper {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null());
        Helper(command.spawn().unwrap())
    }

    fn id(&self) -> ProcessId {
        process::identify(&LiveKernel, self.0.id()).unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
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
    if by_bpf.is_by_bpf() {
        return vec![by_bpf, Table::by_proc()];
    }
    assert_ne!(
        std::env::var("CI").as_deref(),
        Ok("true"),
        "BPF is not allowed here"
    );
    eprintln!("SKIP the table by BPF: BPF is not allowed here");
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
    let helper = Helper::start("sleep 0.5; exec sleep 60");
    let runs = |table: &Table| {
        let all = table.processes().iter();
        let mut own = all.filter(|known| known.facts.process == helper.id());
        let exe = own.next().unwrap().facts.exe.clone().unwrap();
        exe.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let mut tables = tables();
    for table in &mut tables {
        refreshed(table);
        assert_ne!(runs(table), "sleep");
    }
    sleep(Duration::from_secs(1));
    for table in &mut tables {
        refreshed(table);
        assert_eq!(runs(table), "sleep");
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
