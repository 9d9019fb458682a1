//! A process of our own to observe and to act on. It maps, fills, touches and checksums its memory as told on its
//! standard input, so that a test knows what is true of it.
//!
//! It is this test program itself, started again to run the ignored test `subject` alone.

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use mega_core::ProcessId;
use mega_linux::kernel::LiveKernel;
use mega_linux::process;
use mega_linux::settings::fault::{self, FaultControl};

const PAGE: usize = 4096;
const REGION: usize = 2 << 20;
const VARIABLE: &str = "MEGA_TEST_SUBJECT";
const ANSWER: &str = "answer:";

/// The subject, seen from the test.
pub(crate) struct Subject {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pid: u32,
}

impl Subject {
    /// Starts a subject whose faults take base pages whatever the global mode is, where the kernel can do so.
    pub(crate) fn start() -> Self {
        let control = match fault::knows_per_process_control(&LiveKernel) {
            Some(true) => FaultControl::PerProcess,
            _ => FaultControl::Nothing,
        };
        Self::start_with(|command| control.apply(command))
    }

    /// Starts a subject by a command that `prepare` may change.
    pub(crate) fn start_with(prepare: impl FnOnce(&mut Command)) -> Self {
        Self::launch(Command::new(std::env::current_exe().unwrap()), prepare)
    }

    /// Starts a shell by a command that `prepare` may change, which starts the subject as its child.
    pub(crate) fn start_by_shell(prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new("/bin/sh");
        // `exit` keeps the shell from replacing itself by the subject.
        command
            .args(["-c", "\"$0\" \"$@\"; exit $?"])
            .arg(std::env::current_exe().unwrap());
        Self::launch(command, prepare)
    }

    fn launch(mut command: Command, prepare: impl FnOnce(&mut Command)) -> Self {
        command
            .args([
                "common::subject::subject",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(VARIABLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut subject = Subject {
            child,
            input,
            output,
            pid: 0,
        };
        subject.pid = u32::try_from(subject.ask("pid")).unwrap();
        subject
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn process(&self) -> ProcessId {
        process::identify(&LiveKernel, self.pid()).unwrap()
    }

    /// Sends a command and returns the answer.
    pub(crate) fn ask(&mut self, command: &str) -> u64 {
        writeln!(self.input, "{command}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.output.read_line(&mut line).unwrap(),
                0,
                "the subject ended at {command:?}"
            );
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim().parse().unwrap();
            }
        }
    }

    /// Maps `regions` aligned regions of a kind: `private`; `shared`, at addresses that agree with their offsets modulo
    /// 2 MiB; `misaligned`, shared at addresses that do not.
    pub(crate) fn map(&mut self, kind: &str, regions: usize) -> Range<u64> {
        let start = self.ask(&format!("map {kind} {}", regions * REGION));
        start..start + (regions * REGION) as u64
    }

    /// Maps `regions` regions of a file that others map too.
    pub(crate) fn open(&mut self, path: &str, regions: usize) -> Range<u64> {
        let start = self.ask(&format!("open {path} {}", regions * REGION));
        start..start + (regions * REGION) as u64
    }

    /// Writes every `step`th page with a pattern of its own.
    pub(crate) fn fill(&mut self, range: &Range<u64>, step: usize) {
        self.ask(&format!("fill {} {} {step}", range.start, range.end));
    }

    /// Writes zeros into every page.
    pub(crate) fn zero(&mut self, range: &Range<u64>) {
        self.ask(&format!("zero {} {} 1", range.start, range.end));
    }

    /// Reads one byte of every `step`th page.
    pub(crate) fn touch(&mut self, range: &Range<u64>, step: usize) {
        self.ask(&format!("touch {} {} {step}", range.start, range.end));
    }

    /// A checksum over every `step`th page.
    pub(crate) fn sum(&mut self, range: &Range<u64>, step: usize) -> u64 {
        self.ask(&format!("sum {} {} {step}", range.start, range.end))
    }

    /// Asks for something about a range: `unmap`, `dontneed`, `pageout`, `lock`, `nohuge`, `huge`, `flush`.
    pub(crate) fn advise(&mut self, what: &str, range: &Range<u64>) {
        self.ask(&format!("{what} {} {}", range.start, range.end));
    }

    /// Kills it and waits for it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What smaps says of huge pages in the mappings that lie in `range`, in bytes.
    pub(crate) fn huge_bytes(&self, range: &Range<u64>) -> u64 {
        self.smaps_bytes(range, &["AnonHugePages:", "ShmemPmdMapped:"])
    }

    /// What smaps says was accessed since the bits were cleared, in the mappings that lie in `range`, in bytes.
    pub(crate) fn referenced_bytes(&self, range: &Range<u64>) -> u64 {
        self.smaps_bytes(range, &["Referenced:"])
    }

    /// The sum of these lines of smaps over the mappings that lie in `range`, in bytes.
    fn smaps_bytes(&self, range: &Range<u64>, names: &[&str]) -> u64 {
        let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap();
        let mut inside = false;
        let mut bytes = 0;
        for line in smaps.lines() {
            let first = line.split_ascii_whitespace().next().unwrap_or("");
            if let Some((start, end)) = first.split_once('-') {
                let start = u64::from_str_radix(start, 16).unwrap();
                let end = u64::from_str_radix(end, 16).unwrap();
                inside = range.start < end && start < range.end;
            } else if inside && names.contains(&first) {
                bytes += line
                    .split_ascii_whitespace()
                    .nth(1)
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
                    * 1024;
            }
        }
        bytes
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
#[ignore = "it is the subject of other tests, which start it"]
fn subject() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    for line in std::io::stdin().lock().lines() {
        let answer = obey(&line.unwrap());
        println!("{ANSWER}{answer}");
    }
}

fn obey(line: &str) -> u64 {
    use rustix::mm::{Advice, MprotectFlags, madvise, mlock, mprotect, munmap};
    let words: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| words[index].parse::<usize>().unwrap();
    let at = || std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(number(1));
    let length = || number(2) - number(1);
    // SAFETY (all below): the test names ranges that a `map` answered, and nothing else lives there.
    match words[0] {
        "pid" => u64::from(std::process::id()),
        "map" => map(words[1], number(2)) as u64,
        "open" => open(words[1], number(2)) as u64,
        "fill" => pages(&words).map(|page| fill(page) as u64).sum(),
        "zero" => pages(&words).map(|page| zero(page) as u64).sum(),
        "touch" => pages(&words).map(|page| u64::from(touch(page))).sum(),
        "sum" => pages(&words).fold(0xcbf2_9ce4_8422_2325, sum),
        // SAFETY: as above.
        "unmap" => unsafe { munmap(at(), length()) }.map(|()| 0).unwrap(),
        // SAFETY: as above.
        "dontneed" => unsafe { madvise(at(), length(), Advice::LinuxDontNeed) }
            .map(|()| 0)
            .unwrap(),
        // SAFETY: as above.
        "pageout" => unsafe { madvise(at(), length(), Advice::LinuxPageOut) }
            .map(|()| 0)
            .unwrap(),
        // SAFETY: as above.
        "nohuge" => unsafe { madvise(at(), length(), Advice::LinuxNoHugepage) }
            .map(|()| 0)
            .unwrap(),
        // SAFETY: as above.
        "huge" => unsafe { madvise(at(), length(), Advice::LinuxHugepage) }
            .map(|()| 0)
            .unwrap(),
        // Changing the protection flushes the translations, which clearing the Accessed bits leaves in the TLB: a touch that finds
        // one there sets no bit.
        "flush" => {
            for protection in [
                MprotectFlags::READ,
                MprotectFlags::READ | MprotectFlags::WRITE,
            ] {
                // SAFETY: as above.
                unsafe { mprotect(at(), length(), protection) }.unwrap();
            }
            0
        }
        // SAFETY: as above.
        "lock" => unsafe { mlock(at(), length()) }.map(|()| 0).unwrap(),
        // A child that shares all memory and lives until it is killed.
        "fork" => {
            // SAFETY: the child makes one system call and touches nothing.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            u64::try_from(pid).unwrap()
        }
        "thread" => {
            std::thread::Builder::new()
                .stack_size(16 << 20)
                .spawn(|| {
                    loop {
                        std::thread::park();
                    }
                })
                .unwrap();
            0
        }
        // A thread that updates random words from now on.
        "work" => {
            let (start, end) = (number(1), number(2));
            std::thread::spawn(move || work(start, end));
            0
        }
        // Updates that it has made.
        "worked" => WORKED.load(Ordering::Relaxed),
        // CPU time of the process, in nanoseconds.
        "used" => {
            let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            u64::try_from(used.tv_sec * 1_000_000_000 + used.tv_nsec).unwrap()
        }
        // Another program in this process.
        "exec" => {
            use std::os::unix::process::CommandExt;
            println!("{ANSWER}0");
            let error = Command::new("/bin/sleep").arg("60").exec();
            panic!("{error}");
        }
        other => panic!("no such command: {other}"),
    }
}

/// Updates made by [`work`].
static WORKED: AtomicU64 = AtomicU64::new(0);

/// Updates random words of a range without end.
fn work(start: usize, end: usize) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    loop {
        for _ in 0..1024 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let word = start + usize::try_from(random).unwrap() % (end - start) / 8 * 8;
            let at = std::ptr::with_exposed_provenance_mut::<u64>(word);
            // SAFETY: aligned, in memory that `map` answered, and only this thread writes there.
            unsafe { at.write_volatile(random) };
        }
        WORKED.fetch_add(1024, Ordering::Relaxed);
    }
}

/// Maps memory that starts at a region.
fn map(kind: &str, length: usize) -> usize {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory at an address of the kernel's choice.
    let base =
        unsafe { mmap_anonymous(std::ptr::null_mut(), length + 2 * REGION, protection, flags) };
    let base = base.unwrap().expose_provenance();
    // A page is left out on either side, so that no neighbour is merged with it.
    let start = (base + PAGE).next_multiple_of(REGION);
    let cut = |from: usize, to: usize| {
        // SAFETY: part of what was just mapped and not handed out.
        unsafe { munmap(std::ptr::with_exposed_provenance_mut(from), to - from) }.unwrap();
    };
    cut(base, start);
    cut(start + length, base + length + 2 * REGION);
    let shared_from = match kind {
        "private" => return start,
        "shared" => start,
        "misaligned" => start - PAGE,
        other => panic!("no such kind: {other}"),
    };
    let place = std::ptr::with_exposed_provenance_mut(shared_from);
    let shared = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: over what was just mapped, and the page below it that was left out.
    unsafe { mmap_anonymous(place, start + length - shared_from, protection, shared) }.unwrap();
    start
}

/// Maps a file, shared, where huge pages of it fit.
fn open(path: &str, length: usize) -> usize {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let start = map("private", length);
    let place = std::ptr::with_exposed_provenance_mut(start);
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: over what was just mapped. Only subjects of one test map the file, and each knows that.
    unsafe { mmap(place, length, protection, flags, &file, 0) }.unwrap();
    start
}

fn pages(words: &[&str]) -> impl Iterator<Item = usize> {
    let number = |index: usize| words[index].parse::<usize>().unwrap();
    (number(1)..number(2)).step_by(PAGE * number(3))
}

fn fill(page: usize) -> usize {
    for (index, offset) in (0..PAGE).step_by(64).enumerate() {
        let value = (page as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(index as u64);
        let at = std::ptr::with_exposed_provenance_mut::<u64>(page + offset);
        // SAFETY: aligned, in memory that `map` answered.
        unsafe { at.write_volatile(value) };
    }
    1
}

fn zero(page: usize) -> usize {
    let at = std::ptr::with_exposed_provenance_mut::<u64>(page);
    // SAFETY: aligned, in memory that `map` answered.
    unsafe { at.write_volatile(0) };
    1
}

fn touch(page: usize) -> u8 {
    let at = std::ptr::with_exposed_provenance::<u8>(page);
    // SAFETY: in memory that `map` answered.
    unsafe { at.read_volatile() }
}

fn sum(so_far: u64, page: usize) -> u64 {
    (0..PAGE).step_by(8).fold(so_far, |sum, offset| {
        let at = std::ptr::with_exposed_provenance::<u64>(page + offset);
        // SAFETY: aligned, in memory that `map` answered.
        let value = unsafe { at.read_volatile() };
        (sum ^ value).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
