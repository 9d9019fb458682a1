//! How far the touch meter is from the truth, and what it costs: over programs that count their touches.
//!
//! `cargo bench -p mega-linux --bench touches [-- [--bytes N] [--seconds N] [--times N] [KIND ...]]`. Prints one JSON object
//! for each measurement, and a table on standard error. Exits 3 where the meter cannot be used.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of the command line and of memory"
)]

mod program;
mod subject;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::touches::Effort;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, process};

use program::KINDS;
use subject::Subject;

/// What to measure.
struct Arguments {
    bytes: usize,
    seconds: f64,
    times: u64,
    share: f64,
    kinds: Vec<String>,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut arguments = Arguments {
        bytes: 2 << 30,
        seconds: 3.0,
        times: 1,
        share: 0.01,
        kinds: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse::<f64>().ok());
        match word.as_str() {
            "program" => return program::run(words),
            "--bytes" => arguments.bytes = number().unwrap_or(0.0) as usize,
            "--seconds" => arguments.seconds = number().unwrap_or(0.0),
            "--times" => arguments.times = number().unwrap_or(0.0) as u64,
            "--share" => arguments.share = number().unwrap_or(0.0),
            _ => arguments.kinds.push(word),
        }
    }
    if arguments.kinds.is_empty() {
        arguments.kinds = KINDS.map(str::to_owned).to_vec();
    }
    match compare(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let host = Arc::new(Host::open(HostOptions::default())?);
    eprintln!(
        "{:<9} {:>7} {:>9} {:>9} {:>6} {:>19} {:>8} {:>7} {:>6} {:>6} {:>6}",
        "program",
        "threads",
        "true M/s",
        "meter",
        "error",
        "interval",
        "set MiB",
        "a line",
        "took",
        "cost",
        "lost"
    );
    let processors = std::thread::available_parallelism()?.get();
    for kind in &arguments.kinds {
        for threads in [1, processors] {
            let mut subject = Subject::start(kind, arguments.bytes, threads)?;
            for time in 0..arguments.times {
                measure(&host, &mut subject, arguments, kind, threads, time)?;
            }
        }
    }
    Ok(())
}

fn measure(
    host: &Arc<Host>,
    subject: &mut Subject,
    arguments: &Arguments,
    kind: &str,
    threads: usize,
    time: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut machine = LinuxMachine::new(Arc::clone(host), MachineOptions::default());
    let target = process::identify(&LiveKernel, subject.pid())?;
    let undisturbed = subject.rate_over(Duration::from_millis(500))?;
    let before = subject.counts()?;
    let (used, started) = (LiveKernel.cpu_time(), LiveKernel.now());
    let touches = machine.measure_touches(
        target,
        Effort {
            at_most: Duration::from_secs_f64(arguments.seconds),
            share: arguments.share,
            seed: 1 + time,
            ..Effort::default()
        },
    )?;
    let took = (LiveKernel.now() - started).as_secs_f64();
    let cost = (LiveKernel.cpu_time() - used).as_secs_f64() / took;
    let truth = subject.counts()?.rate_since(&before);
    let afterwards = subject.rate_over(Duration::from_millis(500))?;
    let found = touches.per_cpu_second;
    let lost = 1.0 - truth / ((undisturbed + afterwards) / 2.0);
    eprintln!(
        "{kind:<9} {threads:>7} {:>9.3} {:>9.3} {:>+5.1}% {:>9.3}-{:<9.3} {:>8.0} {:>7.2} {:>7.1} {took:>6.2} {:>5.2}% {:>5.1}%",
        truth / 1e6,
        found.value / 1e6,
        (found.value / truth - 1.0) * 100.0,
        found.low / 1e6,
        found.high / 1e6,
        touches.working_set as f64 / (1 << 20) as f64,
        touches.pages_per_line,
        touches.touches_per_visit,
        cost * 100.0,
        lost * 100.0,
    );
    println!(
        "{}",
        serde_json::json!({
            "program": kind,
            "threads": threads,
            "true_touches_per_cpu_second": truth,
            "touches_per_cpu_second": found,
            "cpu_share": touches.cpu_share,
            "working_set": touches.working_set,
            "pages_per_line": touches.pages_per_line,
            "touches_per_visit": touches.touches_per_visit,
            "seconds": took,
            "meter_cpu_share": cost,
            "program_lost": lost,
        })
    );
    Ok(())
}
