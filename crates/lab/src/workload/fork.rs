//! `fork`: children that work as `random`, or touch their memory and idle, each on its part; their events follow the
//! parent's on the same standard output, and their end is the parent's.

use std::process::{Child, Command, Stdio};

use super::arguments::Common;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::programs;

/// What `fork` is told besides.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Family {
    /// Number of children
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    children: u32,
    /// Have them touch their memory once and then idle
    #[arg(long)]
    idle: bool,
}

pub(super) fn run(
    common: &Common,
    family: &Family,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let program = programs::own()?;
    reporter.ready(Vec::new())?;
    let mut children = Vec::new();
    for number in 0..family.children {
        let mut command = Command::new(&program);
        command
            .args(arguments(common, family, number))
            .stdin(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|e| Error::io(format!("starting {}", program.display()), e))?;
        children.push(child);
    }
    stop.start();
    stop.wait();
    let right = end(children)?;
    let mut done = Done::new(stop.elapsed(), u64::from(family.children))?;
    done.verified = right;
    Ok(done)
}

/// What child `number` is told.
fn arguments(common: &Common, family: &Family, number: u32) -> Vec<String> {
    let size = common.size() / family.children as usize;
    let seed = common.seed.wrapping_add(u64::from(number));
    let work = if family.idle { "grow" } else { "random" };
    let mut arguments: Vec<String> = ["workload", work, "--until-eof"].map(Into::into).into();
    arguments.push(format!("--size={}", size.max(1)));
    arguments.push(format!("--seed={seed}"));
    if common.json {
        arguments.push("--json".into());
    }
    if common.advise {
        arguments.push("--advise".into());
    }
    arguments
}

/// Ends the children by closing their standard input; true if all found their data right.
fn end(mut children: Vec<Child>) -> Result<bool, Error> {
    for child in &mut children {
        drop(child.stdin.take());
    }
    let mut right = true;
    for child in &mut children {
        let status = child
            .wait()
            .map_err(|e| Error::io("waiting for a child", e))?;
        right &= status.success();
    }
    Ok(right)
}
