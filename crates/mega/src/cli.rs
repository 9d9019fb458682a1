//! The command line: one definition per flag. Help, completions and man pages come from it.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mega_core::engine::{Budgets, Interval};
use mega_core::promotion::DEFAULT_POLICY;
use mega_linux::TrackerKind;
use mega_linux::process::Chosen;

use crate::processes::Column;
use crate::value;

const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.";

const RUN_EXIT_CODES: &str = "\
Exit codes: those of COMMAND (128 + n when signal n ended it); 126 when mega cannot execute it, 127 when mega \
does not find it; before it starts: 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega run --policy mega --set scans=5 --report report.json -- redis-server";

const SCAN_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega scan $(pidof redis-server) --window 10s --bloat";

const TOP_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega top
  mega top mega-top-20261124T140509Z.json
  mega top redis.rec";

const WORTH_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing; with COMMAND its own, as `mega run`.

Example:
  mega worth $(pidof redis-server) --seconds 5";

const RECORD_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing; with COMMAND its own, as `mega run`.

Example:
  mega record --pid $(pidof redis-server) --for 10m -o redis.rec
  mega record -o gups.rec -- ./gups";

const REPLAY_EXAMPLE: &str = "\
Exit codes: 0 done, 1 the file is no recording or cannot be read, 2 wrong usage.

Example:
  mega replay redis.rec --policy adaptive,mega,ingens --svg redis.svg
  mega replay redis.rec --memory 64GiB --fragmentation 80%";

const RANGE_EXAMPLE: &str = "\
Exit codes: 0 every region is as you want it, 1 some are not, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega promote 4711 7f0000000000+1GiB";

const COMPACT_EXAMPLE: &str = "\
Exit codes: 0 it emptied as many as you asked for, 1 it emptied fewer, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega compact --blocks 100 --dry-run";

const COVERAGE_EXAMPLE: &str = "\
It only looks. To have mega keep so much in huge pages for as long as a program lives, promise it: `coverage = \"95%\"` in a [[select]] \
of the configuration (mega.toml(5)), or `mega run --coverage 95%`; coverage_of and --coverage-of say of which memory.

Exit codes: 0 enough is in huge pages, 1 not enough is, or failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega coverage --select guests --min 95% --wait 60s
  mega coverage 4711 --of '/memfd:*'";

const EVENTS_EXAMPLE: &str = "\
Exit codes: 0 done, 1 no mega is running or one did not answer, 2 wrong usage, 3 a privilege is missing.

Example:
  mega events --follow --json";

const REPORT_EXAMPLE: &str = "\
Exit codes: 0 done, 1 no daemon is running or a file cannot be read or written, 2 wrong usage, 3 a privilege is missing.

Example:
  mega report -o day.html
  mega report redis.rec -o redis.html";

const GROW_EXAMPLE: &str = "\
Exit codes: 0 hzmem got as much as you asked for, 1 it got less, 2 wrong usage, 3 a kernel feature or a privilege \
is missing.

Example:
  mega hz grow 512MiB --node 0";

const SHRINK_EXAMPLE: &str = "\
Exit codes: 0 it gave the memory back, 1 some of it is in use, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega hz shrink 0x138000000";

const PROFILES_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed or no such profile, 2 wrong usage.

Example:
  mega profiles show redis-server";

const OF_THE_LAB: &str = "\
Another program, mega-lab, takes the arguments; `--help` shows them. Exit codes: those of mega-lab; 3 when it is not installed.";

/// Manages the huge pages of programs: huge pages where they pay, fast page faults, no bloat
#[derive(Debug, Parser)]
#[command(version = env!("MEGA_VERSION"), after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Without one, mega says what to do next.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Where the daemon's configuration is, if nobody says otherwise.
pub(crate) const DEFAULT_CONFIG: &str = "/etc/mega/mega.toml";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a program and manage it and its descendants until it ends
    #[command(after_help = RUN_EXIT_CODES, override_usage = "mega run [OPTIONS] -- <COMMAND>...")]
    Run(Run),
    /// Manage the programs that the configuration selects, until you stop it
    #[command(after_help = EXIT_CODES)]
    Daemon(Daemon),
    /// Show whether the running daemon and every running `mega run` are well, and what they see and do
    #[command(
        after_help = "Exit codes: 0 done, 1 no mega is running, 2 wrong usage, 3 a privilege is missing."
    )]
    Status(Status),
    /// Watch the machine and its processes live, or open a snapshot of that
    #[command(after_help = TOP_EXAMPLE)]
    Top(Top),
    /// Look once at a process: what is mapped, accessed, huge and bloat, and what each policy would do
    #[command(after_help = SCAN_EXAMPLE)]
    Scan(Scan),
    /// Say what huge pages would gain a program, and change nothing
    #[command(after_help = WORTH_EXAMPLE, override_usage = "mega worth [OPTIONS] <PID>\n       mega worth [OPTIONS] --select <NAME>\n       mega worth [OPTIONS] -- <COMMAND>...")]
    Worth(Worth),
    /// Record what memory programs map and access, to replay any policy on it later; change nothing
    #[command(after_help = RECORD_EXAMPLE, override_usage = "mega record [OPTIONS] -o <FILE> --pid <PID>\n       mega record [OPTIONS] -o <FILE> --select <NAME>\n       mega record [OPTIONS] -o <FILE> -- <COMMAND>...")]
    Record(Record),
    /// Run policies on a recording: what each would have made huge, at what cost
    #[command(after_help = REPLAY_EXAMPLE)]
    Replay(Replay),
    /// Promote regions of a process by hand, and check the result
    #[command(after_help = RANGE_EXAMPLE)]
    Promote(Act),
    /// Demote huge pages of a process by hand, and check the result
    #[command(after_help = RANGE_EXAMPLE)]
    Demote(Demote),
    /// Show physical memory: free lists, fragmentation per order, and a map of its blocks
    #[command(after_help = EXIT_CODES)]
    Frag(Frag),
    /// Empty blocks or chunks of physical memory by hand, and check the result
    #[command(after_help = COMPACT_EXAMPLE)]
    Compact(Compact),
    /// Show how much of a program's memory is in huge pages, why not more, and what would help
    #[command(after_help = COVERAGE_EXAMPLE)]
    Coverage(Coverage),
    /// Show what has changed: promised coverage kept or broken, processes managed or refused, reloads, errors
    #[command(after_help = EVENTS_EXAMPLE)]
    Events(Events),
    /// Write one page about the daemon's last day (what it spent and gained, coverage over time, who was not covered and
    /// why), or about a recording
    #[command(after_help = REPORT_EXAMPLE)]
    Report(Report),
    /// Show, grow and shrink the memory of hzmem, which compresses cold huge pages (needs its kernel module)
    #[command(after_help = EXIT_CODES)]
    Hz(Hz),
    /// Show what this kernel and your privileges allow, what each missing thing costs, and how to get it
    #[command(
        after_help = "Exit codes: 0 mega can manage programs here, 1 failed, 2 wrong usage, 3 it cannot."
    )]
    Doctor(Doctor),
    /// Write a configuration for the daemon from what runs here, for you to edit
    #[command(after_help = EXIT_CODES)]
    Init(Init),
    /// List the policies and their parameters with defaults
    Policies(Policies),
    /// List, show and forget what mega remembers of programs: which of their memory gets huge pages from the start
    #[command(after_help = PROFILES_EXAMPLE)]
    Profiles(Profiles),
    /// Compare one memory-hungry program with base pages, with THP always and under mega
    #[command(disable_help_flag = true, after_help = OF_THE_LAB)]
    Demo(PassedOn),
    /// Run the papers' experiments on this machine, in every mode
    #[command(disable_help_flag = true, after_help = OF_THE_LAB)]
    Lab(PassedOn),
    /// Run a program with known behaviour, for tests and experiments
    #[command(disable_help_flag = true, after_help = OF_THE_LAB)]
    Workload(PassedOn),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write man pages
    Man(Man),
}

/// `mega run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) bounds: BoundArgs,
    /// Keep so much of the memory in huge pages, whatever the policy finds worth it
    #[arg(long, value_name = "SHARE", value_parser = value::part)]
    pub(crate) coverage: Option<f64>,
    /// The memory that this is about: private, heap, shared, largest (the largest piece), or a pattern for names in
    /// /proc/PID/maps, as /dev/shm/*; several with commas between them [default: all that huge pages can map]
    #[arg(long, value_name = "MEMORY", value_parser = value::chosen, requires = "coverage")]
    pub(crate) coverage_of: Option<Chosen>,
    /// What the program's page faults take: what was right in earlier runs of the program (see `mega profiles`), base pages at
    /// first; base pages always, so that faults stay fast and mega promotes later; or whatever the machine's THP mode says
    #[arg(long, value_name = "MODE", default_value = "auto", value_enum)]
    pub(crate) fault: Fault,
    #[command(flatten)]
    pub(crate) tracker: TrackerArgs,
    /// Observe and decide, but change nothing. mega does not clear Accessed bits either, so accesses stay unknown
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write a report as JSON to FILE after the program has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Record to FILE what mega sees and does at each step, for `mega top FILE`, `mega report FILE` and `mega lab
    /// trace-info FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Print no summary to standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Which policy.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// The policy (see `mega policies`)
    #[arg(long, value_name = "NAME", default_value = DEFAULT_POLICY)]
    pub(crate) policy: String,
    /// Set a parameter of the policy; you can give this several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = value::parameter)]
    pub(crate) parameters: Vec<(String, f64)>,
}

/// What managing may cost.
#[derive(Debug, Args)]
pub(crate) struct BoundArgs {
    #[command(flatten)]
    pub(crate) budgets: BudgetArgs,
    /// How long mega may hold the program's mmap lock in one go
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = value::lock_bound)]
    pub(crate) lock_bound: Duration,
}

/// How often it is looked, and what promotions may cost.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Time between two observations, or `auto`: short while the program is new or changes, longer once it has settled
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = value::interval_or_auto)]
    pub(crate) interval: Interval,
    /// CPU time the manager may use, as a share of one core: a mean over two minutes
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = value::cpu_share)]
    pub(crate) cpu_budget: f64,
    /// Bytes that promotions may copy per second
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = value::bytes_per_second)]
    pub(crate) copy_budget: u64,
    /// Share of its time that the program may stand still because its memory is promoted
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = value::standstill)]
    pub(crate) standstill: f64,
}

impl BudgetArgs {
    /// The budgets.
    pub(crate) fn budgets(&self) -> Budgets {
        Budgets {
            cpu_share: self.cpu_budget,
            copy_bytes_per_second: self.copy_budget,
            standstill: self.standstill,
        }
    }
}

/// Which tracker.
#[derive(Debug, Args)]
pub(crate) struct TrackerArgs {
    /// How mega finds mapped and accessed pages (see `mega doctor`)
    #[arg(long, value_name = "NAME", default_value = "auto", value_enum)]
    pub(crate) tracker: Tracker,
}

/// `mega daemon`
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// The configuration; mega reads FILE.d/*.toml after it
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub(crate) config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Observe and decide, but change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `mega status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// List every process, and not only whether all is well
    #[arg(long)]
    pub(crate) processes: bool,
    /// Sort the processes by this column: the most first, names and pids ascending
    #[arg(
        long,
        value_name = "COLUMN",
        default_value = "resident",
        value_enum,
        requires = "processes"
    )]
    pub(crate) sort: Column,
    /// List this many processes at most
    #[arg(long, value_name = "N", requires = "processes")]
    pub(crate) limit: Option<usize>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "processes")]
    pub(crate) json: bool,
}

/// `mega top`
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Open this snapshot, which `s` in `mega top` wrote; or play this recording, which `mega record` wrote
    #[arg(value_name = "FILE", conflicts_with_all = ["observe", "interval", "tracker"])]
    pub(crate) file: Option<PathBuf>,
    /// Look by itself, and ask no manager. It changes nothing: what is accessed stays unknown [default: if no manager
    /// runs]
    #[arg(long)]
    pub(crate) observe: bool,
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = value::interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) tracker: TrackerArgs,
}

/// `mega scan`
#[derive(Debug, Args)]
pub(crate) struct Scan {
    /// The process
    #[arg(value_parser = pid())]
    pub(crate) pid: u32,
    /// How long Accessed bits gather
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = value::interval)]
    pub(crate) window: Duration,
    /// Also count the base pages that hold only zeros; this reads all of the process's memory
    #[arg(long)]
    pub(crate) bloat: bool,
    #[command(flatten)]
    pub(crate) tracker: TrackerArgs,
    /// Change nothing: mega clears no Accessed bits, accesses stay unknown, and there is no window
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show every region, and do not join like neighbours
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
}

/// `mega worth`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").required(true).args(["pid", "select", "command"]))]
pub(crate) struct Worth {
    /// The process
    #[arg(value_parser = pid())]
    pub(crate) pid: Option<u32>,
    /// All processes that this select of the daemon's configuration takes, one after the other
    #[arg(long, value_name = "NAME")]
    pub(crate) select: Option<String>,
    /// The configuration that has the select
    #[arg(long, value_name = "FILE", default_value = "/etc/mega/mega.toml")]
    pub(crate) config: PathBuf,
    /// How long mega measures a process at most. It measures COMMAND again and again until that ends, and reports
    /// the measurement nearest to the mean
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = value::seconds)]
    pub(crate) seconds: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw what is made huge against what that gains as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// A program to start on base pages, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

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
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw coverage and resident memory over time as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `mega demote`
#[derive(Debug, Args)]
pub(crate) struct Demote {
    #[command(flatten)]
    pub(crate) act: Act,
    /// Give back the huge pages that hold only zeros, in each whole 1 GiB of the range, and demote nothing else. A giant
    /// page that holds some becomes huge pages (needs the patched kernel and the kernel module)
    #[arg(long, conflicts_with = "page_size")]
    pub(crate) zero_filled: bool,
}

/// `mega promote`, `mega demote`
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// The process
    #[arg(value_parser = pid())]
    pub(crate) pid: u32,
    /// Addresses of the process, START-END or START+LENGTH (addresses in hexadecimal) [default: all eligible memory]
    #[arg(value_name = "RANGE", value_parser = value::address_range)]
    pub(crate) range: Option<Range<u64>>,
    /// The page size to make, or to break up. With 1G, mega promotes each whole 1 GiB of the range to huge pages and then
    /// to a giant page, or demotes a giant page to huge pages (needs the patched kernel and the kernel module)
    #[arg(long, value_name = "SIZE", default_value = "2M", value_enum)]
    pub(crate) page_size: LargePage,
    /// How long mega may hold the process's mmap lock in one go
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = value::lock_bound)]
    pub(crate) lock_bound: Duration,
    /// Say what mega would do, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega frag`
#[derive(Debug, Args)]
pub(crate) struct Frag {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw the map of blocks as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `mega compact`
#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pub(crate) amount: Amount,
    /// Which policy selects what to empty: mega, trident, ingens, sequential, or linux, which leaves the choice to the
    /// kernel and needs no module [default: mega for blocks, trident for chunks]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Set a parameter of the policy (see `mega policies`; its period and its budget do not count here); you can give
    /// this several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = value::parameter)]
    pub(crate) parameters: Vec<(String, f64)>,
    /// Say what mega would empty, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much to empty.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Amount {
    /// Blocks of 2 MiB to empty
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) blocks: Option<u64>,
    /// Chunks of 1 GiB to empty
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunks: Option<u64>,
}

/// `mega coverage`
#[derive(Debug, Args)]
pub(crate) struct Coverage {
    /// The process; without one, and without --select, only what this machine could give
    #[arg(value_parser = pid())]
    pub(crate) pid: Option<u32>,
    /// Each process of this selection of the running daemon
    #[arg(long, value_name = "NAME", conflicts_with = "pid")]
    pub(crate) select: Option<String>,
    /// The share that has to be in huge pages, as 95%, of the mapped memory that they can map [default: what the selection
    /// promises, if it does]
    #[arg(long, value_name = "SHARE", value_parser = value::part)]
    pub(crate) min: Option<f64>,
    /// How long to wait until it is
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = value::wait)]
    pub(crate) wait: Duration,
    /// Look at this memory only: private, heap, shared, largest (the largest piece), or a pattern for names in
    /// /proc/PID/maps, as /dev/shm/* for a database's buffers or /memfd:* for a guest's memory; several with commas between them
    /// [default: what the selection promises it of, or all]
    #[arg(long, value_name = "MEMORY", value_parser = value::chosen)]
    pub(crate) of: Option<Chosen>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on with what changes from now on, until you stop it; also of managers that start later
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega report`
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The recording that it is about, which `mega record` wrote [default: the last day of the running daemon]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write one JSON object, and no HTML page
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega hz`
#[derive(Debug, Args)]
pub(crate) struct Hz {
    #[command(subcommand)]
    pub(crate) command: HzCommand,
}

/// What to do with hzmem's memory.
#[derive(Debug, Subcommand)]
pub(crate) enum HzCommand {
    /// Show hzmem's memory, and what each mount holds, saves and did
    #[command(after_help = EXIT_CODES)]
    Status(HzStatus),
    /// Give hzmem memory: empty the memory blocks with the least to move, and take them from the kernel (needs mega's
    /// kernel module too)
    #[command(after_help = GROW_EXAMPLE)]
    Grow(HzGrow),
    /// Give unused memory of hzmem back to the kernel
    #[command(after_help = SHRINK_EXAMPLE)]
    Shrink(HzShrink),
}

/// `mega hz status`
#[derive(Debug, Args)]
pub(crate) struct HzStatus {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega hz grow`
#[derive(Debug, Args)]
pub(crate) struct HzGrow {
    /// How much, rounded up to whole memory blocks (128 MiB each on most machines)
    #[arg(value_name = "SIZE", value_parser = value::some_bytes)]
    pub(crate) size: u64,
    /// Only memory of this NUMA node
    #[arg(long, value_name = "N")]
    pub(crate) node: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega hz shrink`
#[derive(Debug, Args)]
pub(crate) struct HzShrink {
    /// The address at which a range of hzmem's memory begins (see `mega hz status`), or all memory that hzmem got while
    /// the machine ran
    #[arg(value_name = "PHYS|all", value_parser = value::hz_range)]
    pub(crate) range: value::HzRange,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// First put back what a killed mega left changed (`run` and `daemon` do so at every start)
    #[arg(long)]
    pub(crate) restore: bool,
    /// Measure anew what touches cost on this machine (some seconds), and keep it for `mega worth`
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Also draw what touches cost on this machine as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `mega init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write; mega overwrites none [default: /etc/mega/mega.toml or, if that exists,
    /// /etc/mega/mega.toml.d/init.toml, which mega reads after it]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Name the processes that have at least this much resident
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = value::some_bytes)]
    pub(crate) min_resident: u64,
    /// Print the configuration, and write no file
    #[arg(long, conflicts_with = "config")]
    pub(crate) print: bool,
}

/// `mega policies`
#[derive(Debug, Args)]
pub(crate) struct Policies {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega profiles`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Profiles {
    #[command(subcommand)]
    pub(crate) command: Option<ProfilesCommand>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with profiles. Without a command they are listed.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfilesCommand {
    /// List all profiles
    List(ListProfiles),
    /// Show one profile
    Show(ShowProfile),
    /// Forget profiles
    Forget(ForgetProfiles),
}

/// `mega profiles list`
#[derive(Debug, Args)]
pub(crate) struct ListProfiles {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega profiles show`
#[derive(Debug, Args)]
pub(crate) struct ShowProfile {
    /// The name of the profile, or how it begins
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega profiles forget`
#[derive(Debug, Args)]
pub(crate) struct ForgetProfiles {
    /// The names of the profiles, or how they begin
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) names: Vec<String>,
    /// Forget all profiles
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mega demo`, `mega lab` and `mega workload`
#[derive(Debug, Args)]
pub(crate) struct PassedOn {
    /// The arguments of mega-lab
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}

/// `mega completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `mega man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder to write mega.1, mega-run.1 and so on to
    pub(crate) folder: PathBuf,
}

/// `--page-size`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LargePage {
    /// Huge pages
    #[value(name = "2M")]
    Huge,
    /// Giant pages
    #[value(name = "1G")]
    Giant,
}

/// `--tracker`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tracker {
    /// The best one that works here
    Auto,
    /// The kernel module
    Module,
    /// A BPF program that reads the page tables
    Bpf,
    /// The kernel's idle page tracking
    #[value(name = "page_idle")]
    PageIdle,
    /// Finds mapped pages only: accesses stay unknown
    Mapped,
}

impl TrackerArgs {
    /// The tracker asked for; `None` for the best one.
    pub(crate) fn kind(&self) -> Option<TrackerKind> {
        match self.tracker {
            Tracker::Auto => None,
            Tracker::Module => Some(TrackerKind::Module),
            Tracker::Bpf => Some(TrackerKind::Bpf),
            Tracker::PageIdle => Some(TrackerKind::PageIdle),
            Tracker::Mapped => Some(TrackerKind::Mapped),
        }
    }
}

/// `--fault`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Huge pages from the start where they were right in earlier runs, base pages elsewhere
    Auto,
    /// Base pages
    Base,
    /// Whatever the machine's THP mode says
    Inherit,
}

/// Process ids of Linux: 1 to `PID_MAX_LIMIT`, 2^22.
fn pid() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 22)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_the_program_are_not_ours() {
        let cli = Cli::try_parse_from(["mega", "run", "--quiet", "--", "ls", "--quiet", "-l"])
            .expect("parses");
        let Some(Command::Run(run)) = cli.command else {
            panic!("not run")
        };
        assert_eq!(run.command, ["ls", "--quiet", "-l"]);
        let cli = Cli::try_parse_from(["mega", "run", "ls", "--interval", "x"]).expect("parses");
        let Some(Command::Run(run)) = cli.command else {
            panic!("not run")
        };
        assert_eq!(run.command, ["ls", "--interval", "x"]);
    }
}
