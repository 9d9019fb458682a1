//! `mega top` in a real terminal: tmux runs it, types, and says what the screen shows.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::path::Path;
use std::process::{Command, Stdio};

use live::daemon::{Daemon, Place};
use live::{area, can_run, finish, mega, run, start, text, until, until_huge};
use tempfile::TempDir;

/// Whether tmux is there; says so, under the test's name, where it is not.
fn has_tmux(name: &str) -> bool {
    let found = Command::new("tmux").arg("-V").output().is_ok();
    if !found {
        live::skip(
            name,
            "tmux is not installed (scripts/install-lab-programs does that)",
        );
    }
    found
}

/// A terminal of 80 columns and 24 rows that runs one command, in a folder of its own.
struct Screen {
    folder: TempDir,
}

impl Screen {
    /// Runs mega with these arguments, and says `EXIT n` when it has ended.
    fn start(run_dir: &Path, arguments: &str) -> Self {
        let screen = Screen {
            folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"),
        };
        let command = format!(
            "env LC_ALL=C.UTF-8 MEGA_RUN_DIR={} {} {arguments}; echo EXIT $?; sleep 1000",
            run_dir.display(),
            mega().get_program().to_string_lossy()
        );
        let started = screen.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            &command,
        ]);
        assert!(started.status.success(), "{}", text(&started.stderr));
        screen
    }

    /// The folder that mega runs in.
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn tmux(&self, arguments: &[&str]) -> std::process::Output {
        run(Command::new("tmux")
            .arg("-S")
            .arg(self.folder().join("socket"))
            .args(arguments)
            .current_dir(self.folder())
            .env_remove("TMUX"))
    }

    fn shows(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]).stdout)
    }

    /// Waits until the screen shows all of this.
    fn until_it_shows(&self, wanted: &[&str]) {
        until(&format!("{wanted:?} on the screen"), || {
            let shown = self.shows();
            wanted.iter().all(|text| shown.contains(text))
        });
    }

    fn press(&self, keys: &[&str]) {
        let mut arguments = vec!["send-keys"];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    /// Clicks on the first place where the screen shows `word`, as a terminal tells it (SGR mouse reports).
    fn click(&self, word: &str) {
        let shown = self.shows();
        let found = shown.lines().enumerate().find_map(|(row, line)| {
            let before = line.split_once(word)?.0;
            Some((before.chars().count() + 1, row + 1))
        });
        let (column, row) = found.unwrap_or_else(|| panic!("{word} is not in\n{shown}"));
        for end in ['M', 'm'] {
            let report = format!("\x1b[<0;{column};{row}{end}");
            self.tmux(&["send-keys", "-l", &report]);
        }
    }

    /// The pid of mega, which the terminal's shell started.
    fn pid_of_mega(&self) -> u32 {
        let shell = text(&self.tmux(&["display-message", "-p", "#{pane_pid}"]).stdout);
        let children = format!("/proc/{shell}/task/{shell}/children");
        let children = std::fs::read_to_string(children).expect("its children");
        children.trim().parse().expect("one child")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The server is this test's own: it has a socket of its own.
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn a_daemons_processes_are_shown_opened_and_saved() {
    const NAME: &str = "a_daemons_processes_are_shown_opened_and_saved";
    if !can_run(NAME) || !has_tmux(NAME) {
        return;
    }
    let place = Place::new();
    place.select_program("ingens");
    let daemon = Daemon::start(&place);
    let (program, ready) = start(&mut place.workload());
    until_huge(ready.pid, area(&ready, "random").bytes, 90);
    let screen = Screen::start(&place.run_dir(), "top --interval 200ms");
    let pid = ready.pid.to_string();
    screen.until_it_shows(&["daemon", "FMFI", "program", &pid, "100.0 %", "q quit"]);
    screen.press(&["/", "n", "o", "n", "e"]);
    screen.until_it_shows(&["no process fits the filter"]);
    screen.press(&["Escape"]);
    screen.until_it_shows(&["program"]);
    screen.press(&["?"]);
    screen.until_it_shows(&["keys and words"]);
    screen.press(&["x"]);
    screen.until_it_shows(&["program"]);
    screen.click("huge wanted");
    screen.until_it_shows(&["huge▼"]);
    // The first click selects the process, or finds it selected; the second opens it.
    screen.click(&pid);
    screen.click(&pid);
    let start = format!("{:x}", area(&ready, "random").start);
    screen.until_it_shows(&[
        "why the rest is not huge",
        "policy ingens",
        &start[..6],
        "████",
    ]);
    screen.press(&["s"]);
    screen.until_it_shows(&["wrote mega-top-"]);
    screen.press(&["q"]);
    screen.until_it_shows(&["EXIT 0"]);
    assert!(!screen.shows().contains("FMFI"), "it gave the screen back");
    finish(program);
    let mut files = std::fs::read_dir(screen.folder())
        .expect("its folder")
        .flatten();
    let snapshot = files.find(|file| file.path().extension().is_some_and(|end| end == "json"));
    let snapshot = snapshot.expect("a snapshot").path();
    drop(daemon);
    let nobody = TempDir::new().expect("a folder");
    let past = Screen::start(nobody.path(), &format!("top {}", snapshot.display()));
    past.until_it_shows(&["snapshot", "UTC", "program", &pid, "100.0 %"]);
    past.press(&["Enter"]);
    past.until_it_shows(&["why the rest is not huge", &start[..6]]);
    past.press(&["q"]);
    past.until_it_shows(&["EXIT 0"]);
}

#[test]
fn without_a_manager_it_looks_by_itself_and_changes_nothing() {
    const NAME: &str = "without_a_manager_it_looks_by_itself_and_changes_nothing";
    if !can_run(NAME) || !has_tmux(NAME) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let run_dir = folder.path().join("run");
    let (program, ready) = start(&mut live::workload(&[
        "random",
        "--size=128MiB",
        "--until-eof",
    ]));
    let screen = Screen::start(&run_dir, "top --interval 200ms");
    screen.until_it_shows(&["no manager runs", "changes nothing"]);
    let pid = ready.pid.to_string();
    screen.press(&["/"]);
    for digit in pid.split("").filter(|digit| !digit.is_empty()) {
        screen.press(&[digit]);
    }
    screen.press(&["Enter"]);
    // The policy wants all of it, and nobody promotes it.
    screen.until_it_shows(&[&pid, "0.0 %", "128M"]);
    screen.press(&["Enter"]);
    screen.until_it_shows(&["wanted (dry run)"]);
    let resident = mega_lab::resident::of(ready.pid).expect("its memory");
    assert_eq!(resident.huge_bytes, 0);
    assert!(!run_dir.exists(), "it leaves nothing behind");
    screen.press(&["q"]);
    screen.until_it_shows(&["EXIT 0"]);
    finish(program);
}

#[test]
fn a_signal_ends_it_and_gives_the_terminal_back() {
    const NAME: &str = "a_signal_ends_it_and_gives_the_terminal_back";
    if !can_run(NAME) || !has_tmux(NAME) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let screen = Screen::start(&folder.path().join("run"), "top --observe");
    screen.until_it_shows(&["--observe", "q quit"]);
    let pid = i32::try_from(screen.pid_of_mega()).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    screen.until_it_shows(&["EXIT 0"]);
    assert!(!screen.shows().contains("q quit"));
}

#[test]
fn without_a_terminal_it_names_what_to_use() {
    let output = run(mega().arg("top").stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("mega status --json"));
}

#[test]
fn a_file_that_is_no_snapshot_is_refused_in_words() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("x.json");
    for (content, wanted) in [(None, "No such file"), (Some("{}"), "it is no snapshot")] {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }
        let output = run(mega().arg("top").arg(&file).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(
            said.contains("cannot open the snapshot") && said.contains(wanted),
            "{said}"
        );
    }
}
