//! What the kernel takes here for what the simulated machine counts costs of: `cargo bench -p mega-lab --bench costs [-- SIZE]`.
//!
//! Works on this process's own memory, 512 MiB or SIZE of it, in base and in huge pages, shares it with forked processes, and has the
//! kernel compact all memory, which moves other programs' pages as well and changes nothing else of them. Everything is done several
//! times over. The median is reported with the fastest and the slowest, beside the entry of `mega_sim::Costs`. As root: others may not
//! ask for compaction.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mega_core::{Region, bytes};
use mega_lab::mapping::{
    Area, HUGE_PAGE, PAGE, WORDS_PER_PAGE, cpu_time_of, fork_to_touch_and_rest,
};
use mega_lab::meminfo;
use mega_linux::kernel::LiveKernel;
use mega_linux::observe::zero_filled::ZeroCounter;
use mega_linux::physical::vmstat::CompactionStatistics;
use mega_sim::Costs;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const ROUNDS: usize = 5;
const SIZE: u64 = 512 << 20;
const PAGES_PER_HUGE: usize = HUGE_PAGE / PAGE;
/// Of so many pages one is left, so that compaction finds something to move in each block.
const LEFT: usize = 8;
/// A run of compaction that moves one page for so many frames that it scans is one that only scans.
const NEXT_TO_NOTHING: f64 = 1000.0;
const MOST_RUNS: u32 = 20;

/// A cost in nanoseconds, as each round saw it.
struct Seen {
    what: &'static str,
    nanoseconds: Vec<f64>,
    /// That of the simulated machine.
    simulated: f64,
}

fn main() -> ExitCode {
    // `cargo bench` passes this on.
    let size = std::env::args().skip(1).find(|word| word != "--bench");
    let size = size.map_or(Ok(SIZE), |word| bytes::parse(&word));
    let size = match size.map(usize::try_from) {
        Ok(Ok(size)) if size >= HUGE_PAGE => size,
        _ => {
            eprintln!("costs: the size is a number of bytes from 2MiB on, such as 512MiB");
            return ExitCode::from(2);
        }
    };
    match measure(size) {
        Ok(seen) => {
            seen.iter().for_each(report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("costs: measuring what the kernel takes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(seen: &Seen) {
    let mut sorted = seen.nanoseconds.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
    println!(
        "{:<36} {:>10.0} ns  ({:.0} to {:.0}), simulated {:.0}",
        seen.what,
        at(sorted.len() / 2),
        at(0),
        at(sorted.len().saturating_sub(1)),
        seen.simulated
    );
}

fn measure(size: usize) -> io::Result<Vec<Seen>> {
    let costs = Costs::mega_notebook();
    let simulated = |cycles: u64| costs.time(cycles).as_secs_f64() * 1e9;
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    warm_up(size)?;
    for round in 0..ROUNDS {
        eprintln!("costs: round {} of {ROUNDS}", round + 1);
        rounds.push(one_round(size)?);
    }
    let entries = [
        (
            "fault of a base page, with zeroing",
            costs.fault + costs.zero_page,
        ),
        ("copying a base page", costs.copy_page),
        ("fork, beyond its pages", costs.fork),
        ("fork, a base page", costs.fork_page),
        ("fork, a huge page", costs.fork_huge),
        ("copy on write, a base page", costs.fault + costs.copy_page),
        ("write fault without a copy", costs.reuse),
        ("split of an entry", costs.split_entry),
        ("looking for zeros, a base page", costs.inspect_page),
        ("scanning a frame", costs.scan_frame),
        ("migration, beyond the copy", costs.migrate_page),
    ];
    let seen = (0..).zip(entries).map(|(place, (what, cycles))| Seen {
        what,
        nanoseconds: rounds
            .iter()
            .filter_map(|round| round.get(place).copied())
            .collect(),
        simulated: simulated(cycles),
    });
    Ok(seen.collect())
}

/// What the hypervisor has not backed yet costs more than anything that is measured.
fn warm_up(size: usize) -> io::Result<()> {
    let mut area = Area::map(3 * size)?;
    area.advise_base()?;
    area.touch_all();
    Ok(())
}

/// The entries in their order, in nanoseconds.
fn one_round(size: usize) -> io::Result<Vec<f64>> {
    let mut nothing = Area::map(HUGE_PAGE)?;
    let empty = fork(&mut nothing, || Ok(()))?.forked;
    let mut base = Area::map(size)?;
    base.advise_base()?;
    let pages = base.pages();
    let fault = timed(|| base.touch_all());
    let copy = copying(&base)?;
    let shared = fork(&mut nothing, || Ok(timed(|| base.touch_all())))?;
    let reuse = {
        let _ = fork(&mut nothing, || Ok(()))?;
        timed(|| base.touch_all())
    };
    let zeros = looking_for_zeros(&mut base)?;
    drop(base);
    let mut huge = Area::map(size)?;
    huge.advise_huge()?;
    huge.touch_all();
    let split = fork(&mut nothing, || Ok(splitting(&mut huge)))?;
    drop(huge);
    let (scanning, moving) = compacting()?;
    let of_page = |time: Duration| per(time, pages);
    let of_huge = |time: Duration| per(time, pages / PAGES_PER_HUGE);
    let beyond = |forked: Duration| forked.saturating_sub(empty);
    Ok(vec![
        of_page(fault),
        of_page(copy),
        per(empty, 1),
        of_page(beyond(shared.forked)),
        of_huge(beyond(split.forked)),
        of_page(shared.did),
        of_page(reuse),
        split.did,
        of_page(zeros),
        scanning,
        moving - of_page(copy),
    ])
}

fn timed(act: impl FnOnce()) -> Duration {
    let started = Instant::now();
    act();
    started.elapsed()
}

#[allow(clippy::cast_precision_loss)]
fn per(time: Duration, number: usize) -> f64 {
    time.as_secs_f64() * 1e9 / number.max(1) as f64
}

/// What was seen of a fork.
struct Forked<T> {
    /// How long the call took.
    forked: Duration,
    /// What was done while the child was there.
    did: T,
}

/// Forks a child that has touched nothing but memory that is not measured, acts, and ends the child.
fn fork<T>(nothing: &mut Area, act: impl FnOnce() -> io::Result<T>) -> io::Result<Forked<T>> {
    let (mut reading, writing) = io::pipe()?;
    let writing = OwnedFd::from(writing);
    let started = Instant::now();
    let child = fork_to_touch_and_rest(nothing, &writing)?;
    let forked = started.elapsed();
    drop(writing);
    reading.read_exact(&mut [0])?;
    let did = act();
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    let child = child.ok_or(io::ErrorKind::InvalidData)?;
    kill_process(child, Signal::KILL)?;
    waitpid(Some(child), WaitOptions::empty())?;
    Ok(Forked { forked, did: did? })
}

/// To copy all of it elsewhere, into pages that are there.
fn copying(area: &Area) -> io::Result<Duration> {
    let mut target = Area::map(area.bytes())?;
    target.advise_base()?;
    target.touch_all();
    Ok(timed(|| target.words_mut().copy_from_slice(area.words())))
}

/// Nanoseconds to have base entries map a huge page: what the first write to one takes beyond the second, to another of its pages, which
/// is copied as well.
fn splitting(huge: &mut Area) -> f64 {
    let number = huge.pages() / PAGES_PER_HUGE;
    let mut write = |page: usize| {
        timed(|| {
            for first in (0..number).map(|number| number * PAGES_PER_HUGE) {
                huge.words_mut()[(first + page) * WORDS_PER_PAGE] = 2;
            }
        })
    };
    let (first, second) = (write(0), write(1));
    per(first, number) - per(second, number)
}

/// To look for zeros in all of it, which has nothing else.
fn looking_for_zeros(area: &mut Area) -> io::Result<Duration> {
    for page in area.words_mut().chunks_mut(WORDS_PER_PAGE) {
        page[0] = 0;
    }
    let mut counter = ZeroCounter::default();
    let regions: Vec<Region> =
        Region::wholly_inside(area.start(), area.start() + area.bytes() as u64).collect();
    let started = Instant::now();
    for region in regions {
        let counted = counter.count(&LiveKernel, std::process::id(), region);
        counted.ok_or_else(|| io::Error::other("this process's memory cannot be read"))?;
    }
    Ok(started.elapsed())
}

/// Nanoseconds to scan a frame, and to move a base page, its copy with it: from runs of compaction, until one finds next to nothing to move.
fn compacting() -> io::Result<(f64, f64)> {
    let mut area = Area::map(half_of_what_is_available()?)?;
    area.advise_base()?;
    area.touch_all();
    for first in (0..area.pages()).step_by(LEFT) {
        area.give_back_pages(first + 1..first + LEFT)?;
    }
    let mut all = Compaction::default();
    for _ in 0..MOST_RUNS {
        let run = compact()?;
        if run.moved > run.scanned / NEXT_TO_NOTHING {
            all.time += run.time;
            all.scanned += run.scanned;
            all.moved += run.moved;
        } else if all.moved > 0.0 {
            let scanning = run.time / run.scanned;
            return Ok((scanning, (all.time - all.scanned * scanning) / all.moved));
        }
    }
    let text = format!(
        "{MOST_RUNS} runs of compaction moved {} pages, which tells nothing",
        all.moved
    );
    Err(io::Error::other(text))
}

/// It takes so much for what is given back to lie in other places than where compaction looks for free frames.
fn half_of_what_is_available() -> io::Result<usize> {
    let available = meminfo::available().map_err(io::Error::other)?;
    Ok(usize::try_from(available / 2).unwrap_or(usize::MAX))
}

/// Some runs of compaction.
#[derive(Default)]
struct Compaction {
    /// Nanoseconds of CPU time.
    time: f64,
    scanned: f64,
    moved: f64,
}

fn compact() -> io::Result<Compaction> {
    let counted = || CompactionStatistics::read(&LiveKernel).map_err(io::Error::other);
    // No other thread is there.
    let used = || cpu_time_of(std::process::id());
    let (before, started) = (counted()?, used()?);
    std::fs::write("/proc/sys/vm/compact_memory", "1")?;
    let time = (used()? - started).as_secs_f64() * 1e9;
    let run = counted()?.since(&before);
    Ok(Compaction {
        time,
        scanned: float(run.migrate_scanned + run.free_scanned),
        moved: float(run.migrated),
    })
}

#[allow(clippy::cast_precision_loss)]
fn float(count: u64) -> f64 {
    count as f64
}
