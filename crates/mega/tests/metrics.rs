//! The daemon's metrics over HTTP: on a Unix socket, on a passed TCP socket, and under clients that mean no good.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use live::daemon::{Daemon, Place};
use live::{can_run, finish, start, until};
use proptest::prelude::*;
use rustix::process::Signal;

/// A configuration that manages the test's program, with metrics on `socket`.
fn select_with_metrics(place: &Place, metrics: &str) {
    place.write(&format!(
        "{metrics}\n[defaults]\ninterval = \"100ms\"\n[[select]]\nname = \"mine\"\nexecutable = \"{}\"\npolicy = \"ingens\"\n",
        place.program().display()
    ));
}

fn socket(place: &Place) -> PathBuf {
    place.run_dir().join("metrics.sock")
}

fn select_with_socket(place: &Place) {
    let socket = socket(place);
    select_with_metrics(
        place,
        &format!("[metrics]\nsocket = \"{}\"", socket.display()),
    );
}

/// Sends a request, and returns the head and the body of the response.
fn ask(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).expect("asked");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// The metrics.
fn scrape(stream: impl Read + Write) -> String {
    let (head, body) = ask(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"), "{body}");
    body
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("connected");
    stream.set_read_timeout(Some(live::PATIENCE)).expect("set");
    stream
}

/// The value of a series, by its name and labels; `None` where there is no such series.
fn value(text: &str, series: &str) -> Option<f64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    rest.map(|value| value.parse().expect("a number"))
}

/// The cgroup of a process, as a label has it.
fn cgroup_of(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its cgroup");
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    path.unwrap_or_default().to_owned()
}

#[test]
fn series_begin_and_end_with_what_they_describe() {
    if !can_run("series_begin_and_end_with_what_they_describe") {
        return;
    }
    let place = Place::new();
    select_with_socket(&place);
    let daemon = Daemon::start(&place);
    daemon.logs("metrics are served on");
    let metrics = || scrape(connect(&socket(&place)));
    let before = metrics();
    assert_eq!(
        value(&before, "mega_steps_total{selection=\"mine\"}"),
        Some(0.0),
        "{before}"
    );
    assert!(!before.contains("mega_mapped_bytes"), "{before}");
    assert!(
        value(&before, "mega_memory_size_bytes") > Some(0.0),
        "{before}"
    );

    let (program, ready) = start(&mut place.workload());
    let of_it = |name: &str| {
        format!(
            "{name}{{selection=\"mine\",cgroup=\"{}\"}}",
            cgroup_of(ready.pid)
        )
    };
    let (mapped, huge) = (of_it("mega_mapped_bytes"), of_it("mega_huge_bytes"));
    until("its huge pages in the metrics", || {
        let text = metrics();
        value(&text, &mapped) >= Some(f64::from(64 << 20)) && value(&text, &huge) > Some(0.0)
    });
    let text = metrics();
    assert_eq!(value(&text, &of_it("mega_processes")), Some(1.0), "{text}");
    assert!(
        value(
            &text,
            "mega_actions_total{selection=\"mine\",action=\"promote\"}"
        ) > Some(0.0)
    );
    assert!(value(&text, "mega_copied_bytes_total{selection=\"mine\"}") > Some(0.0));
    assert!(value(&text, "mega_cpu_seconds_total") > Some(0.0), "{text}");
    assert!(
        !text.contains(&format!("\"{}\"", ready.pid)),
        "no label is a pid"
    );
    finish(program);
    until("its series to end", || {
        !metrics().contains("mega_mapped_bytes")
    });

    // The configuration may change while the daemon runs.
    select_with_metrics(&place, "");
    daemon.signal(Signal::HUP);
    daemon.logs("reloaded");
    until("the socket to go", || !socket(&place).exists());
    select_with_socket(&place);
    daemon.signal(Signal::HUP);
    until("the socket to come back", || socket(&place).exists());
    assert!(metrics().contains("mega_build_info{"));
    assert_eq!(daemon.stop(), Some(0));
    assert!(!socket(&place).exists());
}

#[test]
fn cgroups_beyond_the_bound_are_summed() {
    if !can_run("cgroups_beyond_the_bound_are_summed") {
        return;
    }
    let place = Place::new();
    let path = socket(&place);
    select_with_metrics(
        &place,
        &format!(
            "[metrics]\nsocket = \"{}\"\nmax_cgroups = 0",
            path.display()
        ),
    );
    let daemon = Daemon::start(&place);
    let (program, _) = start(&mut place.workload());
    until("the sum", || {
        let text = scrape(connect(&path));
        let mapped = value(
            &text,
            "mega_mapped_bytes{selection=\"mine\",cgroup=\"other\"}",
        );
        mapped > Some(0.0) && value(&text, "mega_other_cgroups{selection=\"mine\"}") == Some(1.0)
    });
    finish(program);
    assert_eq!(daemon.stop(), Some(0));
}

/// A daemon that gets a listening socket as the service manager would pass it, and has no network of its own.
fn with_passed(place: &Place, listener: impl Into<OwnedFd>) -> Daemon {
    let mut command = Command::new("unshare");
    command
        .args(["--net", "sh", "-c"])
        .arg("LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\" 3<&0 </dev/null")
        .arg("sh")
        .arg(live::mega().get_program())
        .env("MEGA_RUN_DIR", place.run_dir())
        .stdin(Stdio::from(listener.into()));
    Daemon::spawn(&mut command, &place.config())
}

#[test]
fn a_passed_tcp_socket_serves_from_a_network_namespace_without_one() {
    if !can_run("a_passed_tcp_socket_serves_from_a_network_namespace_without_one") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("its address");
    let daemon = with_passed(&place, listener);
    daemon.logs(&format!("metrics are served on {address}"));
    let connect = || TcpStream::connect(address).expect("connected");
    assert!(scrape(connect()).contains("mega_manager_info{"));
    for (request, wanted) in [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        ("nonsense\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let (head, _) = ask(connect(), request);
        assert!(head.starts_with(wanted), "{request}: {head}");
    }
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_port_of_its_own_serves_metrics_and_says_that_managing_goes_on() {
    if !can_run("a_port_of_its_own_serves_metrics_and_says_that_managing_goes_on") {
        return;
    }
    let place = Place::new();
    select_with_metrics(&place, "[metrics]\naddress = \"127.0.0.1:0\"");
    let daemon = Daemon::start(&place);
    daemon.logs("metrics are served on");
    let log = daemon.log();
    let address = log
        .lines()
        .find_map(|line| line.split_once("metrics are served on ")?.1.parse().ok());
    let address: SocketAddr = address.expect("an address in the log");
    let connect = || TcpStream::connect(address).expect("connected");
    assert!(scrape(connect()).contains("mega_manager_info{"));
    until("a sign of life", || {
        let (head, _) = ask(connect(), "GET /healthz HTTP/1.1\r\n\r\n");
        head.starts_with("HTTP/1.1 200 OK\r\n")
    });

    // A port that is taken is refused, and the old configuration stays.
    let other = TcpListener::bind("127.0.0.1:0").expect("bound");
    let taken = other.local_addr().expect("its address");
    select_with_metrics(&place, &format!("[metrics]\naddress = \"{taken}\""));
    daemon.signal(Signal::HUP);
    daemon.logs(&format!(
        "not reloaded, the old configuration stays: cannot serve metrics on {taken}"
    ));
    scrape(connect());

    select_with_metrics(&place, "");
    daemon.signal(Signal::HUP);
    daemon.logs("reloaded");
    until("the port to close", || TcpStream::connect(address).is_err());
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_passed_socket_that_does_not_listen_is_refused() {
    if !can_run("a_passed_socket_that_does_not_listen_is_refused") {
        return;
    }
    let place = Place::new();
    place.select_program("base");
    let (socket, _other) = UnixStream::pair().expect("a pair");
    let output = Command::new("sh")
        .args(["-c", "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\" 3<&0", "sh"])
        .arg(live::mega().get_program())
        .args(["daemon", "--config"])
        .arg(place.config())
        .env("MEGA_RUN_DIR", place.run_dir())
        .env("MEGA_STATE_DIR", live::state_dir())
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .output()
        .expect("it starts");
    let said = live::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("it does not listen; pass TCP or Unix stream sockets"),
        "{said}"
    );
}

#[test]
fn clients_that_are_slow_or_send_rubbish_hold_up_nobody() {
    if !can_run("clients_that_are_slow_or_send_rubbish_hold_up_nobody") {
        return;
    }
    let place = Place::new();
    select_with_socket(&place);
    let daemon = Daemon::start(&place);
    let path = socket(&place);
    // Of its other files it may open some later.
    let open_sockets = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("its files");
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    let before = open_sockets();
    // Some say nothing, some stop in the middle of a request, some ask and take no answer.
    let slow: Vec<UnixStream> = (0..60)
        .map(|number| {
            let mut stream = connect(&path);
            let sent: &[u8] = match number % 3 {
                0 => b"",
                1 => b"GET /metrics HTT",
                _ => b"GET /metrics HTTP/1.1\r\n\r\n",
            };
            // It may have been cut off already.
            let _ = stream.write_all(sent);
            stream
        })
        .collect();
    assert!(scrape(connect(&path)).contains("mega_build_info{"));
    assert!(
        open_sockets() <= before + 17,
        "{} and {before} before",
        open_sockets()
    );
    let pid = daemon.pid();
    assert_eq!(place.status(pid)["pid"], pid);
    // A client that drips is cut off in the end, though it never stops.
    let mut dripping = connect(&path);
    until("the dripping client to be cut off", || {
        std::thread::sleep(Duration::from_millis(100));
        dripping.write_all(b"G").is_err()
    });
    drop(slow);
    proptest!(ProptestConfig::with_cases(100), |(rubbish in prop::collection::vec(any::<u8>(), 0..10_000))| {
        let mut stream = connect(&path);
        // It closes the connection as soon as it knows that this is rubbish.
        let _ = stream.write_all(&rubbish);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        prop_assert!(response.is_empty() || response.starts_with(b"HTTP/1.1 4"));
    });
    assert!(scrape(connect(&path)).contains("mega_build_info{"));
    until("the sockets to be closed", || open_sockets() <= before);
    assert_eq!(daemon.stop(), Some(0));
}
