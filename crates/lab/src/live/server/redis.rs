//! `redis-server` for the time of a run.

use std::process::Command;

use super::Server;
use super::redis_client::RedisClient;
use super::resp::Reply;
use crate::error::Error;
use crate::live::package::{Package, Program};
use crate::live::run::Run;

/// What must be installed.
pub(crate) const REDIS: Program = Program {
    name: "redis-server",
    package: Package::Debian("redis-server"),
};

/// Bytes that a value of 4 KiB takes of Redis's memory: with its head it does not fit the allocator's class of 4 KiB,
/// and the next is of 5 KiB. Its key and its place in the table are small beside it.
pub(crate) const BYTES_OF_4_KIB: u64 = 5 << 10;

/// What Redis does about huge pages when it starts (`disable-thp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugePages {
    /// It leaves them as they are.
    Left,
    /// It switches them off for itself, as it does unless it is told otherwise.
    SwitchedOff,
}

/// Starts Redis beside its clients, without anything that writes to disk. It leaves huge pages as they are.
///
/// # Errors
/// As [`Server::start`].
pub(crate) fn start(run: &Run<'_>) -> Result<Server, Error> {
    let command = run.command_beside_clients(REDIS.find()?)?;
    start_by(run, command, HugePages::Left)
}

/// Starts Redis by a command that ends with its file, without anything that writes to disk by itself.
///
/// # Errors
/// As [`Server::start`].
pub(crate) fn start_by(
    run: &Run<'_>,
    mut command: Command,
    huge_pages: HugePages,
) -> Result<Server, Error> {
    let disable = match huge_pages {
        HugePages::Left => "no",
        HugePages::SwitchedOff => "yes",
    };
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--disable-thp", disable, "--daemonize", "no", "--dir"])
        .arg(run.scratch);
    let listen = |command: &mut Command, port: u16| {
        command.arg("--port").arg(port.to_string());
    };
    Server::start(run, "redis-server", command, listen, answers)
}

fn answers(port: u16) -> bool {
    let pong = |reply: Reply<'_>| Ok(reply == Reply::Status(b"PONG"));
    RedisClient::connect(port)
        .and_then(|mut client| client.call(&[b"PING"], pong))
        .unwrap_or(false)
}
