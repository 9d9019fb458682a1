//! The page size that faults take. `base` keeps huge pages out of the fault path; promotion comes later.

use std::process::Command;
use std::sync::Arc;

use serde::Serialize;

use crate::Error;
use crate::kernel::{Kernel, Refused, ThpDisable, sys};
use crate::run_dir::RunDir;
use crate::settings::thp_mode::{self, Guard, ThpMode};

/// What faults of a started program take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultMode {
    /// Base pages, except where the program asks for huge ones by `madvise`.
    Base,
    /// What they would take without mega.
    Inherit,
}

impl FaultMode {
    /// As the command line and the configuration spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FaultMode::Base => "base",
            FaultMode::Inherit => "inherit",
        }
    }
}

/// How a [`FaultMode`] was brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMeans {
    /// None.
    Nothing,
    /// As [`FaultControl::PerProcess`].
    PerProcess,
    /// As [`FaultControl::Global`].
    Global,
}

impl FaultMeans {
    /// Says in a few words what faults take now, and by what means.
    #[must_use]
    pub fn describe(self, kernel: &dyn Kernel) -> String {
        if self == FaultMeans::PerProcess {
            return "base pages, by prctl in the started program".to_owned();
        }
        let Ok(mode) = thp_mode::read(kernel) else {
            return "as the global THP mode has it, which cannot be read".to_owned();
        };
        let takes = mode.faults_take();
        match self {
            // Whoever sets another mode meanwhile has the last word.
            FaultMeans::Global if mode == ThpMode::Madvise => {
                format!("{takes}: by the global THP mode `{mode}`, put back afterwards")
            }
            _ => format!("{takes}: as the global THP mode `{mode}` has it"),
        }
    }
}

/// How a [`FaultMode`] is brought about. It lasts for as long as this lives.
pub enum FaultControl {
    /// Nothing is changed: nobody asked for it, this is a dry run, or the global mode gives it already.
    Nothing,
    /// `PR_THP_DISABLE_EXCEPT_ADVISED` (6.18) in each started program. Its descendants inherit it.
    PerProcess,
    /// The global mode, which was `always`, is `madvise` for now, for every process of the machine.
    Global(Guard),
}

impl FaultControl {
    /// Brings `mode` about in the way that touches the fewest processes on this kernel.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn prepare(
        kernel: &Arc<dyn Kernel>,
        run_dir: &RunDir,
        mode: FaultMode,
    ) -> Result<Self, Error> {
        if mode == FaultMode::Inherit || kernel.is_read_only() {
            return Ok(FaultControl::Nothing);
        }
        // Also where the global mode does not need it now: it may change while the program runs.
        if knows_per_process_control(kernel.as_ref()) == Some(true) {
            return Ok(FaultControl::PerProcess);
        }
        Self::by_global_mode(kernel, run_dir)
    }

    /// Brings `mode` about for programs that mega does not start.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn prepare_for_all(
        kernel: &Arc<dyn Kernel>,
        run_dir: &RunDir,
        mode: FaultMode,
    ) -> Result<Self, Error> {
        if mode == FaultMode::Inherit || kernel.is_read_only() {
            return Ok(FaultControl::Nothing);
        }
        Self::by_global_mode(kernel, run_dir)
    }

    /// Brings base faults about by the global mode, as kernels before 6.18 need it. `always` becomes `madvise`; the other
    /// modes stay.
    ///
    /// # Errors
    /// As [`Guard::set`].
    pub fn by_global_mode(kernel: &Arc<dyn Kernel>, run_dir: &RunDir) -> Result<Self, Error> {
        match thp_mode::read(kernel.as_ref())? {
            ThpMode::Always => {
                Guard::set(Arc::clone(kernel), run_dir, ThpMode::Madvise).map(FaultControl::Global)
            }
            ThpMode::Madvise | ThpMode::Never => Ok(FaultControl::Nothing),
        }
    }

    /// Prepares `command`, so that its program starts with such faults.
    pub fn apply(&self, command: &mut Command) {
        if matches!(self, FaultControl::PerProcess) {
            sys::set_thp_disable_in_child(command, ThpDisable::ExceptAdvised);
        }
    }

    /// By what means it is brought about.
    #[must_use]
    pub fn means(&self) -> FaultMeans {
        match self {
            FaultControl::Nothing => FaultMeans::Nothing,
            FaultControl::PerProcess => FaultMeans::PerProcess,
            FaultControl::Global(_) => FaultMeans::Global,
        }
    }
}

/// Whether this kernel has `PR_THP_DISABLE_EXCEPT_ADVISED`. It is tried on this process itself, for a moment. `None` in a
/// dry run, which may not try it.
pub fn knows_per_process_control(kernel: &dyn Kernel) -> Option<bool> {
    let before = kernel.thp_disable().ok()?;
    if before == ThpDisable::ExceptAdvised {
        return Some(true);
    }
    match kernel.set_thp_disable(ThpDisable::ExceptAdvised) {
        Ok(()) => kernel.set_thp_disable(before).is_ok().then_some(true),
        Err(error) if Refused::is(&error) => None,
        Err(_) => Some(false),
    }
}
