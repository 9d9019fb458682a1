//! What the daemon costs on a machine with many processes, and what one very large process costs.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mega_core::Machine;
use mega_lab::cpu_meter::CpuMeter;
use mega_lab::subject::Subject;
use mega_lab::{Error, resident};
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, process};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, failed};

/// What one takes: a region, and what the kernel needs for a process.
const PER_PROCESS: u64 = (2 << 20) + (256 << 10);
/// What is left to everybody else.
const SPARE: u64 = 3 << 30;
/// Seconds between two observations.
const INTERVAL: u64 = 5;
/// Seconds between two observations of another group.
const OTHER_INTERVAL: u32 = 1;
/// How often it is asked for its steps.
const POLL: Duration = Duration::from_millis(20);
/// The address space of the large process: a page in each region takes 1 GiB, and its tables as much.
const WIDE: &str = "--size=512GiB";
/// The socket of the daemon's metrics.
const METRICS: &str = "metrics.sock";
/// Files that may be open, as a login shell has it.
const FILES: u32 = 1024;

/// Over as many as `processes`, fewer where memory does not suffice.
pub(crate) fn measure(setting: &Setting, processes: u32) -> Result<Vec<Bar>, Error> {
    let mut bars = over_a_crowd(setting, processes.into())?;
    bars.extend(over_a_wide_one(setting)?);
    bars.push(longest_look(setting)?);
    bars.push(others_wait(setting)?);
    Ok(bars)
}

fn over_a_crowd(setting: &Setting, processes: u64) -> Result<Vec<Bar>, Error> {
    let available = mega_lab::meminfo::available()?;
    let count = (available.saturating_sub(SPARE) / PER_PROCESS).clamp(1, processes);
    eprintln!("bars: {count} processes of 2 MiB");
    let size = format!("--size={}", count << 21);
    let processes = format!("--processes={count}");
    let mut crowd = Subject::start(&mut lab(
        setting,
        &["crowd", "--until-eof", &processes, &size],
    ))?;
    crowd.ready()?;
    let daemon = Daemon::start(setting)?;
    // Time to find them all, to look at each, and to settle.
    thread::sleep(Duration::from_secs(6 * INTERVAL));
    let cost = daemon.cost(setting)?;
    let managed = daemon.managed()?;
    crowd.finish()?;
    #[allow(clippy::cast_precision_loss)]
    let (count, mib) = (count as f64, f64::from(1 << 20));
    Ok(vec![
        Bar {
            name: "processes that the daemon manages, of those selected",
            unit: "x",
            measured: managed / count,
            wanted: Wanted::AtLeast(1.0),
        },
        Bar {
            name: "daemon's CPU over a crowd that rests, 5 s interval",
            unit: "%",
            measured: cost.cpu_percent,
            wanted: Wanted::AtMost(2.0),
        },
        Bar {
            name: "daemon's resident memory over a crowd",
            unit: "MiB",
            measured: cost.resident_bytes / mib,
            wanted: Wanted::AtMost(20.0 + 2.0 * count / 1024.0),
        },
    ])
}

fn over_a_wide_one(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let mut wide = Subject::start(&mut lab(setting, &["wide", "--until-eof", WIDE]))?;
    wide.ready()?;
    let daemon = Daemon::start(setting)?;
    thread::sleep(Duration::from_secs(2 * INTERVAL));
    let cost = daemon.cost(setting)?;
    wide.finish()?;
    Ok(vec![Bar {
        name: "daemon's CPU over 262,144 page tables in use, 5 s interval",
        unit: "%",
        measured: cost.cpu_percent,
        wanted: Wanted::AtMost(1.0),
    }])
}

/// The longest of some observations of the large process, the first ones among them.
fn longest_look(setting: &Setting) -> Result<Bar, Error> {
    let mut wide = Subject::start(&mut lab(setting, &["wide", "--until-eof", WIDE]))?;
    let pid = wide.ready()?.pid;
    let host = Arc::new(Host::open(HostOptions::default()).map_err(failed)?);
    let process = process::identify(host.kernel().as_ref(), pid).map_err(failed)?;
    let mut machine = LinuxMachine::new(host, MachineOptions::default());
    machine.set_targets(vec![process]);
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let started = Instant::now();
        machine.observe().map_err(failed)?;
        longest = longest.max(started.elapsed());
        thread::sleep(Duration::from_secs(1));
    }
    wide.finish()?;
    Ok(Bar {
        name: "longest observation of 262,144 page tables in use",
        unit: "ms",
        measured: longest.as_secs_f64() * 1000.0,
        wanted: Wanted::AtMost(250.0),
    })
}

/// How late another group is looked at while the daemon begins to manage the large process, its first look included.
fn others_wait(setting: &Setting) -> Result<Bar, Error> {
    let mut other = Subject::start(&mut lab(
        setting,
        &["crowd", "--until-eof", "--processes=1", "--size=2MiB"],
    ))?;
    other.ready()?;
    let daemon = Daemon::with(
        setting,
        &format!(
            "[[select]]\nname = \"wide\"\nexecutable = \"/**/mega-lab\"\nmin_resident = \"512MiB\"\n\
             interval = \"{INTERVAL}s\"\n\
             [[select]]\nname = \"other\"\nexecutable = \"/**/mega-lab\"\ninterval = \"{OTHER_INTERVAL}s\"\n"
        ),
    )?;
    let mut wide = Subject::start(&mut lab(setting, &["wide", "--until-eof", WIDE]))?;
    wide.ready()?;
    let end = Instant::now() + Duration::from_secs(setting.seconds.into());
    let (mut steps, mut since, mut longest) = (None, Instant::now(), Duration::ZERO);
    while Instant::now() < end {
        let now = daemon.group("other")?["actions"]["steps"].as_u64();
        if now != steps {
            // The first steps are not there yet while the daemon starts.
            if steps.is_some() {
                longest = longest.max(since.elapsed());
            }
            (steps, since) = (now, Instant::now());
        }
        thread::sleep(POLL);
    }
    let managed = daemon.group("wide")?["processes"].as_array().map(Vec::len);
    other.finish()?;
    wide.finish()?;
    if managed != Some(1) {
        return Err(Error::Failed(
            "the daemon did not manage the large process".to_owned(),
        ));
    }
    Ok(Bar {
        name: "longest time between two looks at another group, 1 s interval",
        unit: "s",
        measured: longest.as_secs_f64(),
        wanted: Wanted::AtMost(f64::from(OTHER_INTERVAL) + 0.25),
    })
}

/// A workload.
pub(crate) fn lab(setting: &Setting, arguments: &[&str]) -> Command {
    let mut command = Command::new(setting.mega());
    command.arg("workload").args(arguments).arg("--json");
    command
}

/// A daemon that manages the lab's processes, with no more files open than a shell allows.
pub(crate) struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
}

struct Cost {
    cpu_percent: f64,
    resident_bytes: f64,
}

impl Daemon {
    pub(crate) fn start(setting: &Setting) -> Result<Self, Error> {
        Self::with(
            setting,
            &format!(
                "[[select]]\nname = \"lab\"\nexecutable = \"/**/mega-lab\"\ninterval = \"{INTERVAL}s\"\n"
            ),
        )
    }

    /// With these selections.
    fn with(setting: &Setting, selections: &str) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(|e| Error::io("making a folder", e))?;
        let config = folder.path().join("mega.toml");
        let text = format!(
            "calibrate_when_idle = \"never\"\n[metrics]\nsocket = \"{}\"\n{selections}",
            folder.path().join(METRICS).display()
        );
        std::fs::File::create(&config)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| Error::io("writing a configuration", e))?;
        let child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {FILES}; exec \"$@\""), "sh"])
            .arg(setting.mega())
            .arg("daemon")
            .arg("--config")
            .arg(&config)
            .env("MEGA_RUN_DIR", folder.path().join("run"))
            .env("MEGA_STATE_DIR", folder.path().join("state"))
            .spawn()
            .map_err(|e| Error::io("starting the daemon", e))?;
        Ok(Daemon { child, folder })
    }

    /// Where its metrics are.
    pub(crate) fn metrics_socket(&self) -> PathBuf {
        self.folder.path().join(METRICS)
    }

    /// What it costs over whole intervals.
    fn cost(&self, setting: &Setting) -> Result<Cost, Error> {
        let pid = self.child.id();
        let meter = CpuMeter::begin(pid)?;
        let intervals = (u64::from(setting.seconds) / INTERVAL).max(1);
        thread::sleep(Duration::from_secs(intervals * INTERVAL));
        let cpu_percent = meter.share()? * 100.0;
        #[allow(clippy::cast_precision_loss)]
        Ok(Cost {
            cpu_percent,
            resident_bytes: resident::of(pid)?.resident_bytes as f64,
        })
    }

    /// How many processes with a whole region it manages.
    #[allow(clippy::cast_precision_loss)]
    fn managed(&self) -> Result<f64, Error> {
        let group = self.group("lab")?;
        let with_a_region = group["processes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|process| process["regions"].as_u64().unwrap_or(0) > 0);
        Ok(with_a_region.count() as f64)
    }

    /// What its status says of a group; null while it has none.
    fn group(&self, name: &str) -> Result<serde_json::Value, Error> {
        let output = Command::new("sh")
            .args(["-c", "exec \"$@\"", "sh"])
            .arg(format!("/proc/{}/exe", self.child.id()))
            .args(["status", "--json"])
            .env("MEGA_RUN_DIR", self.folder.path().join("run"))
            .output()
            .map_err(|e| Error::io("asking the daemon", e))?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|e| Error::Failed(format!("the daemon's status: {e}")))?;
        let groups = status["managers"][0]["groups"].as_array();
        let found = groups
            .into_iter()
            .flatten()
            .find(|group| group["name"] == name);
        Ok(found.cloned().unwrap_or_default())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It changes nothing globally.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
