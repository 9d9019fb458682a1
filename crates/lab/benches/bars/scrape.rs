//! What a scrape of the daemon's metrics costs, over a thousand cgroups.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mega_lab::Error;
use mega_lab::subject::Subject;

use crate::bar::{Bar, Wanted};
use crate::fleet::{self, Daemon};
use crate::setting::{Setting, median};

/// Cgroups, each with one process.
const CGROUPS: usize = 1000;
/// A page serves for a second (docs/metrics.md): later, the daemon makes another.
const PAUSE: Duration = Duration::from_millis(1100);

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let processes = format!("--processes={CGROUPS}");
    let size = format!("--size={}", CGROUPS << 21);
    let arguments = ["crowd", "--until-eof", &processes, &size];
    let mut crowd = Subject::start(&mut fleet::lab(setting, &arguments))?;
    let parent = crowd.ready()?.pid;
    let tree = Tree::new()?;
    for (number, pid) in children(parent)?.into_iter().enumerate() {
        tree.put(pid, number)?;
    }
    let daemon = Daemon::start(setting)?;
    let socket = daemon.metrics_socket();
    wait_until_all_are_shown(&socket)?;
    let mut times = Vec::new();
    for _ in 0..setting.repetitions.max(5) {
        thread::sleep(PAUSE);
        let started = Instant::now();
        scrape(&socket)?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let text = scrape(&socket)?;
    eprintln!(
        "bars: {} series, {} KiB",
        text.lines().filter(|line| !line.starts_with('#')).count(),
        text.len() / 1024
    );
    drop(daemon);
    crowd.finish()?;
    Ok(vec![Bar {
        name: "a scrape of the metrics of 1,000 cgroups, median",
        unit: "ms",
        measured: median(&times)?,
        wanted: Wanted::AtMost(10.0),
    }])
}

/// Waits until each cgroup has a series.
fn wait_until_all_are_shown(socket: &Path) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let text = scrape(socket).unwrap_or_default();
        let shown = text
            .lines()
            .filter(|line| line.starts_with("mega_mapped_bytes{") && line.contains(Tree::NAME));
        let shown = shown.count();
        if shown == CGROUPS {
            return Ok(());
        }
        if started.elapsed() > Duration::from_secs(120) {
            let reason = format!("the metrics show {shown} of {CGROUPS} cgroups");
            return Err(Error::Failed(reason));
        }
        thread::sleep(PAUSE);
    }
}

fn scrape(socket: &Path) -> Result<String, Error> {
    let fetch = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    fetch().map_err(|e| Error::io("scraping the daemon", e))
}

/// The processes that have this parent.
fn children(parent: u32) -> Result<Vec<u32>, Error> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io("listing the crowd", e))?;
    Ok(text
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect())
}

/// Cgroups of this benchmark's own, removed with this.
struct Tree(PathBuf);

impl Tree {
    /// What their paths contain.
    const NAME: &'static str = "mega-bars-scrape";

    fn new() -> Result<Self, Error> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")
            .map_err(|e| Error::io("looking for the cgroup v2 tree", e))?;
        let fields = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let root = fields
            .filter(|fields| fields.get(2) == Some(&"cgroup2"))
            .find_map(|fields| fields.get(1).map(PathBuf::from));
        let root = root.ok_or_else(|| {
            Error::Missing("no cgroup v2 tree is mounted; mount one at /sys/fs/cgroup".to_owned())
        })?;
        let tree = Tree(root.join(format!("{}-{}", Self::NAME, std::process::id())));
        std::fs::create_dir(&tree.0).map_err(|e| Error::io("making a cgroup", e))?;
        Ok(tree)
    }

    /// Puts a process into a cgroup of its own.
    fn put(&self, pid: u32, number: usize) -> Result<(), Error> {
        let folder = self
            .0
            .join(format!("kubepods-besteffort-pod{number:036}.slice"));
        std::fs::create_dir(&folder)
            .and_then(|()| std::fs::write(folder.join("cgroup.procs"), pid.to_string()))
            .map_err(|e| Error::io("putting a process into a cgroup", e))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // The processes have ended, or end now, with their parent.
        for _ in 0..50 {
            let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.path().is_dir()) {
                let _ = std::fs::remove_dir(entry.path());
            }
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        eprintln!("bars: {} stays; remove it", self.0.display());
    }
}
