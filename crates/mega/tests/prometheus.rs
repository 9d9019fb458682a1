//! Prometheus with what `packaging/prometheus` has: `promtool` takes the rules, and a real Prometheus that scrapes a real
//! daemon has data for every query of the dashboard and of the rules.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use live::daemon::{Daemon, Place};
use live::{area, can_run, finish, skip, start, until, until_huge};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::Signal;
use serde_json::Value;

fn packaged(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    folder.canonicalize().expect("packaging").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether Prometheus and promtool are here; says so, under the test's name, where they are not.
fn has_prometheus(name: &str) -> bool {
    let found = ["prometheus", "promtool"].into_iter().all(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    if !found {
        skip(
            name,
            "no prometheus and promtool here; scripts/install-lab-programs installs them",
        );
    }
    found
}

fn promtool(arguments: &[&str], file: &str) {
    let output = Command::new("promtool")
        .args(arguments)
        .arg(packaged(file))
        .output()
        .expect("promtool");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", live::text(&said));
}

#[test]
fn promtool_takes_the_rules_and_their_tests_pass() {
    if !has_prometheus("promtool_takes_the_rules_and_their_tests_pass") {
        return;
    }
    promtool(&["check", "rules"], "mega.rules.yml");
    promtool(&["check", "config"], "scrape.yml");
    promtool(&["test", "rules"], "mega.rules.test.yml");
}

/// What follows `key` on lines of the rules.
fn values_of(key: &str, text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .map(|line| line.trim_start().trim_start_matches("- "));
    lines
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_alert_has_a_test_and_a_runbook_and_no_runbook_is_left_over() {
    let rules = read(&packaged("mega.rules.yml"));
    let alerts = values_of("alert", &rules);
    assert!(alerts.len() > 10, "{alerts:?}");
    let tested = values_of("alertname", &read(&packaged("mega.rules.test.yml")));
    assert_eq!(alerts, tested);
    let page = read(&packaged("../../docs/runbooks.md"));
    let runbooks = page.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(alerts, runbooks.map(str::to_owned).collect());
    let links = values_of("runbook", &rules);
    let wanted = alerts
        .iter()
        .map(|alert| format!("docs/runbooks.md#{}", alert.to_lowercase()));
    assert_eq!(links, wanted.collect());
}

/// A running Prometheus.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// One that scrapes `target` every second, with the packaged rules. It keeps what it has in `folder`.
    fn start(folder: &Path, target: &str) -> Self {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [\"{}\"]\nscrape_configs:\n- job_name: mega\n  static_configs: [{{targets: [\"{target}\"]}}]\n",
            packaged("mega.rules.yml").display()
        );
        std::fs::write(&config, text).expect("written");
        // Another program may take the port meanwhile; then Prometheus ends, and the test says so.
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let log = std::fs::File::create(folder.join("prometheus.log")).expect("a log");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus starts");
        let mut prometheus = Prometheus { child, port };
        until("Prometheus to be ready", || {
            let ended = prometheus.child.try_wait().expect("its state");
            let log = || read(&folder.join("prometheus.log"));
            assert_eq!(ended, None, "{}", log());
            prometheus
                .get("/-/ready")
                .is_some_and(|(head, _)| head.contains(" 200 "))
        });
        prometheus
    }

    /// The head and the body of what it says at `path`; `None` where it does not answer.
    fn get(&self, path: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(live::PATIENCE)).ok()?;
        // HTTP/1.0: the body comes in one piece, and the connection closes after it.
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        let (head, body) = response.split_once("\r\n\r\n")?;
        Some((head.to_owned(), body.to_owned()))
    }

    /// Whether a query gives a series with a number.
    fn has_data(&self, query: &str) -> bool {
        let series = self.query(query);
        series.iter().any(|one| one["value"][1] != "NaN")
    }

    /// The series that a query gives.
    fn query(&self, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/query?query={}", percent_encoded(query));
        let (_, body) = self.get(&path).expect("an answer");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The queries of the dashboard, with its variables as Grafana fills them in.
fn dashboard_queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(&packaged("dashboard.json"))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.map(|target| {
        let query = target["expr"].as_str().expect("a query");
        let query = query.replace("$__rate_interval", "1m");
        let filled = ["$job", "$instance", "$selection"]
            .iter()
            .fold(query, |query, variable| query.replace(variable, ".*"));
        assert!(!filled.contains('$'), "{filled} has another variable");
        filled
    });
    queries.collect()
}

/// Shared memory at addresses that huge pages do not fit, mapped for as long as this process runs. False where the kernel
/// chose others.
fn map_misaligned() -> bool {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let length = (8 << 20) + 4096;
    let mapped = [(); 3].map(|()| {
        // SAFETY: without MAP_FIXED the kernel chooses addresses where nothing is mapped.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::SHARED) };
        mapped.expect("shared memory").addr() % (2 << 20) != 0
    });
    mapped.contains(&true)
}

/// Selects the workload, managed by `policy`, and this test itself, which is left as it is.
fn select_both(place: &Place, policy: &str) {
    place.write(&format!(
        "[defaults]\ninterval = \"200ms\"\n[[select]]\nname = \"program\"\nexecutable = \"{}\"\ncoverage = \"50%\"\n{policy}\n[[select]]\nname = \"test\"\nexecutable = \"{}\"\npolicy = \"base\"\n",
        place.program().display(),
        std::env::current_exe().expect("this test").display()
    ));
}

#[test]
fn a_real_prometheus_has_data_for_every_query_of_the_dashboard_and_the_rules() {
    let name = "a_real_prometheus_has_data_for_every_query_of_the_dashboard_and_the_rules";
    if !can_run(name) || !has_prometheus(name) {
        return;
    }
    if !map_misaligned() {
        skip(
            name,
            "shmem_enabled is not `never`: the kernel leaves no shared memory misaligned",
        );
        return;
    }
    let place = Place::new();
    select_both(&place, "policy = \"ingens\"");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let target = listener.local_addr().expect("its address").to_string();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\" 3<&0 </dev/null",
            "sh",
        ])
        .arg(live::mega().get_program())
        .env("MEGA_RUN_DIR", place.run_dir())
        .stdin(Stdio::from(OwnedFd::from(listener)));
    let daemon = Daemon::spawn(&mut command, &place.config());
    let prometheus = Prometheus::start(place.0.path(), &target);
    let (program, ready) = start(&mut place.workload());
    until_huge(ready.pid, area(&ready, "random").bytes, 90);
    // From now on its policy looks into huge pages, as if memory were short.
    select_both(
        &place,
        "policy = \"hawkeye\"\nparameters = { high_watermark = 0.0, low_watermark = 0.0 }",
    );
    daemon.signal(Signal::HUP);
    daemon.logs("reloaded");

    let queries = dashboard_queries();
    assert!(queries.len() > 40, "{} queries", queries.len());
    let rules = read(&packaged("mega.rules.yml"));
    let records = values_of("record", &rules);
    let mut empty: Vec<&str> = queries.iter().chain(&records).map(String::as_str).collect();
    let started = Instant::now();
    loop {
        empty.retain(|query| !prometheus.has_data(query));
        if empty.is_empty() {
            break;
        }
        let patient = started.elapsed() < live::PATIENCE;
        assert!(patient, "no data for {empty:#?}: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(500));
    }
    // The data are the daemon's: most of the program is in huge pages.
    let coverage = prometheus.query("selection:mega_coverage:ratio{selection=\"program\"}");
    let value: f64 = coverage[0]["value"][1]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!((0.5..=1.0).contains(&value), "{coverage:?}");
    // Every rule could be computed, and none of the alerts is on.
    let (_, body) = prometheus.get("/api/v1/rules").expect("an answer");
    let answer: Value = serde_json::from_str(&body).expect("JSON");
    let groups = answer["data"]["groups"].as_array().expect("groups").iter();
    let rules: Vec<&Value> = groups
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .collect();
    assert!(rules.len() > 15, "{answer}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
    finish(program);
    until("the program's series to end", || {
        prometheus
            .query("mega_mapped_bytes{selection=\"program\"}")
            .is_empty()
    });
    assert_eq!(daemon.stop(), Some(0));
}
