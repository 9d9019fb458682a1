//! What promotion, demotion and clearing cost here: `cargo bench -p mega-linux --bench actions`.
//!
//! Works on 1 GiB of this process's own memory. Every way is taken in turn, several times over, and the median is
//! reported with the fastest and the slowest: on a shared machine only ratios within one run mean much.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use mega_linux::kernel::{Advice, Kernel, LiveKernel, ProcessHandle};

const REGION: u64 = 2 << 20;
const PAGE: u64 = 4 << 10;
const REGIONS: u64 = 512;
const ROUNDS: usize = 5;

struct Bench {
    kernel: LiveKernel,
    ourselves: ProcessHandle,
    range: Range<u64>,
}

impl Bench {
    fn advise(&self, ranges: &[Range<u64>], advice: Advice) {
        if let Err(error) = self.kernel.advise(&self.ourselves, ranges, advice) {
            eprintln!("actions: cannot advise {advice:?}: {error}");
            std::process::exit(3);
        }
    }

    /// Collapses the whole range by calls of `regions` each.
    fn promote(&self, regions: u64) -> Duration {
        let started = Instant::now();
        for piece in pieces(&self.range, regions * REGION) {
            self.advise(&[piece], Advice::Collapse);
        }
        started.elapsed()
    }

    /// Splits every huge page by calls of `regions` each.
    fn demote(&self, regions: usize) -> Duration {
        let pages: Vec<Range<u64>> = pieces(&self.range, REGION)
            .map(|region| region.start..region.start + PAGE)
            .collect();
        let started = Instant::now();
        for pages in pages.chunks(regions) {
            self.advise(pages, Advice::Cold);
        }
        started.elapsed()
    }

    fn clear_refs(&self) -> Duration {
        let started = Instant::now();
        if let Err(error) = self.kernel.write(Path::new("/proc/self/clear_refs"), b"1") {
            eprintln!("actions: cannot write /proc/self/clear_refs: {error}");
            std::process::exit(3);
        }
        started.elapsed()
    }

    /// Clears by MADV_COLD in pieces of `regions` each.
    fn cold(&self, regions: u64) -> Duration {
        let started = Instant::now();
        for piece in pieces(&self.range, regions * REGION) {
            self.advise(&[piece], Advice::Cold);
        }
        started.elapsed()
    }
}

fn pieces(range: &Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    (range.start..end)
        .step_by(usize::try_from(size).unwrap_or(usize::MAX))
        .map(move |start| start..(start + size).min(end))
}

/// Touches every page, so that its Accessed bit is set.
fn touch(memory: &[u8]) {
    let sum: u64 = memory
        .iter()
        .step_by(4096)
        .map(|&byte| u64::from(byte))
        .sum();
    std::hint::black_box(sum);
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let per_gib = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    println!(
        "{what:<44} {:>9.2} ms per GiB   ({:.2} to {:.2})",
        per_gib(times.get(times.len() / 2)),
        per_gib(times.first()),
        per_gib(times.last())
    );
}

fn main() {
    let kernel = LiveKernel;
    let memory = vec![1_u8; usize::try_from((REGIONS + 1) * REGION).unwrap_or(0)];
    let base = memory.as_ptr().addr() as u64;
    let start = base.next_multiple_of(REGION);
    let ourselves = match kernel.open_process(std::process::id()) {
        Ok(ourselves) => ourselves,
        Err(error) => {
            eprintln!("actions: cannot open a pidfd on this process: {error}");
            std::process::exit(3);
        }
    };
    let bench = Bench {
        kernel,
        ourselves,
        range: start..start + REGIONS * REGION,
    };
    // What the hypervisor has not backed yet costs more than any copy: take the memory around once first.
    bench.promote(REGIONS);
    bench.demote(64);

    let calls = [REGIONS, 1, 8, 32, 64, 128];
    let mut promotions = vec![Vec::new(); calls.len()];
    let mut demotions = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (times, &regions) in promotions.iter_mut().zip(&calls) {
            times.push(bench.promote(regions));
            let which = times.len() % 2;
            demotions[which].push(bench.demote(if which == 0 { 64 } else { 1 }));
        }
    }
    for (times, regions) in promotions.into_iter().zip(calls) {
        report(&format!("promote, {regions} regions in a call"), times);
    }
    let [batched, single] = demotions;
    report("demote, 64 regions in a call", batched);
    report("demote, 1 region in a call", single);

    for huge in [false, true] {
        if huge {
            bench.promote(REGIONS);
        }
        let size = if huge { "huge" } else { "base" };
        let pieces = [REGIONS, 64, 16, 4];
        let mut whole = Vec::new();
        let mut cold = vec![Vec::new(); pieces.len()];
        for _ in 0..ROUNDS {
            touch(&memory);
            whole.push(bench.clear_refs());
            for (times, &regions) in cold.iter_mut().zip(&pieces) {
                touch(&memory);
                times.push(bench.cold(regions));
            }
        }
        report(&format!("clear {size} pages, clear_refs"), whole);
        for (times, regions) in cold.into_iter().zip(pieces) {
            report(
                &format!("clear {size} pages, MADV_COLD, {regions} regions"),
                times,
            );
        }
    }
}
