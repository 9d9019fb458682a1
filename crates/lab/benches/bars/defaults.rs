//! What `mega run` does for a program by defaults, as a user meets it: no option is given, nothing is pinned, the machine is
//! calibrated, and no program is known from before.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mega_lab::cpu_meter::CpuMeter;
use mega_lab::subject::Subject;
use mega_lab::workload::report::Done;
use mega_lab::{Error, meminfo};
use mega_linux::process;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::thp_mode::{self, Guard, ThpMode};

use crate::bar::{Bar, Wanted};
use crate::promotion::collapse;
use crate::setting::{Setting, failed, median};

/// One call moves at most 2 GiB minus one page (see `process_madvise(2)`); this leaves a whole region.
const LONGEST_CALL: u64 = (2 << 30) - (2 << 20);
/// Between two looks at how much is huge.
const LOOK: Duration = Duration::from_millis(200);
/// How long a manager has to find out that a program gains nothing.
const TO_SETTLE: Duration = Duration::from_secs(15);
/// About how long a short program takes, in seconds.
const SHORT: f64 = 8.0;

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let run_dir = RunDir::open().map_err(failed)?;
    thp_mode::restore_stale(setting.kernel.as_ref(), &run_dir).map_err(failed)?;
    setting.calibrate()?;
    let mut bars = over_hot_memory(setting, &run_dir)?;
    bars.push(of_a_short_program(setting)?);
    bars.push(over_sparse_memory(setting)?);
    bars.extend(without_gain(setting)?);
    Ok(bars)
}

/// A program that uses all of its memory, seen for the first and for the second time: medians of rounds, in each of which every mode has
/// its turn, since a host's noise from run to run is above what is to be told.
fn over_hot_memory(setting: &Setting, run_dir: &RunDir) -> Result<Vec<Bar>, Error> {
    let rounds: Vec<Round> = (0..setting.repetitions)
        .map(|_| Round::measure(setting, run_dir))
        .collect::<Result<_, Error>>()?;
    let bar = |name, of: fn(&Round) -> f64, wanted| {
        let measured: Vec<f64> = rounds.iter().map(of).collect();
        Ok(Bar {
            name,
            unit: "x",
            measured: median(&measured)?,
            wanted,
        })
    };
    Ok(vec![
        bar(
            "first run: time to 95 % huge, of 1.3 MADV_COLLAPSE and 2 s",
            |round| round.huge_after,
            Wanted::AtMost(1.0),
        )?,
        bar(
            "first run: its worst second, of base pages' speed",
            |round| round.worst_second,
            Wanted::AtLeast(0.5),
        )?,
        bar(
            "first run, of the speed with THP always",
            |round| round.first,
            Wanted::AtLeast(0.85),
        )?,
        bar(
            "second run, of the speed with THP always",
            |round| round.second,
            Wanted::AtLeast(0.97),
        )?,
    ])
}

/// What one round over hot memory found.
struct Round {
    /// How long the first run took to be 95 % huge, of what is allowed; infinite where it never was.
    huge_after: f64,
    /// The first run's slowest second, of the speed on base pages.
    worst_second: f64,
    /// The speed of the first and of the second run, of that with THP always.
    first: f64,
    second: f64,
}

impl Round {
    fn measure(setting: &Setting, run_dir: &RunDir) -> Result<Self, Error> {
        let threads = format!(
            "--threads={}",
            thread::available_parallelism().map_or(1, usize::from)
        );
        let seconds = format!("--seconds={}", setting.seconds);
        let arguments = ["random", &threads, &seconds];
        let one_call = one_call(setting, &["random", &threads, "--until-eof"])?;
        let base = run(setting, &["random", &threads, "--no-huge-pages"])?;
        let guard =
            Guard::set(Arc::clone(&setting.kernel), run_dir, ThpMode::Always).map_err(failed)?;
        let always = run(setting, &arguments)?;
        guard.restore().map_err(failed)?;
        setting.forget_programs()?;
        let (first, huge_after) = watched(setting, &arguments)?;
        let (second, _) = watched(setting, &arguments)?;
        let [base_rate, always_rate, first_rate, second_rate] =
            [&base, &always, &first, &second].map(rate);
        eprintln!(
            "bars: base {:.1}, THP always {:.1}, mega {:.1} and {:.1} M updates a second; one MADV_COLLAPSE {one_call:.1?}, 95 % huge after {huge_after:.1?}",
            base_rate / 1e6,
            always_rate / 1e6,
            first_rate / 1e6,
            second_rate / 1e6
        );
        let allowed = one_call.mul_f64(1.3) + Duration::from_secs(2);
        Ok(Round {
            huge_after: huge_after.map_or(f64::INFINITY, |after| after.div_duration_f64(allowed)),
            worst_second: worst_second(&first) / base_rate,
            first: first_rate / always_rate,
            second: second_rate / always_rate,
        })
    }
}

/// A run without a manager.
fn run(setting: &Setting, arguments: &[&str]) -> Result<Done, Error> {
    setting.warm_up()?;
    Subject::start(&mut setting.workload(arguments))?.wait()
}

/// What `MADV_COLLAPSE` over all of a program takes while it works, in as few calls as there may be.
fn one_call(setting: &Setting, arguments: &[&str]) -> Result<Duration, Error> {
    setting.warm_up()?;
    let mut subject = Subject::start(&mut setting.workload(arguments))?;
    let ready = subject.ready()?;
    let process = process::identify(setting.kernel.as_ref(), ready.pid).map_err(failed)?;
    let mut took = Duration::ZERO;
    for area in &ready.areas {
        let end = area.start + area.bytes;
        let mut from = area.start;
        while from < end {
            let to = end.min(from + LONGEST_CALL);
            took += collapse(setting.kernel.as_ref(), process, from..to)?;
            from = to;
        }
    }
    subject.finish()?;
    Ok(took)
}

/// A run under mega, and how long after it was ready 95 % of its memory was huge.
fn watched(setting: &Setting, arguments: &[&str]) -> Result<(Done, Option<Duration>), Error> {
    setting.warm_up()?;
    // The whole machine's: to ask for one process walks its page tables, and takes a tenth of its speed.
    let before = meminfo::anonymous_huge()?;
    let mut subject = Subject::start(&mut setting.managed(&[], arguments))?;
    subject.ready()?;
    let started = Instant::now();
    let mut after = None;
    while after.is_none() && started.elapsed() < Duration::from_secs(setting.seconds.into()) {
        let huge = meminfo::anonymous_huge()?.saturating_sub(before);
        after = (huge >= setting.size / 100 * 95).then(|| started.elapsed());
        thread::sleep(LOOK);
    }
    Ok((subject.wait()?, after))
}

/// Operations a second of all threads together.
fn rate(done: &Done) -> f64 {
    done.all_threads_rate_since(0.0)
        .unwrap_or(done.operations_per_second)
}

/// Operations a second in the slowest whole second.
fn worst_second(done: &Done) -> f64 {
    let rates = done
        .all_threads
        .as_ref()
        .map_or(&done.operations_per_second_over_time, |all| {
            &all.operations_per_second_over_time
        });
    rates
        .slowest_second(0.0, done.seconds)
        .unwrap_or(f64::INFINITY)
}

/// Programs of some seconds, one on each CPU and each under a manager of its own: their time, by that with base pages.
fn of_a_short_program(setting: &Setting) -> Result<Bar, Error> {
    let trial = at_once(setting, false, "--seconds=2")?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let operations = (trial.iter().map(rate).fold(f64::INFINITY, f64::min) * SHORT) as u64;
    let bound = format!("--operations={operations}");
    let mut ratios = Vec::new();
    for _ in 0..setting.repetitions {
        let mut times = [0.0; 2];
        for (time, managed) in times.iter_mut().zip([false, true]) {
            setting.forget_programs()?;
            let started = Instant::now();
            at_once(setting, managed, &bound)?;
            *time = started.elapsed().as_secs_f64();
        }
        eprintln!(
            "bars: short programs took {:.2} s, under mega {:.2} s",
            times[0], times[1]
        );
        ratios.push(times[1] / times[0]);
    }
    Ok(Bar {
        name: "time of short programs that use every CPU, of base pages'",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtMost(1.02),
    })
}

/// A program with a quarter of the memory on each CPU.
fn at_once(setting: &Setting, managed: bool, bound: &str) -> Result<Vec<Done>, Error> {
    let size = format!("--size={}", setting.size / 4);
    let arguments = ["random", bound];
    let count = thread::available_parallelism().map_or(1, usize::from);
    let start = |_| {
        let mut command = if managed {
            setting.managed_of(&[], &arguments, &size)
        } else {
            setting.workload_of(&arguments, &size)
        };
        Subject::start(&mut command)
    };
    let subjects: Vec<Subject> = (0..count).map(start).collect::<Result<_, Error>>()?;
    subjects.into_iter().map(Subject::wait).collect()
}

/// A program that touches one page in eight, seen for the second time.
fn over_sparse_memory(setting: &Setting) -> Result<Bar, Error> {
    let arguments = ["sparse", "--seconds=5"];
    let base =
        Subject::start(&mut setting.workload(&["sparse", "--seconds=1", "--no-huge-pages"]))?
            .wait()?;
    Subject::start(&mut setting.managed(&[], &arguments))?.wait()?;
    let second = Subject::start(&mut setting.managed(&[], &arguments))?.wait()?;
    #[allow(clippy::cast_precision_loss)]
    let measured = second.resident_bytes as f64 / base.resident_bytes as f64;
    Ok(Bar {
        name: "second run of a sparse program: memory, of base pages'",
        unit: "x",
        measured,
        wanted: Wanted::AtMost(1.02),
    })
}

/// Programs that gain nothing: what stays within the TLB's reach or in the caches.
fn without_gain(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let programs = [("small", "--size=4MiB"), ("matrix", "--size=384KiB")];
    let mut subjects = Vec::new();
    for (name, size) in programs {
        let mut subject =
            Subject::start(&mut setting.managed_of(&[], &[name, "--until-eof"], size))?;
        subject.ready()?;
        subjects.push(subject);
    }
    thread::sleep(TO_SETTLE);
    let meters: Vec<CpuMeter> = subjects
        .iter()
        .map(|subject| CpuMeter::begin(subject.child.id()))
        .collect::<Result<_, Error>>()?;
    thread::sleep(Duration::from_secs(setting.seconds.into()));
    let mut most = 0.0_f64;
    for meter in meters {
        most = most.max(meter.share()?);
    }
    let mut huge = 0;
    for subject in subjects {
        huge += subject.finish()?.huge_bytes;
    }
    #[allow(clippy::cast_precision_loss)]
    Ok(vec![
        Bar {
            name: "huge memory of programs that gain nothing",
            unit: "MiB",
            measured: huge as f64 / f64::from(1 << 20),
            wanted: Wanted::AtMost(0.0),
        },
        Bar {
            name: "manager's CPU over a program that gains nothing",
            unit: "%",
            measured: most * 100.0,
            wanted: Wanted::AtMost(0.1),
        },
    ])
}
