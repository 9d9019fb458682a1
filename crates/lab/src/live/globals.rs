//! Sets what a mode needs for the whole machine, and restores it.

use std::path::PathBuf;
use std::sync::Arc;

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::run_dir::RunDir;
use mega_linux::settings::changed_settings::ChangedSettings;
use mega_linux::settings::stale;
use mega_linux::settings::thp_mode::{Guard, ThpMode};

use super::mode::Mode;
use crate::error::Error;

const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
/// khugepaged that never sleeps and looks at a gibibyte at a time.
const FASTEST: [(&str, u64); 3] = [
    ("scan_sleep_millisecs", 0),
    ("alloc_sleep_millisecs", 0),
    ("pages_to_scan", 1 << 18),
];
/// khugepaged as the kernel sets it up (`mm/khugepaged.c`, Linux 6.1 to 6.18).
const DEFAULTS: [(&str, u64); 3] = [
    ("scan_sleep_millisecs", 10_000),
    ("alloc_sleep_millisecs", 60_000),
    ("pages_to_scan", 8 * 512),
];

/// The machine's settings, which modes change for a while.
pub(super) struct Globals {
    kernel: Arc<dyn Kernel>,
    run_dir: RunDir,
}

/// What one mode has changed; put back when dropped, and by the next mega after a crash.
pub(super) struct Held {
    mode: Option<Guard>,
    khugepaged: Option<ChangedSettings>,
}

impl Globals {
    /// Puts back what a killed mega left changed, and sees whether settings may be changed: by doing it, for a moment.
    ///
    /// # Errors
    /// [`Error::Missing`] without the privilege.
    pub(super) fn open() -> Result<Self, Error> {
        let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
        mega_linux::doctor::require(&kernel).map_err(needs_root)?;
        let run_dir = RunDir::open().map_err(needs_root)?;
        stale::put_back(kernel.as_ref(), &run_dir).map_err(needs_root)?;
        let globals = Globals { kernel, run_dir };
        globals.set(&Mode::Khugepaged)?.put_back()?;
        Ok(globals)
    }

    /// Has no program get huge pages that did not ask for them, until a mode set meanwhile says otherwise.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn hold_back(&self) -> Result<Held, Error> {
        Ok(Held {
            mode: Some(self.set_mode(ThpMode::Madvise)?),
            khugepaged: None,
        })
    }

    /// Sets what a mode needs.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn set(&self, mode: &Mode) -> Result<Held, Error> {
        let wants = match mode {
            Mode::Base => Some(ThpMode::Never),
            Mode::Thp => Some(ThpMode::Always),
            Mode::Khugepaged | Mode::KhugepagedDefaults => Some(ThpMode::Madvise),
            // `mega run` sees to its program's faults itself.
            Mode::Mega(_) => None,
        };
        let khugepaged = match mode {
            Mode::Khugepaged => Some(FASTEST),
            Mode::Thp | Mode::KhugepagedDefaults => Some(DEFAULTS),
            Mode::Base | Mode::Mega(_) => None,
        };
        Ok(Held {
            mode: wants.map(|wants| self.set_mode(wants)).transpose()?,
            khugepaged: khugepaged
                .map(|values| self.set_khugepaged(values))
                .transpose()?,
        })
    }

    fn set_mode(&self, wants: ThpMode) -> Result<Guard, Error> {
        Guard::set(Arc::clone(&self.kernel), &self.run_dir, wants).map_err(needs_root)
    }

    fn set_khugepaged(&self, values: [(&str, u64); 3]) -> Result<ChangedSettings, Error> {
        let settings: Vec<(PathBuf, String)> = values
            .into_iter()
            .map(|(name, value)| (PathBuf::from(KHUGEPAGED).join(name), value.to_string()))
            .collect();
        ChangedSettings::change(Arc::clone(&self.kernel), &self.run_dir, &settings)
            .map_err(needs_root)
    }
}

impl Held {
    /// Puts everything back.
    ///
    /// # Errors
    /// When the kernel refuses; the next mega then does it.
    pub(super) fn put_back(mut self) -> Result<(), Error> {
        if let Some(khugepaged) = self.khugepaged.take() {
            khugepaged.put_back().map_err(needs_root)?;
        }
        if let Some(mode) = self.mode.take() {
            mode.restore().map_err(needs_root)?;
        }
        Ok(())
    }
}

// An error by value, as `map_err` has it.
#[allow(clippy::needless_pass_by_value)]
fn needs_root(error: mega_linux::Error) -> Error {
    let why = "an experiment changes the THP mode of huge pages and khugepaged's settings for a while, and manages programs";
    Error::from_linux(&error, why)
}
