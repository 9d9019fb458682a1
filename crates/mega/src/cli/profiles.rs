//! Options of `mega profiles`.

use clap::{Args, Subcommand};

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
