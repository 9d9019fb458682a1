//! The page size that faults take. `base` keeps huge pages out of the fault path; promotion comes later.

use std::process::Command;
use std::sync::Arc;

use serde::Serialize;

use crate::Error;
use crate::kernel::{Kernel, Refused, ThpDisable, sys};
use crate::run_dir::RunDir;
use crate::settings::thp_mode::{self, Guard, InForce, ThpMode};

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
        let Ok(in_force) = thp_mode::of_huge_pages(kernel) else {
            return "as the THP mode has it, which cannot be read".to_owned();
        };
        let takes = in_force.mode.faults_take();
        let which = in_words(&in_force);
        match self {
            // Whoever sets another mode meanwhile has the last word.
            FaultMeans::Global if in_force.mode == ThpMode::Madvise => {
                format!("{takes}: by the {which}, put back afterwards")
            }
            _ => format!("{takes}: as the {which} has it"),
        }
    }
}

fn in_words(in_force: &InForce) -> String {
    match in_force.is_of_size() {
        true => in_force.to_string(),
        false => format!("global {in_force}"),
    }
}

/// How a [`FaultMode`] is brought about. It lasts for as long as this lives.
pub enum FaultControl {
    /// Nothing is changed: nobody asked for it, this is a dry run, or the global mode gives it already.
    Nothing,
    /// `PR_THP_DISABLE_EXCEPT_ADVISED` (6.18) in each started program. Its descendants inherit it.
    PerProcess,
    /// The mode of huge pages, which was `always`, is `madvise` for now, for every process of the machine: the global mode, or where
    /// huge pages have one of their own, that.
    Global(Guard),
}

impl FaultControl {
    /// Brings `mode` about in the way that touches the fewest processes on this kernel.
    ///
    /// # Errors
    /// As [`thp_mode::of_huge_pages`] and [`Guard::change`].
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
    /// As [`thp_mode::of_huge_pages`] and [`Guard::change`].
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

    /// Brings base faults about by the mode of huge pages, as kernels before 6.18 need it. `always` becomes `madvise`; the other
    /// modes stay.
    ///
    /// # Errors
    /// As [`thp_mode::of_huge_pages`] and [`Guard::change`].
    pub fn by_global_mode(kernel: &Arc<dyn Kernel>, run_dir: &RunDir) -> Result<Self, Error> {
        let in_force = thp_mode::of_huge_pages(kernel.as_ref())?;
        match in_force.mode {
            ThpMode::Always => {
                Guard::change(Arc::clone(kernel), run_dir, &in_force, ThpMode::Madvise)
                    .map(FaultControl::Global)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeProcess};

    const OF_HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";

    #[test]
    fn base_faults_change_the_mode_that_decides_and_put_it_back() {
        let never = "always madvise [never]\n";
        let always = "[always] madvise never\n";
        let own = "[always] inherit madvise never\n";
        let inherit = "always [inherit] madvise never\n";
        for (global, of_huge_pages, changed) in [
            (never, own, Some(OF_HUGE_PAGES)),
            (always, own, Some(OF_HUGE_PAGES)),
            (always, inherit, Some(thp_mode::PATH)),
            (always, "always inherit madvise [never]\n", None),
            (never, inherit, None),
        ] {
            let kernel =
                FakeKernel::with_files(&[(thp_mode::PATH, global), (OF_HUGE_PAGES, of_huge_pages)]);
            kernel.add(std::process::id(), FakeProcess::default());
            let kernel = Arc::new(kernel);
            let read = |path| String::from_utf8(kernel.read(Path::new(path)).unwrap()).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let run_dir = RunDir::at(folder.path()).unwrap();
            let boundary: Arc<dyn Kernel> = Arc::<FakeKernel>::clone(&kernel);
            let control = FaultControl::by_global_mode(&boundary, &run_dir).unwrap();
            for (path, before) in [(thp_mode::PATH, global), (OF_HUGE_PAGES, of_huge_pages)] {
                let expected = match changed {
                    Some(changed) if changed == path => "madvise",
                    _ => before,
                };
                assert_eq!(read(path), expected, "{global} {of_huge_pages}");
            }
            drop(control);
            if let Some(changed) = changed {
                assert_eq!(read(changed), "always", "{global} {of_huge_pages}");
            }
        }
    }

    #[test]
    fn what_is_said_of_faults_is_what_decides() {
        let kernel = FakeKernel::with_files(&[
            (thp_mode::PATH, "always madvise [never]\n"),
            (OF_HUGE_PAGES, "always [inherit] madvise never\n"),
        ]);
        let said = || FaultMeans::Nothing.describe(&kernel);
        assert_eq!(said(), "base pages: as the global THP mode `never` has it");
        let own = b"[always] inherit madvise never\n".to_vec();
        kernel.state().files.insert(OF_HUGE_PAGES.into(), own);
        assert!(said().starts_with("huge pages"), "{}", said());
        assert!(said().contains(OF_HUGE_PAGES), "{}", said());
    }
}
