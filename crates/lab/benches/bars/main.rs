//! The bars for mega's speed and cost. Each is a ratio within one run.
//!
//! `cargo bench -p mega-lab --bench bars [-- NAME… --size 1GiB --json]`, after `make build`: it measures the real
//! binary.

mod bar;
mod defaults;
mod fleet;
mod manager;
mod promotion;
mod read;
mod record;
mod scan_task;
mod scrape;
mod setting;
mod sparse;
mod speed;
mod timed_scan;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use mega_lab::Error;

use bar::Bar;
use setting::Setting;

/// Measures mega's speed and cost and holds them to their bars
#[derive(Debug, Parser)]
struct Args {
    /// Which bars [default: all but defaults and scan-task]
    #[arg(value_enum)]
    names: Vec<Name>,
    /// Bytes of the programs that are measured
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = mega_core::bytes::parse)]
    size: u64,
    /// How often each measurement is repeated, in turn with what it is compared to
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Seconds of one measurement that needs time to pass
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=3600))]
    seconds: u32,
    /// The most processes of a fleet; fewer where memory does not suffice
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    processes: u32,
    /// The mega to measure [default: the one that lies beside this benchmark]
    #[arg(long, value_name = "FILE")]
    mega: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A group of bars that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Reading accessed and mapped counts, against reading pagemap
    Read,
    /// The manager's own CPU and memory
    Manager,
    /// Promotion, against one call of `MADV_COLLAPSE`
    Promotion,
    /// Random access after promotion, against THP always
    Speed,
    /// The memory of a sparse program
    Sparse,
    /// The daemon's cost over thousands of processes, and over a very large one
    Fleet,
    /// A scrape of the daemon's metrics, over a thousand cgroups; needs a cgroup v2 tree
    Scrape,
    /// What recording costs over managing
    Record,
    /// What `mega run` gains by defaults, over whole runs; with --size 4GiB --seconds 45 as the project promises it
    Defaults,
    /// The kernel module's reading and clearing in one pass, against a BPF scan and clear_refs; needs the module
    ScanTask,
}

impl Name {
    /// What a kernel without the module can be held to.
    const STOCK: [Name; 8] = [
        Name::Read,
        Name::Manager,
        Name::Promotion,
        Name::Speed,
        Name::Sparse,
        Name::Fleet,
        Name::Scrape,
        Name::Record,
    ];
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bars: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Measures what was asked for; true if every bar is met. What one group of bars cannot measure does not lose what the others did.
fn run(args: &Args) -> Result<bool, Error> {
    let setting = Setting::new(args.size, args.repetitions, args.seconds, args.mega.clone())?;
    setting.warm_up()?;
    let names = match args.names.as_slice() {
        [] => &Name::STOCK,
        names => names,
    };
    let mut bars = Vec::new();
    let mut all_measured = true;
    for name in names {
        eprintln!("bars: measuring {name:?}");
        match measure(*name, &setting, args.processes) {
            Ok(measured) => bars.extend(measured),
            Err(error) => {
                eprintln!("bars: measuring {name:?}: {error}");
                all_measured = false;
            }
        }
    }
    if args.json {
        println!("{}", bar::json(&bars)?);
    } else {
        print!("{}", bar::table(&bars));
    }
    Ok(all_measured && bars.iter().all(Bar::is_met))
}

fn measure(name: Name, setting: &Setting, processes: u32) -> Result<Vec<Bar>, Error> {
    match name {
        Name::Read => read::measure(setting),
        Name::Manager => manager::measure(setting),
        Name::Promotion => promotion::measure(setting),
        Name::Speed => speed::measure(setting),
        Name::Sparse => sparse::measure(setting),
        Name::Fleet => fleet::measure(setting, processes),
        Name::Scrape => scrape::measure(setting),
        Name::Record => record::measure(setting),
        Name::Defaults => defaults::measure(setting),
        Name::ScanTask => scan_task::measure(setting),
    }
}
