//! Random access over memory well past the TLB's reach: after promotion by mega, against THP always.
//!
//! Both programs run at once and share one CPU. On a virtual machine the speed of one program changes by a factor of
//! two within minutes, far more than the difference to measure. Two programs that take turns of a few milliseconds see
//! the same machine.

use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mega_lab::Error;
use mega_lab::subject::Subject;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::thp_mode::{self, Guard, ThpMode};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, failed, median, wait_until_huge};

/// `--pin` keeps all to the last CPU.
const ARGUMENTS: [&str; 3] = ["random", "--until-eof", "--pin"];

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let run_dir = RunDir::open().map_err(failed)?;
    thp_mode::restore_stale(setting.kernel.as_ref(), &run_dir).map_err(failed)?;
    let mut ratios = Vec::new();
    for repetition in 0..setting.repetitions {
        setting.warm_up()?;
        // Who comes first gets other physical memory: each does in turn.
        let (always, managed) = if repetition % 2 == 0 {
            let always = with_thp_always(setting, &run_dir)?;
            (always, managed(setting)?)
        } else {
            let managed = managed(setting)?;
            (with_thp_always(setting, &run_dir)?, managed)
        };
        ratios.push(ratio(setting, always, managed)?);
    }
    Ok(vec![Bar {
        name: "random access after promotion, of its speed with THP always",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtLeast(0.95),
    }])
}

/// The program, its memory huge from its faults on.
fn with_thp_always(setting: &Setting, run_dir: &RunDir) -> Result<Subject, Error> {
    let guard =
        Guard::set(Arc::clone(&setting.kernel), run_dir, ThpMode::Always).map_err(failed)?;
    let subject = once_huge(setting, setting.workload(&ARGUMENTS))?;
    guard.restore().map_err(failed)?;
    Ok(subject)
}

/// The program under mega, once it is promoted.
fn managed(setting: &Setting) -> Result<Subject, Error> {
    once_huge(setting, setting.managed(&["--interval=1s"], &ARGUMENTS))
}

/// The program, once its memory is huge. How long that takes is no part of the measurement: it is the host that says
/// how fast memory can be copied.
fn once_huge(setting: &Setting, mut command: Command) -> Result<Subject, Error> {
    let mut subject = Subject::start(&mut command)?;
    let ready = subject.ready()?;
    wait_until_huge(ready.pid, setting.size)?;
    Ok(subject)
}

/// The speed of `managed` by that of `always`, over the same seconds.
fn ratio(setting: &Setting, mut always: Subject, mut managed: Subject) -> Result<f64, Error> {
    let measured = Duration::from_secs(u64::from(setting.seconds));
    thread::sleep(measured);
    // Both are told before either is waited for, so that neither has the CPU to itself.
    always.end();
    managed.end();
    let (always, managed) = (always.wait()?, managed.wait()?);
    // What the first seconds bring in, such as the last promotions, is left out.
    let over = measured / 4 * 3;
    let rates = [always.rate_over_last(over), managed.rate_over_last(over)];
    eprintln!(
        "bars: THP always {:.2}, mega {:.2} M updates a second, with {} and {} in huge pages",
        rates[0] / 1e6,
        rates[1] / 1e6,
        mega_core::bytes::format(always.huge_bytes),
        mega_core::bytes::format(managed.huge_bytes)
    );
    Ok(rates[1] / rates[0])
}
