//! Tests of the servers, their clients and their loads. If a server is not installed, its test fails and names the
//! package.

use std::path::Path;
use std::time::Duration;

use super::Server;
use super::load::Load;
use super::mariadb::{MariaDb, ThpDisable};
use super::memcached_text::MemcachedText;
use super::protocol::Protocol;
use super::redis_hashes::Hashes;
use super::requests::Request;
use super::resp::Resp;
use super::{memcached, redis, sysbench};
use crate::interrupt::Interrupt;
use crate::live::cpus::Placement;
use crate::live::mode::Mode;
use crate::live::run::Run;

/// Runs a test as an experiment is run, in base pages.
fn in_a_run(test: impl FnOnce(&Run<'_>)) {
    let scratch = tempfile::tempdir().unwrap();
    test(&Run {
        mode: &Mode::Base,
        placement: Placement::Apart,
        size: 64 << 20,
        measured: Duration::from_secs(1),
        interval: Duration::from_millis(100),
        seed: 1,
        scratch: scratch.path(),
        interrupt: &Interrupt::catch().unwrap(),
    });
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Stores, asks for what was stored, and for what was not.
fn is_loaded_and_checked<P: Protocol>(run: &Run<'_>, server: Server) {
    let load = |value_bytes| Load {
        port: server.port(),
        connections: 4,
        value_bytes,
        placement: Placement::Apart,
    };
    load(4096)
        .send_all::<P>(run, (0..100).map(Request::Set))
        .unwrap();
    let loaded = load(4096).get_and_set::<P>(run, &server, 100).unwrap();
    assert!(loaded.rate() > 0.0);
    assert!(loaded.latency_at(50.0) <= loaded.latency_at(99.9));
    let other_bytes = load(2048).send_all::<P>(run, [Request::Get(1)].into_iter());
    assert!(other_bytes.is_err());
    let missing = load(4096).send_all::<P>(run, [Request::Get(100)].into_iter());
    assert!(missing.err().unwrap().to_string().contains("data was lost"));
    let pid = server.pid();
    assert!(is_running(pid));
    server.stop().unwrap();
    assert!(!is_running(pid));
}

#[test]
fn redis_is_loaded_and_checked() {
    in_a_run(|run| is_loaded_and_checked::<Resp>(run, redis::start(run).unwrap()));
}

#[test]
fn memcached_is_loaded_and_checked() {
    in_a_run(|run| {
        is_loaded_and_checked::<MemcachedText>(run, memcached::start(run, 1 << 20).unwrap());
    });
}

#[test]
fn values_larger_than_a_socket_takes_are_stored() {
    in_a_run(|run| {
        let server = redis::start(run).unwrap();
        let load = Load {
            port: server.port(),
            connections: 3,
            value_bytes: 2 << 20,
            placement: Placement::Apart,
        };
        let requests = [Request::Set(1), Request::Set(2), Request::Set(3)];
        load.send_all::<Resp>(run, requests.into_iter()).unwrap();
        load.send_all::<Resp>(run, (1..=3).map(Request::Get))
            .unwrap();
        server.stop().unwrap();
    });
}

#[test]
fn hashes_hold_what_was_not_removed() {
    in_a_run(|run| {
        let server = redis::start(run).unwrap();
        let mut hashes = Hashes::store(server.port(), 600).unwrap();
        hashes.remove(&[0, 7, 599]).unwrap();
        hashes.purge().unwrap();
        let retrieved: u64 = (0..hashes.count())
            .map(|hash| hashes.retrieve(hash).unwrap())
            .sum();
        assert_eq!(retrieved, 597);
        assert!(hashes.remove(&[7]).is_err());
        server.stop().unwrap();
    });
}

#[test]
fn mariadb_is_filled_read_and_unchanged() {
    in_a_run(|run| {
        let database = MariaDb::start(run, 48 << 20, ThpDisable::Works).unwrap();
        database.fill(run, 2000).unwrap();
        let checksum = database.checksum(run).unwrap();
        assert!(checksum.starts_with("sbtest.sbtest1\t"), "{checksum}");
        let report = sysbench::read_at_once(run, &database, 2000, 95).unwrap();
        assert!(report.transactions_per_second > 0.0);
        assert!(report.min <= report.max);
        assert_eq!(database.checksum(run).unwrap(), checksum);
        database.server.stop().unwrap();
    });
}

#[test]
fn a_server_that_ends_at_once_is_quoted() {
    in_a_run(|run| {
        let mut command = run.command("sh").unwrap();
        command.args(["-c", "echo cannot bind; exit 3"]);
        let error = Server::start(run, "nothing", command, |_, _| (), |_| false).err();
        let error = error.unwrap().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("cannot bind"), "{error}");
    });
}

#[test]
fn a_server_that_is_dropped_ends() {
    in_a_run(|run| {
        let server = redis::start(run).unwrap();
        let pid = server.pid();
        drop(server);
        assert!(!is_running(pid));
    });
}
