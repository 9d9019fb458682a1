//! Options of the commands that only look.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mega_linux::process::Chosen;

use super::manage::TrackerArgs;
use super::pid;
use crate::processes::Column;
use crate::value;

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
