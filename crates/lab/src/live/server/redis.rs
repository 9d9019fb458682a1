//! `redis-server` for the time of a run.

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

/// Starts Redis without anything that writes to disk. It would switch huge pages off for itself if it were not told
/// to leave them.
///
/// # Errors
/// As [`Server::start`].
pub(crate) fn start(run: &Run<'_>) -> Result<Server, Error> {
    let mut command = run.command_beside_clients(REDIS.find()?)?;
    command
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--disable-thp", "no", "--daemonize", "no", "--dir"])
        .arg(run.scratch);
    let listen = |command: &mut std::process::Command, port: u16| {
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
