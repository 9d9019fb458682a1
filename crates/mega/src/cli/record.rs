//! Options of `mega record` and `mega replay`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use mega_core::PageSize;
use mega_core::promotion::DEFAULT_POLICY;
use mega_record::replay::{PROCESSORS, Processor};

use super::DEFAULT_CONFIG;
use super::manage::BudgetArgs;
use super::manage::TrackerArgs;
use super::pid;
use crate::value;

/// `mega record`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).args(["pid", "select", "command"]))]
pub(crate) struct Record {
    /// The process
    #[arg(long, value_parser = pid())]
    pub(crate) pid: Option<u32>,
    /// All processes that this select of the daemon's configuration takes, also those that start later
    #[arg(long, value_name = "NAME")]
    pub(crate) select: Option<String>,
    /// The configuration that has the select
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub(crate) config: PathBuf,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::interval)]
    pub(crate) interval: Duration,
    /// How long to record [default: until the program ends, or you stop it]
    #[arg(long = "for", value_name = "TIME", value_parser = value::recorded_time)]
    pub(crate) time: Option<Duration>,
    #[command(flatten)]
    pub(crate) tracker: TrackerArgs,
    /// See when mappings change also where the kernel allows that only at all system calls: each call of every program on the machine
    /// then takes longer, and twice as long where it does next to nothing
    #[arg(long)]
    pub(crate) all_calls: bool,
    /// Print one JSON object about the recording at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// A program to start on base pages, and its arguments; its descendants are recorded too
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// `mega replay`
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The recording, which `mega record` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The policies, with commas between them (see `mega policies`)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = DEFAULT_POLICY)]
    pub(crate) policy: Vec<String>,
    #[command(flatten)]
    pub(crate) budgets: BudgetArgs,
    /// Memory of the machine [default: as much as the one that it was recorded on had]. What was in use stays in use
    #[arg(long, value_name = "BYTES", value_parser = value::some_bytes)]
    pub(crate) memory: Option<u64>,
    /// The part of its free memory in pieces too small for a huge page; nothing compacts it [default: what it was at each
    /// moment]
    #[arg(long, value_name = "SHARE", value_parser = value::part_or_number)]
    pub(crate) fragmentation: Option<f64>,
    /// Replay on the simulated kernel (see docs/simulator.md): with giant pages, as the patched kernel has them, and with compaction
    /// for what promotions lack
    #[arg(long)]
    pub(crate) simulated: bool,
    /// Also say how long this processor would have translated the program's addresses, by the touches that were counted when it
    /// was recorded. What mega does takes as long as on its machine, as far as that is known (see docs/simulator.md)
    #[arg(long, value_name = "NAME", value_parser = processor())]
    pub(crate) cpu: Option<Processor>,
    /// With --cpu: translate as in a virtual machine whose memory the host maps by base, huge or giant pages [default: as on
    /// the machine itself]
    #[arg(long, value_name = "SIZE", requires = "cpu", value_parser = host_pages())]
    pub(crate) host_pages: Option<PageSize>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw all of it over time as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// The page sizes, by their names.
fn host_pages() -> impl TypedValueParser<Value = PageSize> {
    one_of([
        ("base", PageSize::Base),
        ("huge", PageSize::Huge),
        ("giant", PageSize::Giant),
    ])
}

/// The processors whose translation is simulated, by their names.
fn processor() -> impl TypedValueParser<Value = Processor> {
    one_of(PROCESSORS.map(|processor| (processor.name, *processor)))
}

/// One of some values, by its name.
fn one_of<T, const N: usize>(known: [(&'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = PossibleValuesParser::new(known.map(|(name, _)| name));
    names.try_map(move |asked| {
        let named = known.iter().find(|(name, _)| *name == asked);
        named.map(|(_, value)| *value).ok_or("it is not known")
    })
}
