//! What recording costs over managing: managers with a recording and without, in turn.

use std::path::Path;
use std::thread;
use std::time::Duration;

use mega_lab::Error;
use mega_lab::cpu_meter::CpuMeter;
use mega_lab::subject::Subject;

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, median};

/// Of one core.
const WANTED: Wanted = Wanted::AtMost(0.1);
/// What a manager has to begin, and to look at its program for the first times.
const TO_SETTLE: Duration = Duration::from_secs(3);

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let folder = tempfile::tempdir().map_err(|e| Error::io("making a folder", e))?;
    let report = folder.path().join("report.json");
    let recording = format!("--record={}", folder.path().join("a.rec").display());
    let (mut beyond, mut counted) = (Vec::new(), Vec::new());
    for turn in 0..setting.repetitions {
        // Neither is always the first.
        let with_first = turn.is_multiple_of(2);
        let mut costs = [0.0; 2];
        for records in [with_first, !with_first] {
            let option = records.then_some(recording.as_str());
            costs[usize::from(records)] = over(setting, option, &report)?;
            if records {
                counted.push(counted_by_itself(&report)?);
            }
        }
        eprintln!(
            "bars: a manager took {:.3} % of a core, with a recording {:.3} %",
            costs[0], costs[1]
        );
        beyond.push(costs[1] - costs[0]);
    }
    Ok(vec![
        Bar {
            name: "CPU of a manager that records, beyond one that does not, 1 s interval",
            unit: "%",
            measured: median(&beyond)?,
            wanted: WANTED,
        },
        Bar {
            name: "CPU of recording, as the manager counts it",
            unit: "%",
            measured: median(&counted)?,
            wanted: WANTED,
        },
    ])
}

/// The share of a core, in per cent, of a manager over a random-access program.
fn over(setting: &Setting, option: Option<&str>, report: &Path) -> Result<f64, Error> {
    let report = format!("--report={}", report.display());
    let mut options = vec!["--policy=base", "--interval=1s", &report];
    options.extend(option);
    let mut subject = Subject::start(&mut setting.managed(&options, &["random", "--until-eof"]))?;
    subject.ready()?;
    thread::sleep(TO_SETTLE);
    let meter = CpuMeter::begin(subject.child.id())?;
    thread::sleep(Duration::from_secs(setting.seconds.into()));
    let percent = meter.share()? * 100.0;
    subject.finish()?;
    Ok(percent)
}

/// What the manager says in its report that recording took, in per cent of a core.
fn counted_by_itself(report: &Path) -> Result<f64, Error> {
    let text = std::fs::read(report).map_err(|e| Error::io("reading a report", e))?;
    let report: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| Error::Failed(format!("a report: {e}")))?;
    let cpu = report["groups"][0]["recording"]["cpu_seconds"].as_f64();
    let share = cpu.zip(report["uptime_seconds"].as_f64());
    share
        .map(|(cpu, seconds)| cpu / seconds * 100.0)
        .ok_or_else(|| Error::Failed("a report does not say what recording took".to_owned()))
}
