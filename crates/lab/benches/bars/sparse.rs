//! The memory of a program that touches one page in eight once: under mega, against base pages.

use mega_lab::Error;
use mega_lab::subject::Subject;

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, median};

/// Long enough for some observations.
const SECONDS: &str = "--seconds=5";

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let mut ratios = Vec::new();
    for _ in 0..setting.repetitions {
        let base = Subject::start(&mut setting.workload(&["sparse", SECONDS, "--no-huge-pages"]))?
            .wait()?;
        let managed =
            Subject::start(&mut setting.managed(&["--interval=500ms"], &["sparse", SECONDS]))?
                .wait()?;
        #[allow(clippy::cast_precision_loss)]
        ratios.push(managed.resident_bytes as f64 / base.resident_bytes as f64);
    }
    Ok(vec![Bar {
        name: "a sparse program's memory, of that with base pages",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtMost(1.02),
    }])
}
