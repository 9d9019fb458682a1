//! `mega hz` with both kernel modules: memory given, used, and taken back.
//!
//! Ignored where cargo runs all tests: `kernel/vm/suites/run hzmem-live` runs them in a guest that has loaded the modules.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod live;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use live::{PATIENCE, mega, run, text};
use mega_lab::mapping::{Area, HUGE_PAGE, WORDS_PER_PAGE};
use serde_json::Value;

/// A mount of hzmem, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(name: &str, options: &str) -> Self {
        let folder = Path::new("/run").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let status = Command::new("mount")
            .args(["-t", "hzmem", "-o", options, "none"])
            .arg(&folder)
            .status();
        assert!(status.unwrap().success(), "mount -o {options}");
        Mounted(folder)
    }

    /// A file of `pages` huge pages, mapped.
    fn file(&self, pages: usize) -> Area {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.0.join("file"))
            .unwrap();
        file.set_len((pages * HUGE_PAGE) as u64).unwrap();
        Area::map_file(&file, 0, pages * HUGE_PAGE).unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0.join("file"));
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// What a command prints as JSON, and its exit code.
fn json(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = run(mega().args(arguments).arg("--json"));
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", text(&output.stderr)));
    (report, output.status.code())
}

fn status() -> Value {
    let (report, code) = json(&["hz", "status"]);
    assert_eq!(code, Some(0));
    report
}

/// The one mount at `mounted`.
fn mount_in(status: &Value, mounted: &Mounted) -> Value {
    let mounts = status["mounts"].as_array().unwrap();
    mounts
        .iter()
        .find(|mount| mount["mount_points"][0] == mounted.0.to_str().unwrap())
        .expect("the mount is shown where it is")
        .clone()
}

/// What the descriptions of a memory block take of it, and more: whether the kernel counts them changes.
const TABLES: u64 = 8 << 20;

/// Bytes of memory that the kernel has.
fn kernels_memory() -> u64 {
    let meminfo = std::fs::read("/proc/meminfo").unwrap();
    mega_linux::observe::memory::meminfo_bytes(&meminfo, "MemTotal").unwrap()
}

#[test]
#[ignore = "needs the kernel modules: kernel/vm/suites/run hzmem-live"]
fn memory_is_given_used_and_taken_back() {
    let before = kernels_memory();
    let (grown, code) = json(&["hz", "grow", "100MiB"]);
    assert_eq!(code, Some(0), "{grown}");
    let block = grown["memory_block"].as_u64().unwrap();
    assert_eq!(grown["added"], block, "rounded up to one memory block");
    assert!(
        kernels_memory() + block <= before + TABLES,
        "the kernel has it no more"
    );

    let status_with = status();
    let range = &status_with["ranges"][0];
    assert_eq!(range["origin"], "added");
    assert_eq!(range["size"], block);
    let start = format!("{:#x}", range["start"].as_u64().unwrap());

    {
        let mounted = Mounted::new("hz-given", "size=32m");
        let mut area = mounted.file(4);
        for page in area.words_mut().chunks_mut(HUGE_PAGE / 8) {
            page[7] = 7;
        }
        let mount = mount_in(&status(), &mounted);
        assert_eq!(mount["held"]["resident"], 4 * HUGE_PAGE);
        assert_eq!(mount["used"], 4 * HUGE_PAGE);
        assert_eq!(mount["settings"]["size"], 32 << 20);
        assert_eq!(mount["counts"]["faults_zero"], 4);

        // In use, so it stays: said, with the exit code of what failed.
        let (kept, code) = json(&["hz", "shrink", &start]);
        assert_eq!(code, Some(1), "{kept}");
        assert_eq!(kept["removed"], 0);
        assert!(
            kept["tried"][0]["error"]
                .as_str()
                .unwrap()
                .contains("in use"),
            "{kept}"
        );
        assert!(area.words().chunks(HUGE_PAGE / 8).all(|page| page[7] == 7));
    }

    let (back, code) = json(&["hz", "shrink", "all"]);
    assert_eq!(code, Some(0), "{back}");
    assert_eq!(back["removed"], block);
    assert_eq!(status()["ranges"].as_array().unwrap().len(), 0);
    assert!(
        kernels_memory() + TABLES >= before,
        "the kernel has it again, online"
    );
}

#[test]
#[ignore = "needs the kernel modules: kernel/vm/suites/run hzmem-live"]
fn what_is_compressed_is_shown_with_what_it_saves() {
    let (grown, code) = json(&["hz", "grow", "1MiB"]);
    assert_eq!(code, Some(0), "{grown}");
    {
        let mounted = Mounted::new("hz-compressed", "size=1g,period=200ms,watermark=10");
        let mut area = mounted.file(32);
        for (number, page) in area.words_mut().chunks_mut(WORDS_PER_PAGE).enumerate() {
            page.fill(number as u64 / 8);
        }
        // Touched no more, it gets cold. How long that takes is the kernel's business; nothing takes nearly a minute.
        // A page that is compressed between the reading of one count and the next is in both, or in neither.
        let deadline = Instant::now() + PATIENCE;
        let mount = loop {
            let mount = mount_in(&status(), &mounted);
            if mount["held"]["compressed"].as_u64() > Some(0) && mount["used"] == 32 * HUGE_PAGE {
                break mount;
            }
            assert!(
                Instant::now() < deadline,
                "nothing was compressed, or something is not there: {mount}"
            );
            std::thread::sleep(Duration::from_millis(100));
        };
        assert!(mount["ratio"].as_f64().unwrap() < 0.5, "{mount}");
        assert!(mount["expansion"].as_f64().unwrap() > 1.0, "{mount}");
        let right =
            |(number, page): (usize, &[u64])| page.iter().all(|&word| word == number as u64 / 8);
        assert!(area.words().chunks(WORDS_PER_PAGE).enumerate().all(right));
        assert!(mount_in(&status(), &mounted)["counts"]["faults_decompress"].as_u64() > Some(0));

        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = run(mega().args(["hz", "status"]));
            let said = text(&output.stdout);
            if said.contains("effective memory 64 MiB") {
                break;
            }
            assert!(Instant::now() < deadline, "{said}");
        }
    }
    let (back, code) = json(&["hz", "shrink", "all"]);
    assert_eq!(code, Some(0), "{back}");
}

#[test]
#[ignore = "needs the kernel modules: kernel/vm/suites/run hzmem-live"]
fn more_than_there_is_is_given_as_far_as_it_goes() {
    let (grown, code) = json(&["hz", "grow", "64GiB"]);
    assert_eq!(code, Some(1), "{grown}");
    let added = grown["added"].as_u64().unwrap();
    let total: u64 = status()["ranges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|range| range["size"].as_u64().unwrap())
        .sum();
    assert_eq!(added, total, "what is said to be given is there");
    let (back, code) = json(&["hz", "shrink", "all"]);
    assert_eq!(
        (code, back["removed"].as_u64()),
        (Some(0), Some(added)),
        "{back}"
    );

    let (none, code) = json(&["hz", "grow", "128MiB", "--node", "7"]);
    assert_eq!(
        (code, none["added"].as_u64()),
        (Some(1), Some(0)),
        "there is no such node"
    );
}

#[test]
#[ignore = "needs the kernel modules: kernel/vm/suites/run hzmem-live"]
fn memory_that_hzmem_does_not_have_is_not_taken_from_it() {
    let output = run(mega().args(["hz", "shrink", "0x1000"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("begins at 0x1000"));
    let doctor = run(mega().arg("doctor"));
    assert!(text(&doctor.stdout).contains("available  hzmem: it is loaded"));
}
