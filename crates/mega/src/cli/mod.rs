//! The command line: one definition per flag. Help, completions and man pages come from it.

mod act;
mod help_text;
mod hz;
mod look;
mod manage;
mod profiles;
mod record;
mod set_up;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

pub(crate) use act::{Act, Compact, Demote, LargePage};
pub(crate) use hz::{Hz, HzCommand, HzGrow, HzShrink, HzStatus};
pub(crate) use look::{Coverage, Events, Frag, Report, Scan, Status, Top, Worth};
pub(crate) use manage::{Daemon, Fault, Run};
pub(crate) use profiles::{ForgetProfiles, Profiles, ProfilesCommand, ShowProfile};
pub(crate) use record::{Record, Replay};
pub(crate) use set_up::{Completions, Doctor, Init, Man, Policies};

use help_text::{
    COMPACT_EXAMPLE, COVERAGE_EXAMPLE, EVENTS_EXAMPLE, EXIT_CODES, OF_THE_LAB, PROFILES_EXAMPLE,
    RANGE_EXAMPLE, RECORD_EXAMPLE, REPLAY_EXAMPLE, REPORT_EXAMPLE, RUN_EXIT_CODES, SCAN_EXAMPLE,
    TOP_EXAMPLE, WORTH_EXAMPLE,
};

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
