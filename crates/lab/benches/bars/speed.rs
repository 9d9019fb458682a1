//! Random access over memory well past the TLB's reach: after promotion by mega, against THP always.

use std::sync::Arc;

use mega_lab::Error;
use mega_lab::subject::Subject;
use mega_linux::run_dir::RunDir;
use mega_linux::thp_mode::{self, Guard, ThpMode};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, failed, median};

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let seconds = format!("--seconds={}", setting.seconds);
    let arguments = ["random", &seconds];
    let run_dir = RunDir::open().map_err(failed)?;
    thp_mode::restore_stale(setting.kernel.as_ref(), &run_dir).map_err(failed)?;
    let mut ratios = Vec::new();
    for _ in 0..setting.repetitions {
        let guard =
            Guard::set(Arc::clone(&setting.kernel), &run_dir, ThpMode::Always).map_err(failed)?;
        let always = Subject::start(&mut setting.workload(&arguments))?.wait()?;
        guard.restore().map_err(failed)?;
        let managed =
            Subject::start(&mut setting.managed(&["--interval=1s"], &arguments))?.wait()?;
        for (done, mode) in [(&always, "THP always"), (&managed, "mega")] {
            eprintln!(
                "bars: {mode}: {:.2} M updates a second, {} in huge pages",
                done.steady_operations_per_second / 1e6,
                mega_lab::bytes::format(done.huge_bytes)
            );
        }
        ratios.push(managed.steady_operations_per_second / always.steady_operations_per_second);
    }
    Ok(vec![Bar {
        name: "random access after promotion, of its speed with THP always",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtLeast(0.95),
    }])
}
