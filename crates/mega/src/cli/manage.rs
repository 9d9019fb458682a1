//! Options of the commands that manage programs: `mega run` and `mega daemon`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mega_core::engine::Budgets;
use mega_core::engine::Interval;
use mega_core::promotion::DEFAULT_POLICY;
use mega_linux::TrackerKind;
use mega_linux::process::Chosen;

use super::DEFAULT_CONFIG;
use crate::value;

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
