//! Programs that touch memory in one way each, and count how often. For each line on standard input they print their touches
//! and CPU seconds so far.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mega_linux::kernel::{Kernel, LiveKernel};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// What they are called.
pub(crate) const KINDS: [&str; 13] = [
    "random",
    "chase",
    "rows",
    "stride8k",
    "stride32k",
    "columns",
    "compute",
    "eighth",
    "half",
    "mixture",
    "mid64",
    "stream",
    "skewed",
];

const PAGE: usize = 512; // words
const ROW: usize = 128; // words

/// Touches done, one counter for each thread, in cache lines of their own.
#[repr(align(128))]
struct Counter(AtomicU64);

/// Runs one: its kind, the bytes of its memory, its threads.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> ExitCode {
    let kind = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
    let (Some(bytes), Some(threads)) = (number(), number()) else {
        return ExitCode::from(2);
    };
    let Ok(memory) = map(bytes) else {
        eprintln!("no memory");
        return ExitCode::FAILURE;
    };
    let Some(work) = work_of(&kind) else {
        eprintln!(
            "no program is called {kind}; there are {}",
            KINDS.join(", ")
        );
        return ExitCode::from(2);
    };
    let counters: Vec<Counter> = (0..threads).map(|_| Counter(AtomicU64::new(0))).collect();
    std::thread::scope(|scope| {
        for (index, counter) in counters.iter().enumerate() {
            let worker = Worker {
                memory,
                length: bytes / 8,
                random: 0x9e37_79b9_7f4a_7c15 ^ ((index as u64 + 1) << 40),
                at: index * (bytes / 8 / threads),
                sum: 0,
                turn: 0,
            };
            scope.spawn(move || worker.work(work, &counter.0));
        }
        answer(&counters);
        std::process::exit(0);
    })
}

/// Answers until standard input ends.
fn answer(counters: &[Counter]) {
    while counters
        .iter()
        .any(|counter| counter.0.load(Ordering::Relaxed) == 0)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            return;
        }
        let touches: u64 = counters
            .iter()
            .map(|counter| counter.0.load(Ordering::Relaxed))
            .sum();
        let used = LiveKernel.cpu_time().as_secs_f64();
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{touches} {used}");
        let _ = out.flush();
    }
}

/// Memory of base pages, all touched.
fn map(bytes: usize) -> std::io::Result<usize> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: new memory at an address of the kernel's choice.
    let start = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes + (2 << 20), protection, flags)
    }?;
    let aligned = start.map_addr(|start| start.next_multiple_of(2 << 20));
    // SAFETY: the memory just mapped.
    unsafe { rustix::mm::madvise(aligned, bytes, Advice::LinuxNoHugepage) }?;
    for offset in (0..bytes).step_by(4096) {
        // SAFETY: inside the memory just mapped.
        let word = unsafe { aligned.byte_add(offset) };
        // SAFETY: as above, and aligned to a page.
        unsafe { word.cast::<u64>().write_volatile(1) };
    }
    Ok(aligned.expose_provenance())
}

/// One thread.
struct Worker {
    memory: usize,
    /// Words of memory.
    length: usize,
    random: u64,
    /// A position in memory, for those that pass through it.
    at: usize,
    sum: u64,
    turn: usize,
}

/// Does some steps; returns their touches.
type Work = fn(&mut Worker) -> u64;

fn work_of(kind: &str) -> Option<Work> {
    Some(match kind {
        "random" => |worker| worker.times(|worker| worker.update(0, worker.length)),
        "chase" => |worker| worker.times(Worker::follow),
        "rows" => |worker| worker.times(Worker::row),
        "stride8k" => |worker| worker.times(|worker| worker.pass(2 * PAGE, 0, worker.length)),
        "stride32k" => |worker| worker.times(|worker| worker.pass(8 * PAGE, 0, worker.length)),
        // Down a column of a matrix with rows of a page and a cache line.
        "columns" => |worker| worker.times(|worker| worker.pass(PAGE + 8, 0, worker.length)),
        "compute" => |worker| worker.times(Worker::compute),
        "eighth" => |worker| worker.times(Worker::eighth),
        "half" => |worker| worker.times(|worker| worker.update(0, worker.length / 2)),
        "mixture" => |worker| worker.times(Worker::mixture),
        "mid64" => |worker| worker.times(|worker| worker.update(0, (64 << 20) / 8)),
        "stream" => |worker| worker.times(Worker::page),
        "skewed" => |worker| worker.times(Worker::skewed),
        _ => return None,
    })
}

impl Worker {
    fn work(mut self, work: Work, counter: &AtomicU64) {
        let mut done = 0;
        loop {
            done += work(&mut self);
            counter.store(done, Ordering::Relaxed);
        }
    }

    /// Some thousand steps of one touch each.
    fn times(&mut self, step: impl Fn(&mut Worker)) -> u64 {
        for _ in 0..4096 {
            step(self);
        }
        std::hint::black_box(self.sum);
        4096
    }

    fn word(&self, index: usize) -> *mut u64 {
        std::ptr::with_exposed_provenance_mut::<u64>(self.memory + index * 8)
    }

    fn read(&self, index: usize) -> u64 {
        // SAFETY: below `length`, in memory that lives as long as the process. Several threads may use it, and none minds
        // what it reads.
        unsafe { self.word(index).read_volatile() }
    }

    fn write(&self, index: usize, value: u64) {
        // SAFETY: as in `read`.
        unsafe { self.word(index).write_volatile(value) }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * end as u128) >> 64) as usize
    }

    fn update(&mut self, from: usize, length: usize) {
        let index = from + self.below(length);
        self.write(index, self.read(index).wrapping_add(1));
    }

    /// Reads a word whose place depends on the last one read.
    fn follow(&mut self) {
        self.random = self.random.wrapping_add(self.sum & 1);
        let index = self.below(self.length);
        self.sum = self.read(index);
    }

    fn row(&mut self) {
        let row = self.below(self.length / ROW) * ROW;
        for index in row..row + ROW {
            self.sum = self.sum.wrapping_add(self.read(index));
        }
    }

    /// Goes on by `step` words in a part of memory, and from its end to its beginning.
    fn pass(&mut self, step: usize, from: usize, length: usize) {
        self.at += step;
        if self.at < from || self.at >= from + length {
            self.at = from + self.at % step;
        }
        self.write(self.at, self.read(self.at).wrapping_add(1));
    }

    fn compute(&mut self) {
        self.update(0, self.length);
        for round in 0..1280_u64 {
            self.sum = self
                .sum
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(round);
        }
    }

    /// The first page of eight, at random.
    fn eighth(&mut self) {
        let page = self.below(self.length / (8 * PAGE)) * 8 * PAGE;
        let index = page + self.below(PAGE);
        self.write(index, self.read(index).wrapping_add(1));
    }

    /// A random update of the first half, then a step through the second, then a row of the first.
    fn mixture(&mut self) {
        self.turn += 1;
        let half = self.length / 2;
        match self.turn % 3 {
            0 => self.update(0, half),
            1 => self.pass(2 * PAGE, half, half),
            _ => {
                let row = self.below(half / ROW) * ROW;
                for index in row..row + ROW {
                    self.sum = self.sum.wrapping_add(self.read(index));
                }
            }
        }
    }

    /// All words of the next page.
    fn page(&mut self) {
        self.at = (self.at + PAGE) % self.length / PAGE * PAGE;
        for index in self.at..self.at + PAGE {
            self.sum = self.sum.wrapping_add(self.read(index));
        }
    }

    /// Nine in ten in the first sixteenth.
    fn skewed(&mut self) {
        let length = match self.below(10) {
            0 => self.length,
            _ => self.length / 16,
        };
        self.update(0, length);
    }
}
