//! `memcached` for the time of a run.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::Server;
use crate::error::Error;
use crate::live::package::{Package, Program};
use crate::live::run::Run;

/// What must be installed.
pub(crate) const MEMCACHED: Program = Program {
    name: "memcached",
    package: Package::Debian("memcached"),
};

/// How long it may take over its first answer before it is asked again.
const PATIENCE: Duration = Duration::from_secs(1);
/// MiB for what it holds beside the values: its smallest limit.
const SLACK_MIB: u64 = 64;

/// Starts memcached with room for `bytes` and some more. One thread serves: one loads it.
///
/// # Errors
/// As [`Server::start`].
pub(crate) fn start(run: &Run<'_>, bytes: u64) -> Result<Server, Error> {
    let mut command = run.command_beside_clients(MEMCACHED.find()?)?;
    command
        .args(["--listen=127.0.0.1", "--udp-port=0", "--threads=1"])
        .args(["--conn-limit=1024", "--disable-evictions"])
        .arg(format!("--memory-limit={}", (bytes >> 20) + SLACK_MIB));
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    let listen = |command: &mut Command, port: u16| {
        command.arg(format!("--port={port}"));
    };
    Server::start(run, "memcached", command, listen, answers)
}

fn answers(port: u16) -> bool {
    version(port).is_ok_and(|answer| &answer == b"VERSION")
}

/// The first word of its answer when it is asked for its version.
fn version(port: u16) -> std::io::Result<[u8; 7]> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"version\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
