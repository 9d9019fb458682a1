//! Becomes a program that cannot switch huge pages off for itself: for an experiment that asks what they would bring it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::error::Error;

/// `PR_SET_THP_DISABLE` of `prctl`.
#[allow(clippy::cast_sign_loss)] // a small constant
const THP_DISABLE: u64 = libc::PR_SET_THP_DISABLE as u64;

/// Which program.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Becomes that program. Its `prctl(PR_SET_THP_DISABLE)` says that it was done, and does nothing; that holds for all that it starts, too.
///
/// # Errors
/// When the kernel has no seccomp filters, and when the program cannot be started.
pub fn run(args: &Args) -> Result<Infallible, Error> {
    let filter =
        filter().map_err(|error| Error::Failed(format!("making a seccomp filter: {error}")))?;
    seccompiler::apply_filter(&filter).map_err(|error| {
        Error::Missing(format!(
            "installing a seccomp filter: {error}; the kernel needs CONFIG_SECCOMP_FILTER"
        ))
    })?;
    let (program, arguments) = args
        .command
        .split_first()
        .ok_or_else(|| Error::Failed("no program is named".to_owned()))?;
    let error = Command::new(program).args(arguments).exec();
    Err(Error::io(format!("starting {}", program.display()), error))
}

/// What it is to be asked for answers 0 without doing anything; all else is allowed.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let asks = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, THP_DISABLE)?;
    let rules = [(libc::SYS_prctl, vec![SeccompRule::new(vec![asks])?])];
    SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(0),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}
