//! The `bpf` tracker: reads Accessed bits from the page tables, by the BPF program in [`crate::observe::bpf`].

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use mega_core::{ProcessId, RegionObservation};

use super::finish::finish;
use super::self_check::{self, Geometry};
use super::whole::whole_regions;
use super::{Bits, TrackError, TrackedProcess, Tracker, TrackerKind, Unavailable};
use crate::bpf::LoadError;
use crate::kernel::Kernel;
use crate::observe::bpf::{Identity, MAX_RANGES, Program, Run, RunError, Status, Thread};

/// What the last scan took, for reports and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCost {
    /// Runs of the program. Each is bounded; nothing is held between two.
    pub runs: u64,
    /// Steps of its loop: one for each region looked at and for each hole skipped.
    pub steps: u64,
    /// Page tables of base pages read, 4 KiB each.
    pub tables: u64,
}

/// Reads the page tables of processes.
pub struct BpfTracker {
    kernel: Arc<dyn Kernel>,
    program: Program,
    geometry: Geometry,
    cost: ScanCost,
    /// The process whose bits are being read again and again, from the first [`Tracker::read_bits`] to
    /// [`Tracker::end_reading`].
    reading: Option<Reading>,
}

/// What is held of a process between two readings.
struct Reading {
    process: ProcessId,
    thread: Thread,
    identity: Identity,
}

impl BpfTracker {
    /// Loads the walker and checks it against this process's own memory.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn open(kernel: Arc<dyn Kernel>) -> Result<BpfTracker, Unavailable> {
        prerequisites(&*kernel)?;
        let mut program = Program::load().map_err(|error| match error {
            LoadError::NotPermitted => Unavailable::NotPermitted,
            LoadError::Rejected { reason } => Unavailable::Rejected { reason },
        })?;
        match program.thread(std::process::id()) {
            Ok(_) => {}
            Err(RunError::NoTaskIterator) => return Err(Unavailable::NoTaskIterator),
            Err(error) => {
                return Err(Unavailable::Rejected {
                    reason: error.to_string(),
                });
            }
        }
        let geometry = self_check::examine(&mut program, &*kernel)?;
        Ok(BpfTracker {
            kernel,
            program,
            geometry,
            cost: ScanCost::default(),
            reading: None,
        })
    }

    /// What the last scan took.
    #[must_use]
    pub fn cost(&self) -> ScanCost {
        self.cost
    }

    /// Levels of the kernel's page tables, 4 or 5.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.geometry.levels
    }

    /// Walks the whole regions in `ranges`. Leaves in `bits` what it found, and when it ended.
    fn walk_all(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        count_lines: bool,
        bits: &mut Bits,
    ) -> Result<(), TrackError> {
        let pid = target.process.pid;
        let (thread, identity) = self.thread_with_memory(pid)?;
        self.walk_map(
            &Map {
                pid,
                thread: &thread,
                identity,
            },
            ranges,
            count_lines,
            bits,
        )
    }

    /// The same of a memory map that was found already.
    fn walk_map(
        &mut self,
        map: &Map<'_>,
        ranges: &[Range<u64>],
        count_lines: bool,
        bits: &mut Bits,
    ) -> Result<(), TrackError> {
        bits.regions.clear();
        self.cost = ScanCost::default();
        let mut walk = Walk {
            map,
            count_lines,
            bits,
        };
        let whole: Vec<Range<u64>> = whole_regions(ranges, self.geometry.user_end()).collect();
        whole
            .chunks(MAX_RANGES)
            .try_for_each(|chunk| self.walk(&mut walk, chunk.to_vec()))
    }

    /// Walks all of `ranges`, at most [`MAX_RANGES`] of whole regions, in as many runs as it takes.
    fn walk(&mut self, walk: &mut Walk<'_>, mut ranges: Vec<Range<u64>>) -> Result<(), TrackError> {
        while !ranges.is_empty() {
            let mut request = self.geometry.request();
            request.ranges = ranges;
            request.count_lines = walk.count_lines;
            let mut run = self.run(walk, &request)?;
            if run.invalid > 0 && self.memory_has_grown() {
                request.memory_end = self.geometry.memory_end;
                run = self.run(walk, &request)?;
            }
            walk.bits.at = Some(run.at);
            walk.bits.regions.extend(&run.regions);
            if walk.count_lines {
                walk.bits.lines.extend(&run.lines);
            }
            ranges = rest(request.ranges, &run);
        }
        Ok(())
    }

    /// One run, which must be of the memory map that the walk began with.
    fn run(
        &mut self,
        walk: &mut Walk<'_>,
        request: &crate::observe::bpf::Request,
    ) -> Result<Run, TrackError> {
        let run = self
            .program
            .run(walk.map.thread, request)
            .map_err(|error| failed(walk.map.pid, error))?;
        self.cost.runs += 1;
        self.cost.steps += u64::from(run.steps);
        self.cost.tables += u64::from(run.tables);
        match run.status {
            Status::Ok if run.identity == walk.map.identity => Ok(run),
            Status::Ok | Status::NoMemoryMap => Err(TrackError::Gone { pid: walk.map.pid }),
            Status::KernelThread => Err(TrackError::KernelThread { pid: walk.map.pid }),
            Status::Unknown(status) => Err(nonsense(format!("status {status}"))),
        }
    }

    /// A thread of the process that has its memory map: the first one, or when that has exited another.
    fn thread_with_memory(&mut self, pid: u32) -> Result<(Thread, Identity), TrackError> {
        if let Some(found) = self.memory_of(pid, pid)? {
            return Ok(found);
        }
        let threads = self
            .kernel
            .list(Path::new(&format!("/proc/{pid}/task")))
            .unwrap_or_default();
        let others = threads
            .iter()
            .filter_map(|name| name.to_str()?.parse().ok())
            .filter(|tid| *tid != pid);
        for tid in others {
            if let Some(found) = self.memory_of(pid, tid)? {
                return Ok(found);
            }
        }
        Err(TrackError::Gone { pid })
    }

    /// The thread and its memory map; `None` when it has exited.
    fn memory_of(&mut self, pid: u32, tid: u32) -> Result<Option<(Thread, Identity)>, TrackError> {
        let thread = self
            .program
            .thread(tid)
            .map_err(|error| failed(pid, error))?;
        let run = match self.program.run(&thread, &self.geometry.request()) {
            Err(RunError::NoThread) => return Ok(None),
            run => run.map_err(|error| failed(pid, error))?,
        };
        match run.status {
            Status::Ok => Ok(Some((thread, run.identity))),
            Status::NoMemoryMap => Ok(None),
            Status::KernelThread => Err(TrackError::KernelThread { pid }),
            Status::Unknown(status) => Err(nonsense(format!("status {status}"))),
        }
    }

    /// Reads where memory ends again; an entry pointed outside it, which added memory would explain.
    fn memory_has_grown(&mut self) -> bool {
        match self_check::memory_end(&*self.kernel) {
            Ok(end) if end > self.geometry.memory_end => {
                self.geometry.memory_end = end;
                true
            }
            _ => false,
        }
    }
}

impl Tracker for BpfTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Bpf
    }

    fn scan(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
        out: &mut Vec<RegionObservation>,
    ) -> Result<(), TrackError> {
        let mut bits = Bits {
            regions: std::mem::take(out),
            ..Bits::default()
        };
        let result = self.walk_all(target, ranges, false, &mut bits);
        *out = bits.regions;
        finish(target, result, out)
    }

    fn read_bits(
        &mut self,
        target: &TrackedProcess<'_>,
        ranges: &[Range<u64>],
    ) -> Result<Option<Bits>, TrackError> {
        let mut bits = Bits::default();
        let reading = match self.reading.take() {
            Some(reading) if reading.process == target.process => reading,
            _ => {
                let (thread, identity) = self.thread_with_memory(target.process.pid)?;
                Reading {
                    process: target.process,
                    thread,
                    identity,
                }
            }
        };
        let map = Map {
            pid: target.process.pid,
            thread: &reading.thread,
            identity: reading.identity,
        };
        let result = self.walk_map(&map, ranges, true, &mut bits);
        // A thread that has ended is looked for anew the next time.
        if result.is_ok() {
            self.reading = Some(reading);
        }
        finish(target, result, &mut bits.regions)?;
        Ok(Some(bits))
    }

    fn end_reading(&mut self) {
        self.reading = None;
    }
}

/// The memory map of one process.
struct Map<'a> {
    pid: u32,
    thread: &'a Thread,
    /// What every run must find.
    identity: Identity,
}

/// One scan of one process.
struct Walk<'a> {
    map: &'a Map<'a>,
    count_lines: bool,
    bits: &'a mut Bits,
}

fn failed(pid: u32, error: RunError) -> TrackError {
    match error {
        RunError::NoThread => TrackError::Gone { pid },
        RunError::System { attempted, error } => TrackError::Refused {
            attempted,
            pid,
            error,
        },
        error => nonsense(error.to_string()),
    }
}

fn nonsense(what: String) -> TrackError {
    TrackError::Nonsense {
        tracker: TrackerKind::Bpf,
        what,
    }
}

/// What a run left of its ranges. A run always gets past at least one region or hole, so this shrinks.
fn rest(ranges: Vec<Range<u64>>, run: &Run) -> Vec<Range<u64>> {
    let mut rest: Vec<Range<u64>> = ranges.into_iter().skip(run.next_range).collect();
    if let Some(first) = rest.first_mut() {
        first.start = first.start.max(run.next_address);
    }
    rest.retain(|range| range.start < range.end);
    rest
}

/// What the walker needs and can be told without loading it, so that the error names it.
fn prerequisites(kernel: &dyn Kernel) -> Result<(), Unavailable> {
    let with_btf = kernel
        .list(Path::new("/sys/kernel/btf"))
        .unwrap_or_default();
    if !with_btf.iter().any(|name| name == "vmlinux") {
        return Err(Unavailable::NoBtf);
    }
    let lockdown = kernel
        .read(Path::new("/sys/kernel/security/lockdown"))
        .unwrap_or_default();
    if String::from_utf8_lossy(&lockdown).contains("[confidentiality]") {
        return Err(Unavailable::Lockdown);
    }
    Ok(())
}
