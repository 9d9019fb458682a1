//! Pages in swap are counted, and a region with some is promoted only by hand; on the running kernel, with a swap area
//! of compressed memory that is made and removed here.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::skip;
use common::subject::Subject;
use mega_core::{
    Action, ActionKind, Cause, Machine, Outcome, Region, RegionObservation, RegionRef,
};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, TrackerKind};

/// A swap area in compressed memory, gone with this.
struct Zram {
    number: u32,
}

impl Zram {
    fn add(bytes: u64) -> Result<Self, String> {
        let number = std::fs::read_to_string("/sys/class/zram-control/hot_add")
            .map_err(|error| format!("no zram device can be added: {error}"))?;
        let number = number
            .trim()
            .parse()
            .map_err(|_| "no zram device was added".to_owned())?;
        let zram = Zram { number };
        std::fs::write(
            format!("/sys/block/zram{number}/disksize"),
            bytes.to_string(),
        )
        .map_err(|error| format!("the size of zram{number} cannot be set: {error}"))?;
        for tool in ["mkswap", "swapon"] {
            let ran = Command::new(tool).arg(zram.device()).output();
            if !ran.is_ok_and(|output| output.status.success()) {
                return Err(format!("`{tool} {}` failed", zram.device()));
            }
        }
        Ok(zram)
    }

    fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(self.device()).output();
        let _ = std::fs::write(
            "/sys/class/zram-control/hot_remove",
            self.number.to_string(),
        );
    }
}

/// Pages of each region in `range` that are in swap, by pagemap.
fn swapped(subject: &Subject, range: &Range<u64>) -> Vec<u16> {
    let file = std::fs::File::open(format!("/proc/{}/pagemap", subject.pid())).unwrap();
    let mut bytes = vec![0; 512 * 8];
    let regions = Region::wholly_inside(range.start, range.end);
    let count = |region: Region| {
        file.read_exact_at(&mut bytes, region.start() / 4096 * 8)
            .unwrap();
        let words = bytes
            .chunks(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        u16::try_from(words.filter(|word| word >> 62 == 1).count()).unwrap()
    };
    regions.map(count).collect()
}

/// Has the kernel take out the first `pages` pages of each region, as far as it does.
fn page_out(subject: &mut Subject, range: &Range<u64>, pages: u64) {
    for _ in 0..50 {
        for region in Region::wholly_inside(range.start, range.end) {
            subject.advise("pageout", &(region.start()..region.start() + pages * 4096));
        }
        let enough = |&count: &u16| u64::from(count) >= pages / 2;
        if swapped(subject, range).iter().all(enough) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the kernel takes nothing out");
}

#[test]
fn pages_in_swap_are_counted_and_not_read_in_unasked() {
    let name = "pages_in_swap_are_counted_and_not_read_in_unasked";
    let _zram = match Zram::add(64 << 20) {
        Ok(zram) => zram,
        Err(reason) => return skip(name, &reason),
    };
    for tracker in [TrackerKind::Bpf, TrackerKind::Mapped, TrackerKind::PageIdle] {
        let host = match host(tracker) {
            Ok(host) => host,
            // Few kernels have it.
            Err(_) if tracker == TrackerKind::PageIdle => continue,
            Err(error) => return skip(name, &error.to_string()),
        };
        swapped_regions_wait(host, true);
    }
}

#[test]
#[ignore = "needs mega.ko: kernel/vm/suites/run module-live runs it"]
fn a_tracker_that_does_not_count_swap_reads_none_in_unasked() {
    let name = "a_tracker_that_does_not_count_swap_reads_none_in_unasked";
    let _zram = match Zram::add(64 << 20) {
        Ok(zram) => zram,
        Err(reason) => return skip(name, &reason),
    };
    match host(TrackerKind::Module) {
        Ok(host) => swapped_regions_wait(host, false),
        Err(error) => skip(name, &error.to_string()),
    }
}

fn host(tracker: TrackerKind) -> Result<Arc<Host>, mega_linux::Error> {
    let options = HostOptions {
        dry_run: false,
        tracker: Some(tracker),
    };
    Host::open(options).map(Arc::new)
}

/// Regions with pages in swap are not promoted, until somebody asks for it. `counts`: the tracker tells how many there are.
fn swapped_regions_wait(host: Arc<Host>, counts: bool) {
    let tracker = host.tracker_kind();
    let mut machine = LinuxMachine::new(host, MachineOptions::default());
    let mut subject = Subject::start();
    let range = subject.map("private", 4);
    subject.fill(&range, 1);
    let before = subject.sum(&range, 1);
    page_out(&mut subject, &range, 100);
    let process = subject.process();
    machine.set_targets(vec![process]);
    let seen = machine.observe().unwrap();
    let known = swapped(&subject, &range);
    let in_range = |seen: &&RegionObservation| range.contains(&seen.region.start());
    let seen: Vec<&RegionObservation> = seen.processes[0].regions.iter().filter(in_range).collect();
    if counts {
        let all_there = seen.iter().all(|seen| seen.mapped + seen.swapped == 512);
        assert!(all_there, "{tracker}: {seen:?}");
        let counted: Vec<u16> = seen.iter().map(|seen| seen.swapped).collect();
        assert_eq!(counted, known, "{tracker}");
    }
    let actions: Vec<Action> = Region::wholly_inside(range.start, range.end)
        .map(|region| Action {
            kind: ActionKind::Promote,
            target: RegionRef { process, region },
        })
        .collect();
    assert_eq!(machine.act(&actions), [Outcome::Failed(Cause::Busy); 4]);
    assert_eq!(swapped(&subject, &range), known, "nothing was read in");
    machine.set_options(MachineOptions {
        swap_in: true,
        ..MachineOptions::default()
    });
    let is_huge = |outcome: &Outcome| matches!(outcome, Outcome::Done { .. } | Outcome::AlreadySo);
    let mut outcomes = Vec::new();
    for _ in 0..50 {
        outcomes = machine.act(&actions);
        if outcomes.iter().all(is_huge) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(outcomes.iter().all(is_huge), "{tracker}: {outcomes:?}");
    assert_eq!(subject.sum(&range, 1), before, "{tracker}");
}
