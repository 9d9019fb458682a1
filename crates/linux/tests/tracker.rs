//! The trackers on the running kernel, against memory whose every page is known.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::single_range_in_vec_init,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::multiple_unsafe_ops_per_block,
    reason = "a test that panics has failed, usize is 64 bits wide, and one range is a list of ranges"
)]

mod common;

use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_core::{PageSize, ProcessId, RegionObservation};
use mega_linux::kernel::{Kernel, LiveKernel, ProcessHandle};
use mega_linux::observe::tracker::{
    BpfTracker, MappedTracker, PageIdleTracker, TrackError, TrackedProcess, Tracker, Unavailable,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const REGION: u64 = 2 * MIB;
const PAGE: u64 = 4 * KIB;
/// How long anything is waited for; it is there to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Leaves out the running test.
fn skip(reason: impl std::fmt::Display) {
    let thread = std::thread::current();
    common::skip(
        thread.name().unwrap_or("a test of the trackers"),
        &reason.to_string(),
    );
}

fn kernel() -> Arc<dyn Kernel> {
    Arc::new(LiveKernel)
}

/// The BPF tracker, or a skip where this kernel or these privileges do not allow it. A failed self-check is
/// never a reason to skip.
fn bpf() -> Option<BpfTracker> {
    match BpfTracker::open(kernel()) {
        Ok(tracker) => Some(tracker),
        Err(error @ (Unavailable::SelfCheck(_) | Unavailable::Rejected { .. })) => {
            panic!("{error}")
        }
        Err(error) => {
            skip(error);
            None
        }
    }
}

/// An anonymous mapping in this process, aligned to regions.
struct Memory {
    base: *mut libc::c_void,
    length: usize,
    start: u64,
    end: u64,
}

impl Memory {
    fn new(bytes: u64) -> Memory {
        let length = (bytes + REGION) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping where the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(
            base,
            libc::MAP_FAILED,
            "{}",
            std::io::Error::last_os_error()
        );
        let start = (base.addr() as u64).next_multiple_of(REGION);
        let memory = Memory {
            base,
            length,
            start,
            end: start + bytes,
        };
        memory
            .advise(memory.range(), libc::MADV_NOHUGEPAGE)
            .unwrap();
        memory
    }

    fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    fn region(&self, index: u64) -> Range<u64> {
        self.start + index * REGION..self.start + (index + 1) * REGION
    }

    fn pointer(&self, address: u64) -> *mut u8 {
        assert!((self.start..self.end).contains(&address));
        self.base
            .cast::<u8>()
            .wrapping_add((address - self.base.addr() as u64) as usize)
    }

    fn write(&self, address: u64) {
        // SAFETY: inside the mapping, as `pointer` asserts, which is writable.
        unsafe { self.pointer(address).write_volatile(1) };
    }

    fn read(&self, address: u64) -> u8 {
        // SAFETY: inside the mapping, as `pointer` asserts, which is readable.
        unsafe { self.pointer(address).read_volatile() }
    }

    fn write_all(&self, range: Range<u64>) {
        range
            .step_by(PAGE as usize)
            .for_each(|address| self.write(address));
    }

    fn advise(&self, range: Range<u64>, advice: i32) -> std::io::Result<()> {
        // SAFETY: inside the mapping; tests do not keep references into it.
        let result = unsafe {
            libc::madvise(
                self.pointer(range.start).cast(),
                (range.end - range.start) as usize,
                advice,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    }

    fn protect(&self, range: Range<u64>, protection: i32) {
        // SAFETY: inside the mapping; the tests do not touch it while it is inaccessible.
        let result = unsafe {
            libc::mprotect(
                self.pointer(range.start).cast(),
                (range.end - range.start) as usize,
                protection,
            )
        };
        assert_eq!(result, 0);
    }

    fn collapse(&self, index: u64) -> std::io::Result<()> {
        self.advise(self.region(index), libc::MADV_HUGEPAGE)?;
        self.advise(self.region(index), libc::MADV_COLLAPSE)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no longer used.
        unsafe { libc::munmap(self.base, self.length) };
    }
}

fn scan(
    tracker: &mut dyn Tracker,
    pid: u32,
    ranges: &[Range<u64>],
) -> Result<Vec<RegionObservation>, TrackError> {
    let handle = kernel()
        .open_process(pid)
        .map_err(|_| TrackError::Gone { pid })?;
    scan_held(tracker, &handle, ranges)
}

fn scan_held(
    tracker: &mut dyn Tracker,
    handle: &ProcessHandle,
    ranges: &[Range<u64>],
) -> Result<Vec<RegionObservation>, TrackError> {
    let target = TrackedProcess {
        process: ProcessId {
            pid: handle.pid(),
            start_time: 0,
        },
        handle,
    };
    let mut out = Vec::new();
    tracker.scan(&target, ranges, &mut out)?;
    Ok(out)
}

fn scan_self(tracker: &mut dyn Tracker, range: Range<u64>) -> Vec<RegionObservation> {
    scan(tracker, std::process::id(), &[range]).unwrap()
}

/// Start, mapped pages and page size of each region.
fn mapped(seen: &[RegionObservation]) -> Vec<(u64, u16, PageSize)> {
    seen.iter()
        .map(|region| (region.region.start(), region.mapped, region.page_size))
        .collect()
}

/// Brings the memory into every state that a tracker tells apart; returns what `mapped` must be.
fn every_kind_of_region(memory: &Memory) -> Vec<(u64, u16, PageSize)> {
    let start = |index: u64| memory.region(index).start;
    memory.write_all(memory.region(0));
    memory
        .region(1)
        .step_by(8 * PAGE as usize)
        .for_each(|address| memory.write(address));
    // 2 stays empty; 3 maps the page of zeros only, 4 some of it.
    memory.region(3).step_by(PAGE as usize).for_each(|address| {
        memory.read(address);
    });
    memory.region(4).step_by(PAGE as usize).for_each(|address| {
        memory.read(address);
    });
    memory.write_all(start(4)..start(4) + 100 * PAGE);
    // Present but not accessible.
    memory.write_all(memory.region(5));
    memory.protect(start(5)..start(5) + 256 * PAGE, libc::PROT_NONE);
    memory.write(memory.region(6).end - PAGE);
    memory.write_all(memory.region(7));
    let page_size = if memory.collapse(7).is_ok() {
        PageSize::Huge
    } else {
        PageSize::Base
    };
    vec![
        (start(0), 512, PageSize::Base),
        (start(1), 64, PageSize::Base),
        (start(4), 100, PageSize::Base),
        (start(5), 512, PageSize::Base),
        (start(6), 1, PageSize::Base),
        (start(7), 512, page_size),
    ]
}

#[test]
fn bpf_counts_every_kind_of_region_exactly() {
    let Some(mut tracker) = bpf() else { return };
    let memory = Memory::new(8 * REGION);
    let expected = every_kind_of_region(&memory);
    assert_eq!(mapped(&scan_self(&mut tracker, memory.range())), expected);
}

#[test]
fn mapped_agrees_with_bpf() {
    let memory = Memory::new(8 * REGION);
    let expected = every_kind_of_region(&memory);
    let mut tracker = MappedTracker::open(kernel()).unwrap();
    let seen = scan_self(&mut tracker, memory.range());
    assert_eq!(mapped(&seen), expected);
    assert!(
        seen.iter().all(|region| region.accessed == 0),
        "it cannot know"
    );
}

#[test]
fn the_huge_zero_page_is_no_memory_of_the_process() {
    let Some(mut tracker) = bpf() else { return };
    let memory = Memory::new(2 * REGION);
    memory.advise(memory.range(), libc::MADV_HUGEPAGE).unwrap();
    memory.read(memory.start);
    memory.read(memory.region(1).start);
    assert_eq!(mapped(&scan_self(&mut tracker, memory.range())), []);
}

/// Clears, touches what `touch` touches, and scans; again while something else interferes, because DAMON or
/// reclaim may clear a bit in between.
fn accessed_after(
    memory: &Memory,
    tracker: &mut dyn Tracker,
    touch: impl Fn(),
    good: impl Fn(&[u16]) -> bool,
) -> Vec<u16> {
    let mut counts = Vec::new();
    for _ in 0..10 {
        std::fs::write("/proc/self/clear_refs", "1").unwrap();
        // Changing the protection flushes the translations, which clear_refs leaves in the TLB.
        memory.protect(memory.range(), libc::PROT_READ);
        memory.protect(memory.range(), libc::PROT_READ | libc::PROT_WRITE);
        touch();
        counts = scan_self(tracker, memory.range())
            .iter()
            .map(|region| region.accessed)
            .collect();
        if good(&counts) {
            break;
        }
    }
    counts
}

#[test]
fn bpf_sees_what_is_hot_and_what_is_cold() {
    let Some(mut tracker) = bpf() else { return };
    let memory = Memory::new(5 * REGION);
    memory.write_all(memory.range());
    let huge = memory.collapse(3).is_ok();
    let _ = memory.collapse(4);
    let touch = || {
        memory.write_all(memory.region(0));
        memory
            .region(1)
            .step_by(16 * PAGE as usize)
            .for_each(|address| {
                memory.read(address);
            });
        memory.read(memory.region(3).start + 77 * PAGE);
    };
    // A processor may set the bit of the page after one that is read; never of a region left alone.
    let good = |counts: &[u16]| match counts {
        [512, sparse, 0, huge_hot, 0] => {
            (32..=64).contains(sparse)
                && if huge {
                    *huge_hot == 512
                } else {
                    (1..=2).contains(huge_hot)
                }
        }
        _ => false,
    };
    let counts = accessed_after(&memory, &mut tracker, touch, good);
    assert!(
        good(&counts),
        "hot, 1 page in 16, cold, huge and hot, huge and cold ({huge}): {counts:?}"
    );
}

#[test]
fn ranges_are_cut_to_whole_regions_and_may_be_many() {
    let Some(mut tracker) = bpf() else { return };
    let memory = Memory::new(400 * REGION);
    for index in 0..400 {
        memory.write(memory.region(index).start);
    }
    // Each second region by itself, with a page to spare at both ends that must not count as a region.
    let ranges: Vec<Range<u64>> = (0..200)
        .map(|index| memory.region(2 * index))
        .map(|region| region.start.saturating_sub(PAGE)..region.end + PAGE)
        .collect();
    let seen = scan(&mut tracker, std::process::id(), &ranges).unwrap();
    let expected: Vec<u64> = (0..200)
        .map(|index| memory.region(2 * index).start)
        .collect();
    assert_eq!(
        seen.iter()
            .map(|region| region.region.start())
            .collect::<Vec<_>>(),
        expected
    );
    assert_eq!(scan(&mut tracker, std::process::id(), &[]).unwrap(), []);
    let partial = memory.start + PAGE..memory.start + REGION;
    assert_eq!(
        scan(&mut tracker, std::process::id(), &[partial]).unwrap(),
        []
    );
}

#[test]
fn a_huge_empty_mapping_is_passed_over_in_few_runs() {
    let Some(mut tracker) = bpf() else { return };
    let memory = Memory::new(8 << 40);
    for address in [
        memory.start,
        memory.start + (3 << 40) + 5 * PAGE,
        memory.end - PAGE,
    ] {
        memory.write(address);
    }
    let seen = scan_self(&mut tracker, memory.range());
    assert_eq!(
        seen.iter().map(|region| region.mapped).collect::<Vec<_>>(),
        [1, 1, 1]
    );
    // 8 TiB are 4 million regions. A span without page tables is one step, and so is 512 GiB without.
    let cost = tracker.cost();
    assert!(cost.steps < 20_000, "{cost:?}");
    assert!(cost.runs <= 2, "{cost:?}");
    assert_eq!(cost.tables, 3);
}

#[test]
fn all_of_user_space_can_be_asked_for() {
    let Some(mut tracker) = bpf() else { return };
    let memory = Memory::new(REGION);
    memory.write_all(memory.range());
    let seen = scan_self(&mut tracker, 0..u64::MAX);
    assert!(
        seen.iter()
            .any(|region| region.region.start() == memory.start && region.mapped == 512)
    );
    assert!(
        seen.windows(2).all(|pair| pair[0].region < pair[1].region),
        "ascending, each once"
    );
    assert!(tracker.cost().runs < 100, "{:?}", tracker.cost());
}

#[test]
fn one_run_is_bounded_and_the_next_goes_on() {
    let Some(mut tracker) = bpf() else { return };
    // One page in each region: 2,600 page tables, of which one run reads 1,024.
    let memory = Memory::new(2600 * REGION);
    for index in 0..2600 {
        memory.write(memory.region(index).start + (index % 512) * PAGE);
    }
    let seen = scan_self(&mut tracker, memory.range());
    assert_eq!(seen.len(), 2600);
    assert!(seen.iter().all(|region| region.mapped == 1));
    assert_eq!(tracker.cost().tables, 2600);
    assert_eq!(tracker.cost().runs, 3);
}

/// A child that runs until killed.
struct Sleeper(Child);

impl Sleeper {
    fn spawn() -> Sleeper {
        Sleeper(
            Command::new("sleep")
                .arg("60")
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    /// The whole regions around its mappings. Not all of user space: a tracker that reads pagemap entry by
    /// entry would take minutes.
    fn ranges(&self) -> Vec<Range<u64>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.id())).unwrap();
        let mut ranges: Vec<Range<u64>> = maps
            .lines()
            .filter_map(|line| line.split_once(' ')?.0.split_once('-'))
            .map(|(start, end)| {
                (
                    u64::from_str_radix(start, 16).unwrap(),
                    u64::from_str_radix(end, 16).unwrap(),
                )
            })
            .map(|(start, end)| start / REGION * REGION..end.next_multiple_of(REGION))
            .filter(|range| range.end < 1 << 47)
            .collect();
        ranges.dedup_by(|next, last| {
            let joined = next.start <= last.end;
            last.end = if joined { next.end } else { last.end };
            joined
        });
        ranges
    }
}

/// The state letter of a process, or of its first thread where there are more.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.chars().next().unwrap()
}

/// Waits until `reached`, however slow the machine is.
fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let started = Instant::now();
    while !reached() {
        assert!(started.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_exited_process_is_gone_to_every_tracker() {
    let mut trackers: Vec<Box<dyn Tracker>> =
        vec![Box::new(MappedTracker::open(kernel()).unwrap())];
    if let Some(tracker) = bpf() {
        trackers.push(Box::new(tracker));
    }
    for tracker in &mut trackers {
        let mut child = Sleeper::spawn();
        let handle = kernel().open_process(child.0.id()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let ranges = child.ranges();
        assert!(
            !scan_held(tracker.as_mut(), &handle, &ranges)
                .unwrap()
                .is_empty()
        );
        child.0.kill().unwrap();
        // Not yet reaped, it still has its pid, and no memory.
        until("its end", || state(child.0.id()) == 'Z');
        let zombie = scan_held(tracker.as_mut(), &handle, &ranges);
        assert!(
            matches!(zombie, Err(TrackError::Gone { .. })),
            "{}: {zombie:?}",
            tracker.kind()
        );
        child.0.wait().unwrap();
        let gone = scan_held(tracker.as_mut(), &handle, &ranges);
        assert!(
            matches!(gone, Err(TrackError::Gone { .. })),
            "{}: {gone:?}",
            tracker.kind()
        );
    }
}

#[test]
fn a_process_that_exits_while_it_is_scanned_is_gone_or_whole() {
    let Some(mut tracker) = bpf() else { return };
    for delay in 0..40 {
        let child = Sleeper::spawn();
        let pid = child.0.id();
        let handle = kernel().open_process(pid).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(delay * 50));
            drop(child);
        });
        let until = Instant::now() + PATIENCE;
        loop {
            match scan_held(&mut tracker, &handle, &[0..1 << 47]) {
                Ok(seen) => {
                    assert!(seen.iter().all(|region| (1..=512).contains(&region.mapped)
                        && region.accessed <= region.mapped))
                }
                Err(TrackError::Gone { pid: gone }) => {
                    assert_eq!(gone, pid);
                    break;
                }
                Err(other) => panic!("{other}"),
            }
            assert!(Instant::now() < until, "never gone");
        }
        killer.join().unwrap();
    }
}

#[test]
fn a_child_in_another_pid_namespace_is_seen_by_its_outer_pid() {
    let Some(mut tracker) = bpf() else { return };
    let child = match Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "sleep", "60"])
        .stdin(Stdio::null())
        .spawn()
    {
        Ok(child) => Sleeper(child),
        Err(error) => return skip(format_args!("unshare(1) cannot be run: {error}")),
    };
    let children = format!("/proc/{0}/task/{0}/children", child.0.id());
    let deadline = Instant::now() + PATIENCE;
    let inner: u32 = loop {
        if let Some(pid) = std::fs::read_to_string(&children)
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
        {
            break pid;
        }
        if Instant::now() > deadline {
            return skip("a PID namespace cannot be made here");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let name = format!("/proc/{inner}/comm");
    until("sleep to take the place of unshare", || {
        std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")
    });
    // exec names the process before it maps the program; until then its stack
    // lies at the top of the addresses, which five levels of page tables put
    // above 1 << 47 (`bprm_mm_init`, Linux 7.3).
    until("memory of it", || {
        !scan(&mut tracker, inner, &[0..1 << 47]).unwrap().is_empty()
    });
}

#[test]
fn a_kernel_thread_has_no_memory() {
    let Some(mut tracker) = bpf() else { return };
    // kthreadd.
    let seen = scan(&mut tracker, 2, &[0..1 << 47]);
    match seen {
        Err(TrackError::KernelThread { pid: 2 }) => {}
        // In a PID namespace of its own there is none.
        Err(TrackError::Gone { .. }) => skip("there is no kernel thread 2 here"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn page_idle_says_what_is_missing_or_works() {
    let mut tracker = match PageIdleTracker::open(kernel()) {
        Ok(tracker) => tracker,
        Err(error @ Unavailable::File { .. }) => {
            // Known of this kernel, and not a test left out: the message is what is tested.
            assert!(
                error.to_string().contains("CONFIG_IDLE_PAGE_TRACKING")
                    || error.to_string().contains("root"),
                "{error}"
            );
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let memory = Memory::new(8 * REGION);
    let expected = every_kind_of_region(&memory);
    assert_eq!(mapped(&scan_self(&mut tracker, memory.range())), expected);
    // LRU caches of a few pages per CPU aside, nothing was used since.
    memory.write_all(memory.region(0));
    let seen = scan_self(&mut tracker, memory.range());
    assert_eq!(seen[0].accessed, 512);
    assert!(seen[3].accessed < 256, "{seen:?}");
}

#[test]
fn a_process_whose_first_thread_has_ended_is_still_seen() {
    let Some(mut tracker) = bpf() else { return };
    // SAFETY: the child of this fork calls only async-signal-safe functions: clone, pause and exit.
    let pid = match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => leave_a_thread_behind(),
        pid => pid as u32,
    };
    // The first has started the other before it ends.
    until("the end of the first thread", || state(pid) == 'Z');
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .count();
    let seen = scan(&mut tracker, pid, &[0..1 << 47]);
    // SAFETY: a child of this test, not reaped before.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    // SAFETY: as above.
    unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
    assert_eq!(threads, 2, "the first one, which has ended, and the other");
    assert!(!seen.unwrap().is_empty());
}

/// In a forked child: starts a thread that waits, and ends the calling one.
fn leave_a_thread_behind() -> ! {
    extern "C" fn wait(_: *mut libc::c_void) -> libc::c_int {
        loop {
            // SAFETY: pause has no preconditions.
            unsafe { libc::pause() };
        }
    }
    static mut STACK: [u64; 8192] = [0; 8192];
    let top = (&raw mut STACK).wrapping_add(1).cast();
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: the stack is this thread's alone, and `wait` never returns.
    unsafe { libc::clone(wait, top, flags, std::ptr::null_mut()) };
    // SAFETY: ends only this thread.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended");
}
