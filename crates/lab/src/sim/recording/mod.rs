//! `mega lab sim recording`: recordings of `mega record` as programs of one simulated machine, alone or beside others, under every system in turn.
//!
//! The machine is that of the first recording, on the terms of the command line. What a process does is in
//! `crates/record/src/programs`.

mod beside;
mod file;
mod running;
mod tables;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mega_core::{MemoryObservation, PageSize, bytes};
use mega_record::replay::{Terms, kernel_as_recorded};
use mega_sim::Settings;
use mega_sim::translation::{PROCESSORS, Processor, SKYLAKE_SP, Walk};

use self::beside::Beside;
use self::file::Recorded;
use self::running::{Machine, Run};
use super::findings::Findings;
use super::hardware::Hardware;
use super::report::{self, Heading, Report};
use super::side_by_side::side_by_side;
use super::system::{
    ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT, TRIDENT_1G_ONLY, TRIDENT_FAULTS,
    TRIDENT_NC,
};
use crate::error::Error;

/// What helps where there is too little memory.
const MORE_MEMORY: &str =
    "give it more with --memory, or leave out what everybody else had in use with --alone";
/// With `--alone`, everybody else has one page in so many in use.
const IN_USE: u64 = 64;

/// What the report is called.
pub(super) const NAME: &str = "recording";

/// Every system that needs no hypervisor.
const SYSTEMS: [System; 10] = [
    BASE,
    THP,
    INGENS,
    HAWKEYE,
    MEGA,
    TRIDENT,
    TRIDENT_FAULTS,
    TRIDENT_NC,
    TRIDENT_1G_ONLY,
    ADAPTIVE,
];

/// `mega lab sim recording`
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The recordings, which `mega record` wrote. The machine is that of the first, with what everybody else had in use there
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Another program beside them, of so much memory: cache, graph, updates, idle, churn, sparse or strides (see docs/simulator.md);
    /// may be given several times
    #[arg(long, value_name = "KIND:BYTES", value_parser = Beside::parse)]
    beside: Vec<Beside>,
    /// Memory of the machine [default: as much as that of the first recording had]. What was in use stays in use
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    memory: Option<u64>,
    /// Leave out what everybody else had in use on the machine of the first recording, but for one page in 64, between which pieces lie
    #[arg(long)]
    alone: bool,
    /// The part of its free memory in pieces too small for a huge page when all begins, as 80% [default: what it was when the first
    /// recording began]
    #[arg(long, value_name = "SHARE", value_parser = part)]
    fragmentation: Option<f64>,
    /// The processor on whose cores the programs run
    #[arg(long, value_name = "NAME", default_value = SKYLAKE_SP.name, value_parser = processor())]
    cpu: Processor,
    /// Translate as in a virtual machine whose memory the host maps by base, huge or giant pages [default: as on the machine itself]
    #[arg(long, value_name = "SIZE", value_parser = host_pages())]
    host_pages: Option<PageSize>,
    /// The systems, with commas between them [default: all of them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = PossibleValuesParser::new(SYSTEMS.map(|system| system.name)))]
    system: Vec<String>,
    /// What random numbers come from: the same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder for what is written, in a folder `recording`, and index.md on all experiments that are there
    #[arg(short, long, value_name = "FOLDER", default_value = "mega-sim")]
    out: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs the command; returns what it prints on standard output.
///
/// # Errors
/// Where a file is no recording, there can be no such machine, or a file cannot be written.
pub(super) fn run(args: &Args) -> Result<String, Error> {
    let recorded = args
        .files
        .iter()
        .map(|file| Recorded::of(file))
        .collect::<Result<Vec<_>, Error>>()?;
    let machine = machine(args, &recorded)?;
    let systems: Vec<System> = SYSTEMS
        .into_iter()
        .filter(|system| {
            args.system.is_empty() || args.system.iter().any(|name| name == system.name)
        })
        .collect();
    let runs = side_by_side(&systems, |system| {
        eprintln!("mega lab: {NAME}, {}", system.name);
        running::run(*system, &machine, &recorded, &args.beside, args.seed)
    })?;
    let report = Report::under(
        heading(args, &recorded),
        1,
        args.seed,
        findings(&machine, &systems, runs, &recorded, &args.beside),
        &[],
    );
    report::write(&args.out, &report)?;
    report::write_page(&args.out)?;
    eprintln!("mega lab: the results are in {}", args.out.display());
    if args.json {
        return report::as_json(&[report], true);
    }
    Ok(report::in_words(&report))
}

/// The machine before anything of the recordings is there.
fn machine(args: &Args, recorded: &[Recorded]) -> Result<Machine, Error> {
    let (Some(recording), Some(file)) = (recorded.first(), args.files.first()) else {
        return Err(Error::Failed("name a recording".to_owned()));
    };
    let walk = args.host_pages.map_or(Walk::Native, Walk::Nested);
    let terms = Terms {
        memory: args.memory,
        fragmentation: args.fragmentation,
        ..Terms::default()
    }
    .on(args.cpu, walk);
    let mut first = recording.first.clone();
    if args.alone {
        first.memory = without_others(
            args.memory.unwrap_or(first.memory.total),
            recording.resident_at_first(),
        );
    }
    let (kernel, others) = kernel_as_recorded(&first, &terms, Settings::default())
        .map_err(|error| Error::Failed(format!("cannot simulate {}: {error}", file.display())))?;
    let memory = kernel.memory();
    let free = memory.free_frames() * mega_core::BASE_PAGE_SIZE;
    let needed: u64 = recorded
        .iter()
        .map(Recorded::resident_at_first)
        .sum::<u64>()
        + args.beside.iter().map(Beside::bytes).sum::<u64>();
    if needed > free {
        return Err(Error::Failed(format!(
            "cannot simulate these programs on one machine: they begin with {}, and it has {} for them; {MORE_MEMORY}",
            bytes::format(needed),
            bytes::format(free)
        )));
    }
    Ok(Machine {
        kernel,
        others,
        cpus: recording.cpus,
        hardware: Hardware {
            costs: terms.costs,
            processor: args.cpu,
            walk,
        },
    })
}

/// The memory of a machine on which nobody else has more in use than pieces need to lie between.
fn without_others(total: u64, recorded: u64) -> MemoryObservation {
    let free = total.saturating_sub(recorded + total / IN_USE);
    MemoryObservation {
        total,
        available: free,
        free,
        contiguity: free,
        nodes: Vec::new(),
    }
}

fn findings(
    machine: &Machine,
    systems: &[System],
    runs: Vec<Run>,
    recorded: &[Recorded],
    beside: &[Beside],
) -> Findings {
    let tables = tables::tables(systems, &runs, recorded, beside);
    Findings {
        memory_bytes: machine.kernel.memory().frames() * mega_core::BASE_PAGE_SIZE,
        tables,
        happened: runs.into_iter().map(|run| run.happened).collect(),
    }
}

/// What the report says of itself.
fn heading(args: &Args, recorded: &[Recorded]) -> Heading {
    let mut command = format!("mega lab sim {NAME}");
    for file in &args.files {
        command += &format!(" {}", file.display());
    }
    for beside in &args.beside {
        command += &format!(" --beside {beside}");
    }
    if let Some(memory) = args.memory {
        command += &format!(" --memory {memory}");
    }
    if args.alone {
        command += " --alone";
    }
    if let Some(fragmentation) = args.fragmentation {
        command += &format!(" --fragmentation {fragmentation}");
    }
    command += &format!(" --cpu {}", args.cpu.name);
    if let Some(size) = args.host_pages {
        command += &format!(" --host-pages {}", size_name(size));
    }
    if !args.system.is_empty() {
        command += &format!(" --system {}", args.system.join(","));
    }
    command += &format!(" --seed {}", args.seed);
    let of_each: Vec<String> = recorded.iter().map(Recorded::in_words).collect();
    Heading {
        name: NAME.to_owned(),
        title: "recordings as programs of one machine".to_owned(),
        source: "beyond the papers".to_owned(),
        about: format!(
            "The processes of these recordings map, touch and free what they did when they were recorded, once each has the memory of its first look: {}. What a process did between two looks it begins when it was recorded, or once it is through with what comes before; so it can be late. Which base pages of a region are mapped and used is not recorded, but how many. Memory that huge pages mapped when it was recorded is blind: it is in use here, and no system sees it.",
            of_each.join("; ")
        ),
        command: Some(command),
    }
}

const SIZES: [(&str, PageSize); 3] = [
    ("base", PageSize::Base),
    ("huge", PageSize::Huge),
    ("giant", PageSize::Giant),
];

fn size_name(size: PageSize) -> &'static str {
    let mut names = SIZES.iter().filter(|(_, one)| *one == size);
    names.next().map_or("", |(name, _)| name)
}

fn host_pages() -> impl TypedValueParser<Value = PageSize> {
    PossibleValuesParser::new(SIZES.map(|(name, _)| name)).map(|name| {
        let mut sizes = SIZES.iter().filter(|(one, _)| *one == name);
        sizes.next().map_or(PageSize::Base, |(_, size)| *size)
    })
}

fn processor() -> impl TypedValueParser<Value = Processor> {
    PossibleValuesParser::new(PROCESSORS.map(|processor| processor.name)).map(|name| {
        let mut known = PROCESSORS.iter().filter(|processor| processor.name == name);
        **known.next().unwrap_or(&&SKYLAKE_SP)
    })
}

/// Parses a part: 0 % to 100 %, or 0 to 1.
fn part(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=whole).contains(&number) => Ok(number / whole),
        _ => Err(format!(
            "'{text}' is not a part; write it as 80%, from 0% to 100%"
        )),
    }
}

#[cfg(test)]
mod tests;
