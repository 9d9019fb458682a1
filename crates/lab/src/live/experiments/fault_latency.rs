//! `fault-latency`: how long the first touch of a page takes.

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{MANAGER_CPU, Metric, Sample};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::workload::report::{Done, FirstTouch};

/// The percentiles of one way to grow, from the median up.
type Percentiles = [Metric; 5];

const ARRAY: Percentiles = [
    Metric::latency("array_p50_ns", "first touch in an array, median"),
    Metric::latency("array_p90_ns", "first touch in an array, 90 %"),
    Metric::latency("array_p99_ns", "first touch in an array, 99 %"),
    Metric::latency("array_p99_9_ns", "first touch in an array, 99.9 %"),
    Metric::latency("array_p99_99_ns", "first touch in an array, 99.99 %"),
];
const OBJECTS: Percentiles = [
    Metric::latency("objects_p50_ns", "first touch by objects, median"),
    Metric::latency("objects_p90_ns", "first touch by objects, 90 %"),
    Metric::latency("objects_p99_ns", "first touch by objects, 99 %"),
    Metric::latency("objects_p99_9_ns", "first touch by objects, 99.9 %"),
    Metric::latency("objects_p99_99_ns", "first touch by objects, 99.99 %"),
];
const BUSY: Percentiles = [
    Metric::latency("busy_p50_ns", "first touch beside busy memory, median"),
    Metric::latency("busy_p90_ns", "first touch beside busy memory, 90 %"),
    Metric::latency("busy_p99_ns", "first touch beside busy memory, 99 %"),
    Metric::latency("busy_p99_9_ns", "first touch beside busy memory, 99.9 %"),
    Metric::latency("busy_p99_99_ns", "first touch beside busy memory, 99.99 %"),
];
/// At most a tenth above base pages: promotion is decoupled from faults (MEGA, section 4.1).
const LIMIT: Bound = Bound::AtMost(1.1);

pub(super) const FAULT_LATENCY: Experiment = Experiment {
    name: "fault-latency",
    title: "how long the first touch of a page takes",
    about: "Memory grows and is freed again and again, and every first touch of a page is timed: of an array page by page, by \
            objects of 4 KiB with an index, and of an array beside busy memory of the same size, which a manager promotes \
            meanwhile. Faults that take huge pages are rare and long.",
    paper: Some(PaperFigure {
        source: "MEGA, section 4.1, table 3",
        systems: &["base pages", "huge pages", "Ingens", "MEGA"],
        rows: &[
            (
                "page fault, average",
                &["0.9 us", "2.9 us", "1.6 us", "2.5 us"],
            ),
            (
                "page fault, 90 %",
                &["1.5 us", "1.8 us", "1.7 us", "3.1 us"],
            ),
            (
                "page fault, 99 %",
                &["2.8 us", "118.2 us", "4.5 us", "6.1 us"],
            ),
            (
                "page fault, 99.9 %",
                &["4.2 us", "123.8 us", "400.8 us", "15.1 us"],
            ),
        ],
    }),
    programs: &[],
    metrics: &[
        ARRAY[3],
        OBJECTS[3],
        BUSY[3],
        ARRAY[0],
        ARRAY[1],
        ARRAY[2],
        ARRAY[4],
        OBJECTS[0],
        OBJECTS[1],
        OBJECTS[2],
        OBJECTS[4],
        BUSY[0],
        BUSY[1],
        BUSY[2],
        BUSY[4],
        MANAGER_CPU,
    ],
    goals: &[
        Goal::ratio(ARRAY[3].id, &Mode::Base, LIMIT),
        Goal::ratio(OBJECTS[3].id, &Mode::Base, LIMIT),
        Goal::ratio(BUSY[3].id, &Mode::Base, LIMIT),
    ],
    modes: Mode::usual,
    most_resident: 1,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let sample = add(Sample::default(), ARRAY, &alone(run, &[])?)?;
    let sample = add(sample, OBJECTS, &alone(run, &["--objects"])?)?;
    let sample = add(sample, BUSY, &beside_busy(run)?)?;
    // Of the last program, which there is most to promote of.
    Ok(sample.with(MANAGER_CPU, run.manager_cpu_share()?))
}

/// Grows all of the size, again and again, for the time that is measured.
fn alone(run: &Run<'_>, options: &[&str]) -> Result<Done, Error> {
    let mut command = run.workload("grow")?;
    command
        .arg(format!("--size={}", run.size))
        .arg("--bursts")
        .args(options);
    let (process, _) = run.ready_workload(command)?;
    run.sleep(run.measured)?;
    process.finish()
}

/// Grows half of the size, beside busy memory of the other half, until that has settled and for the time that is measured.
fn beside_busy(run: &Run<'_>) -> Result<Done, Error> {
    let half = run.size / 2;
    let mut command = run.workload("grow")?;
    command
        .arg(format!("--size={half}"))
        .arg("--bursts")
        .arg(format!("--busy={half}"));
    let (process, ready) = run.ready_workload(command)?;
    run.settle(ready.pid, half)?;
    run.sleep(run.measured)?;
    process.finish()
}

/// The sample with what a program tells about its first touches.
#[allow(clippy::cast_precision_loss)]
fn add(sample: Sample, percentiles: Percentiles, done: &Done) -> Result<Sample, Error> {
    let Some(FirstTouch {
        p50_ns,
        p90_ns,
        p99_ns,
        p99_9_ns,
        p99_99_ns,
        ..
    }) = done.first_touch
    else {
        return Err(Error::Failed(
            "a program that times first touches told none".into(),
        ));
    };
    let values = [p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns];
    let pairs = percentiles.into_iter().zip(values);
    Ok(pairs.fold(sample, |sample, (metric, value)| {
        sample.with(metric, value as f64)
    }))
}
