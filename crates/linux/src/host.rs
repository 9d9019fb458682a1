//! The machine that mega runs on: the boundary to its kernel, what the doctor found, and the tracker chosen.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::Error;
use crate::act::giant::GiantPages;
use crate::doctor::{self, Examination};
use crate::guest;
use crate::kernel::{Kernel, LiveKernel, ReadOnly};
use crate::observe::tracker::{Tracker, TrackerKind};
use crate::observe::tracker_choice;
use crate::process::Table;
use crate::process::sharing::Sharing;
use crate::touches::UsedProgram;

/// How a [`Host`] is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// Refuse every write to the kernel: observe, decide, and change nothing. Accessed bits are not cleared
    /// either, so accesses stay unknown.
    pub dry_run: bool,
    /// The tracker to use; `None` for the best one that works.
    pub tracker: Option<TrackerKind>,
}

/// The machine that mega runs on. Shared by all that observe and act on it.
pub struct Host {
    kernel: Arc<dyn Kernel>,
    examination: Examination,
    tracker: Mutex<Box<dyn Tracker>>,
    kind: TrackerKind,
    clears_itself: bool,
    shmem_device: Option<(u32, u32)>,
    /// Where the kernel has giant pages and the module is there to make them.
    giant_pages: Option<Mutex<GiantPages>>,
    processes: Mutex<Table>,
    sharing: Arc<Mutex<Sharing>>,
    other_module: Option<Error>,
    /// What the touch meter asks for CPU time, once it did.
    used_program: OnceLock<UsedProgram>,
    is_guest: OnceLock<bool>,
}

impl Host {
    /// Probes the running kernel and starts a tracker.
    ///
    /// # Errors
    /// [`Error::Missing`] where the kernel has no huge pages, or not the tracker asked for, or the privileges
    /// for any are missing.
    pub fn open(options: HostOptions) -> Result<Self, Error> {
        let kernel: Arc<dyn Kernel> = if options.dry_run {
            Arc::new(ReadOnly(LiveKernel))
        } else {
            Arc::new(LiveKernel)
        };
        Self::with_kernel(kernel, options.tracker)
    }

    /// As [`Host::open`], behind a boundary of the caller's.
    ///
    /// # Errors
    /// As [`Host::open`].
    pub fn with_kernel(
        kernel: Arc<dyn Kernel>,
        wanted: Option<TrackerKind>,
    ) -> Result<Self, Error> {
        let choice = tracker_choice::choose(&kernel, wanted);
        let examination = doctor::examine_with(&kernel, &choice);
        examination.require()?;
        let giant_pages = GiantPages::open(Arc::clone(&kernel));
        let mut host = Self::with_tracker(kernel, examination, choice.tracker?);
        match giant_pages {
            Ok(giant_pages) => host = host.with_giant_pages(giant_pages),
            Err(other @ Error::OtherModule { .. }) => host.other_module = Some(other),
            // Neither the module nor giant pages are required.
            Err(_) => {}
        }
        Ok(host)
    }

    /// Puts a host together from its parts.
    #[must_use]
    pub fn with_tracker(
        kernel: Arc<dyn Kernel>,
        examination: Examination,
        tracker: Box<dyn Tracker>,
    ) -> Self {
        Host {
            // Where it cannot be told, shared memory is simply not eligible.
            shmem_device: kernel.shmem_device().ok(),
            kernel,
            examination,
            kind: tracker.kind(),
            clears_itself: tracker.clears_itself(),
            tracker: Mutex::new(tracker),
            giant_pages: None,
            processes: Mutex::default(),
            sharing: Arc::default(),
            other_module: None,
            used_program: OnceLock::new(),
            is_guest: OnceLock::new(),
        }
    }

    /// The same with giant pages.
    #[must_use]
    pub fn with_giant_pages(self, giant_pages: GiantPages) -> Self {
        Host {
            giant_pages: Some(Mutex::new(giant_pages)),
            ..self
        }
    }

    /// The boundary to the kernel.
    #[must_use]
    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        &self.kernel
    }

    /// What the doctor found when the host was opened.
    #[must_use]
    pub fn examination(&self) -> &Examination {
        &self.examination
    }

    /// Which tracker is in use.
    #[must_use]
    pub fn tracker_kind(&self) -> TrackerKind {
        self.kind
    }

    /// Whether the tracker starts the next interval by scanning.
    pub(crate) fn tracker_clears_itself(&self) -> bool {
        self.clears_itself
    }

    /// What tells a process's CPU time exactly; loaded when it is first asked for. `None` where that is not possible, which may
    /// pass, as a lack of memory does.
    pub(crate) fn used_program(&self) -> Option<&UsedProgram> {
        if let Some(program) = self.used_program.get() {
            return Some(program);
        }
        let program = UsedProgram::load()?;
        Some(self.used_program.get_or_init(|| program))
    }

    /// The device that shared memory lies on.
    pub(crate) fn shmem_device(&self) -> Option<(u32, u32)> {
        self.shmem_device
    }

    /// Whether spans can be mapped by giant pages here.
    #[must_use]
    pub fn has_giant_pages(&self) -> bool {
        self.giant_pages.is_some()
    }

    /// Whether the zero-filled huge pages of a span can be given back here.
    #[must_use]
    pub fn can_free_zero(&self) -> bool {
        self.giant_pages()
            .is_some_and(|giant_pages| giant_pages.can_free_zero())
    }

    /// Whether a span can be mapped by a giant page here though base pages map some of it.
    #[must_use]
    pub fn can_collapse_to_giant(&self) -> bool {
        self.giant_pages()
            .is_some_and(|giant_pages| giant_pages.can_collapse())
    }

    /// What makes giant pages, one user at a time; `None` where there are none.
    pub(crate) fn giant_pages(&self) -> Option<MutexGuard<'_, GiantPages>> {
        // It holds an open device and no state.
        let giant_pages = self.giant_pages.as_ref()?;
        Some(giant_pages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which process shared memory belongs to, over all machines.
    pub(crate) fn sharing(&self) -> &Arc<Mutex<Sharing>> {
        &self.sharing
    }

    /// The table of processes, one user at a time. Who selects processes refreshes it; a machine asks it whether a
    /// target ran.
    pub fn processes(&self) -> MutexGuard<'_, Table> {
        // A refresh that a panic elsewhere cut leaves processes out, which the next one finds.
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Error::OtherModule`], where a module is loaded that speaks another version: it is not used, and whoever loaded
    /// it should hear of it.
    #[must_use]
    pub fn other_module(&self) -> Option<&Error> {
        self.other_module.as_ref()
    }

    /// Whether this machine is a guest, on whose page sizes alone nothing rests ([`guest`]).
    #[must_use]
    pub fn is_guest(&self) -> bool {
        *self
            .is_guest
            .get_or_init(|| guest::is_guest(self.kernel.as_ref()))
    }

    /// Whether nothing is ever changed.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.kernel.is_read_only()
    }

    /// The tracker, one user at a time.
    pub(crate) fn tracker(&self) -> MutexGuard<'_, Box<dyn Tracker>> {
        // A tracker holds no state that a panic elsewhere could leave half changed: each scan starts anew.
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
