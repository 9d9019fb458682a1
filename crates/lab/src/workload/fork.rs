//! `fork`: children that work as `random`, each on its part; their events follow the parent's on the same
//! standard output, and their end is the parent's.

use std::process::{Child, Command, Stdio};

use super::Common;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

pub(super) fn run(
    common: &Common,
    children: u32,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let program = std::env::current_exe()
        .map_err(|e| Error::io("finding this program, to start it as a child", e))?;
    reporter.ready(Vec::new())?;
    let mut family = Vec::new();
    for number in 0..children {
        let mut command = Command::new(&program);
        command
            .args(arguments(common, children, number))
            .stdin(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|e| Error::io(format!("starting {}", program.display()), e))?;
        family.push(child);
    }
    stop.start();
    stop.wait();
    let right = end(family)?;
    let mut done = Done::new(stop.elapsed(), u64::from(children))?;
    done.verified = right;
    Ok(done)
}

/// What child `number` is told.
fn arguments(common: &Common, children: u32, number: u32) -> Vec<String> {
    let size = common.size() / children as usize;
    let seed = common.seed.wrapping_add(u64::from(number));
    let mut arguments: Vec<String> = ["workload", "random", "--until-eof"].map(Into::into).into();
    arguments.push(format!("--size={}", size.max(1)));
    arguments.push(format!("--seed={seed}"));
    if common.json {
        arguments.push("--json".into());
    }
    arguments
}

/// Ends the children by closing their standard input; true if all found their data right.
fn end(mut family: Vec<Child>) -> Result<bool, Error> {
    for child in &mut family {
        drop(child.stdin.take());
    }
    let mut right = true;
    for child in &mut family {
        let status = child
            .wait()
            .map_err(|e| Error::io("waiting for a child", e))?;
        right &= status.success();
    }
    Ok(right)
}
