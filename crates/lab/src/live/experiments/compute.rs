//! `compute`: programs that huge pages gain nothing.

use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use super::lines::GZIP;
use crate::error::Error;
use crate::live::experiment::{Experiment, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, MANAGER_CPU, Metric, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::random::{Random, mix};

const MULTIPLICATIONS: Metric = Metric::new(
    "multiplications_per_second",
    "matrix multiplications per second",
    Unit::PerSecond,
    Better::Higher,
);
const COMPRESSED: Metric = Metric::new(
    "compressed_bytes_per_second",
    "bytes compressed per second",
    Unit::PerSecond,
    Better::Higher,
);
/// One part in this many of the size is compressed.
const COMPRESSED_PART: u64 = 8;
/// One part in this many of what is compressed comes before the time is taken, while the program starts.
const BEFORE: u64 = 8;
/// Bytes written at once.
const PIECE: usize = 64 << 10;

pub(super) const COMPUTE: Experiment = Experiment {
    name: "compute",
    title: "programs that huge pages gain nothing",
    about: "Multiplies matrices that stay in the cache, then has gzip compress an eighth of the size, in pieces that are \
            random to another degree each. Neither misses the TLB, so that a manager can only lose.",
    paper: None,
    programs: &[GZIP],
    metrics: &[MULTIPLICATIONS, COMPRESSED, MANAGER_CPU],
    goals: &[
        Goal::ratio(MULTIPLICATIONS.id, &Mode::Base, Bound::AtLeast(0.99)),
        Goal::ratio(COMPRESSED.id, &Mode::Base, Bound::AtLeast(0.99)),
    ],
    modes: Mode::usual,
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let (process, _) = run.ready_workload(run.workload("matrix")?)?;
    run.sleep(run.measured)?;
    let done = process.finish()?;
    let manager_cpu = run.manager_cpu_share()?;
    Ok(Sample::default()
        .with(MULTIPLICATIONS, done.rate_over_last(run.measured))
        .with(COMPRESSED, compressed_per_second(run)?)
        .with(MANAGER_CPU, manager_cpu))
}

/// Has gzip compress random data, and returns the bytes that it took per second.
fn compressed_per_second(run: &Run<'_>) -> Result<f64, Error> {
    let mut command = run.command(GZIP.find()?)?;
    let mut child = command
        .arg("--stdout")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| Error::io(format!("starting {command:?}"), e))?;
    // Its end is gzip's, also where writing fails.
    let rate = match child.stdin.take() {
        Some(mut input) => feed(&mut input, run),
        None => Err(Error::Failed("gzip has no standard input".into())),
    };
    end(&mut child)?;
    rate
}

fn end(child: &mut Child) -> Result<(), Error> {
    let status = child.wait().map_err(|e| Error::io("waiting for gzip", e))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed(format!("gzip failed, {status}")))
}

/// Writes all data; the rate is that at which gzip takes it once it has started. What is left in the pipe at the end, 64 KiB
/// as at the beginning, does not count.
fn feed(input: &mut ChildStdin, run: &Run<'_>) -> Result<f64, Error> {
    let bytes = run.size / COMPRESSED_PART;
    let mut random = Random::new(mix(run.seed));
    let mut piece = vec![0; PIECE];
    let (mut written, mut timed) = (0_u64, 0_u64);
    let mut started = Instant::now();
    while written < bytes {
        run.interrupt.check()?;
        fill(&mut piece, &mut random);
        input
            .write_all(&piece)
            .map_err(|e| Error::io("having gzip compress data", e))?;
        written += PIECE as u64;
        if written * BEFORE <= bytes {
            started = Instant::now();
        } else {
            timed += PIECE as u64;
        }
    }
    Ok(rate(timed, started.elapsed()))
}

#[allow(clippy::cast_precision_loss)]
fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64()
}

/// Fills a piece with bytes of which only so many low bits, from none to all, are random.
fn fill(piece: &mut [u8], random: &mut Random) {
    let [bits, ..] = random.word().to_le_bytes();
    let mask = u8::MAX.checked_shr(u32::from(bits) % 9).unwrap_or(0);
    for bytes in piece.chunks_mut(8) {
        for (byte, random) in bytes.iter_mut().zip(random.word().to_le_bytes()) {
            *byte = random & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_random_to_different_degrees() {
        let mut random = Random::new(1);
        let mut largest = Vec::new();
        for _ in 0..100 {
            let mut piece = vec![0; 4096];
            fill(&mut piece, &mut random);
            largest.extend(piece.iter().max().copied());
        }
        for bits in 0..=8 {
            let most = u8::MAX.checked_shr(bits).unwrap_or(0);
            assert!(largest.contains(&most), "{bits}: {largest:?}");
        }
    }
}
