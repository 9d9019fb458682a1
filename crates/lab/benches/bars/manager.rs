//! The manager's own CPU and memory over a program, at the default interval.

use std::thread;
use std::time::Duration;

use mega_lab::cpu_meter::CpuMeter;
use mega_lab::subject::Subject;
use mega_lab::{Error, resident};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, wait_until_huge};

/// Seconds between two observations.
const INTERVAL: u32 = 5;

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let base = over(setting, "base", false)?;
    let promoted = over(setting, "adaptive", true)?;
    #[allow(clippy::cast_precision_loss)]
    let most_resident = ((32 << 20) + setting.size / (2 << 20) * 256) as f64;
    let mib = f64::from(1 << 20);
    Ok(vec![
        Bar {
            name: "manager's CPU over base pages, 5 s interval, of one core",
            unit: "%",
            measured: base.cpu_percent,
            wanted: Wanted::AtMost(1.2),
        },
        Bar {
            name: "manager's CPU once promoted, 5 s interval, of one core",
            unit: "%",
            measured: promoted.cpu_percent,
            wanted: Wanted::AtMost(0.1),
        },
        Bar {
            name: "manager's resident memory",
            unit: "MiB",
            measured: base.resident_bytes.max(promoted.resident_bytes) / mib,
            wanted: Wanted::AtMost(most_resident / mib),
        },
    ])
}

struct Cost {
    cpu_percent: f64,
    resident_bytes: f64,
}

/// What a manager with this policy costs over a random-access program, after its first two observations and,
/// if asked for, after promotion.
#[allow(clippy::cast_precision_loss)]
fn over(setting: &Setting, policy: &str, promoted: bool) -> Result<Cost, Error> {
    let options = [
        format!("--policy={policy}"),
        format!("--interval={INTERVAL}s"),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut subject = Subject::start(&mut setting.managed(&options, &["random", "--until-eof"]))?;
    let ready = subject.ready()?;
    if promoted {
        wait_until_huge(ready.pid, setting.size)?;
    }
    thread::sleep(Duration::from_secs(u64::from(2 * INTERVAL)));
    let manager = subject.child.id();
    let meter = CpuMeter::begin(manager)?;
    // Whole intervals, or there would be one observation more or less by chance.
    let intervals = (setting.seconds / INTERVAL).max(1);
    thread::sleep(Duration::from_secs(u64::from(intervals * INTERVAL)));
    let cpu_percent = meter.share()? * 100.0;
    let resident_bytes = resident::of(manager)?.resident_bytes as f64;
    subject.finish()?;
    Ok(Cost {
        cpu_percent,
        resident_bytes,
    })
}
