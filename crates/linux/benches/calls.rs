//! What it costs a program that changes no mappings that others' calls are recorded: a loop of getppid(2) with BPF programs at the
//! calls that change mappings, at all system calls, and without any, in turns.
//!
//! `cargo bench -p mega-linux --bench calls`. Prints one JSON object: nanoseconds a call, medians of the turns. Exits 3 where BPF programs
//! cannot be used. A place that the kernel refuses is `null`.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mega_linux::calls::{Calls, Place};
use mega_linux::kernel::LiveKernel;

const CALLS: u32 = 1_000_000;
const TURNS: usize = 15;

fn main() -> ExitCode {
    if let Err(why) = Calls::open(Place::AllCalls, &LiveKernel) {
        eprintln!("calls cannot be seen: {why}");
        return ExitCode::from(3);
    }
    let ways = [None, Some(Place::OwnCalls), Some(Place::AllCalls)];
    let mut times = ways.map(|_| Vec::new());
    for _ in 0..TURNS {
        for (way, times) in ways.iter().zip(&mut times) {
            times.extend(call(*way));
        }
    }
    let [none, own, all] = times.map(median);
    println!(
        r#"{{"without": {}, "at_own_calls": {}, "at_all_calls": {}, "unit": "ns"}}"#,
        number(none),
        number(own),
        number(all)
    );
    ExitCode::SUCCESS
}

/// Nanoseconds of a call, while programs run there; `None` where they cannot.
fn call(way: Option<Place>) -> Option<f64> {
    let calls = way.map(|place| Calls::open(place, &LiveKernel));
    let calls = calls.transpose().ok()?;
    let began = Instant::now();
    for _ in 0..CALLS {
        black_box(rustix::process::getppid());
    }
    let took = began.elapsed();
    drop(calls);
    Some(took.as_secs_f64() * 1e9 / f64::from(CALLS))
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn number(time: Option<f64>) -> String {
    time.map_or("null".to_owned(), |time| format!("{time:.1}"))
}
