//! What a scan costs: the BPF tracker against reading `/proc/PID/pagemap` of the same range, in the same run.
//!
//! `cargo bench -p mega-linux --bench tracker`. Prints one JSON object a line; times are milliseconds per GiB
//! of address space, medians of interleaved repetitions. Exits 3 where the BPF tracker cannot be used.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use mega_core::ProcessId;
use mega_linux::kernel::{Kernel, LiveKernel, ProcessHandle};
use mega_linux::observe::tracker::{BpfTracker, MappedTracker, TrackedProcess, Tracker};

const REGION: usize = 2 << 20;
const PAGE: usize = 4 << 10;
const BYTES: u64 = 1 << 30;
const REPETITIONS: usize = 15;

fn main() -> ExitCode {
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let started = Instant::now();
    let mut bpf = match BpfTracker::open(Arc::clone(&kernel)) {
        Ok(tracker) => tracker,
        Err(error) => {
            eprintln!("the BPF tracker cannot be used: {error}");
            return ExitCode::from(3);
        }
    };
    eprintln!(
        "loading the BPF tracker and checking it took {:.0?}",
        started.elapsed()
    );
    match compare(&*kernel, &mut bpf) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(kernel: &dyn Kernel, bpf: &mut BpfTracker) -> Result<(), Box<dyn std::error::Error>> {
    let handle = kernel.open_process(std::process::id())?;
    let mut mapped = MappedTracker::open(Arc::new(LiveKernel))?;
    let memory = Memory::new(BYTES)?;
    memory.touch();
    report("base", &handle, bpf, &mut mapped, memory.range())?;
    if memory.collapse().is_ok() {
        report("huge", &handle, bpf, &mut mapped, memory.range())?;
    }
    Ok(())
}

fn report(
    pages: &str,
    handle: &ProcessHandle,
    bpf: &mut BpfTracker,
    mapped: &mut MappedTracker,
    range: Range<u64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut buffer = vec![0; 1 << 20];
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut observed = 0;
    for _ in 0..REPETITIONS {
        times[0].push(milliseconds_per_gib(|| {
            scan(bpf, handle, &range).map(|seen| observed = seen)
        })?);
        times[1].push(milliseconds_per_gib(|| {
            Ok(read_pagemap(&pagemap, &mut buffer, &range)?)
        })?);
        times[2].push(milliseconds_per_gib(|| {
            scan(mapped, handle, &range).map(drop)
        })?);
    }
    let [bpf_ms, pagemap_ms, mapped_ms] = times.map(median);
    println!(
        "{{\"pages\":\"{pages}\",\"bytes\":{BYTES},\"regions\":{observed},\"bpf_ms_per_gib\":{bpf_ms:.3},\
         \"pagemap_ms_per_gib\":{pagemap_ms:.3},\"mapped_tracker_ms_per_gib\":{mapped_ms:.3},\
         \"pagemap_over_bpf\":{:.1}}}",
        pagemap_ms / bpf_ms
    );
    Ok(())
}

fn milliseconds_per_gib(
    mut work: impl FnMut() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<f64, Box<dyn std::error::Error>> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn scan(
    tracker: &mut dyn Tracker,
    handle: &ProcessHandle,
    range: &Range<u64>,
) -> Result<usize, Box<dyn std::error::Error>> {
    let target = TrackedProcess {
        process: ProcessId {
            pid: handle.pid(),
            start_time: 0,
        },
        handle,
    };
    let mut out = Vec::new();
    tracker.scan(&target, std::slice::from_ref(range), &mut out)?;
    Ok(out.len())
}

/// Reads every entry of the range, and looks at none.
fn read_pagemap(pagemap: &File, buffer: &mut [u8], range: &Range<u64>) -> io::Result<()> {
    let (mut offset, end) = (range.start / PAGE as u64 * 8, range.end / PAGE as u64 * 8);
    while offset < end {
        match pagemap.read_at(buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => offset += count as u64,
        }
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// An anonymous mapping of whole regions, without huge pages at first. Lives as long as the program.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: u64) -> io::Result<Memory> {
        let length = usize::try_from(bytes + REGION as u64).map_err(io::Error::other)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let aligned = base.addr().next_multiple_of(REGION);
        let memory = Memory {
            start: base.cast::<u8>().with_addr(aligned),
            bytes: length - REGION,
        };
        memory.advise(libc::MADV_NOHUGEPAGE)?;
        Ok(memory)
    }

    fn range(&self) -> Range<u64> {
        let start = self.start.addr() as u64;
        start..start + self.bytes as u64
    }

    fn touch(&self) {
        for offset in (0..self.bytes).step_by(PAGE) {
            // SAFETY: inside the mapping, which is writable and to which no reference exists.
            unsafe { self.start.wrapping_add(offset).write_volatile(1) };
        }
    }

    fn collapse(&self) -> io::Result<()> {
        self.advise(libc::MADV_HUGEPAGE)?;
        self.advise(libc::MADV_COLLAPSE)
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the mapping itself; none of the advices used changes what it holds.
        let result = unsafe { libc::madvise(self.start.cast(), self.bytes, advice) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
