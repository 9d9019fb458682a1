//! What huge pages would gain a process: `mega worth --json`.

use mega_core::worth::Worth;
use serde::Serialize;

use super::{HostPage, Memory};

/// What `mega worth --json` prints of a process or a command.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorthReport {
    pub(crate) version: u32,
    pub(crate) pid: u32,
    /// The command's name (up to 15 bytes).
    pub(crate) name: String,
    /// How long it was measured.
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) worth: Worth,
    /// What stands in the way of huge pages.
    pub(crate) obstacles: Vec<Obstacle>,
    /// The machine's memory now.
    pub(crate) memory: Memory,
    /// By which pages the host of this guest maps what the guest maps; `null` on a machine that is no guest.
    pub(crate) host_page: Option<HostPage>,
    /// Whether it runs a virtual machine by KVM, whose own page sizes are not known here.
    pub(crate) runs_guest: bool,
}

/// What `mega worth --select NAME --json` prints.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SelectionWorthReport {
    pub(crate) version: u32,
    pub(crate) select: String,
    pub(crate) processes: Vec<WorthReport>,
}

/// Something that stands in the way of huge pages in a part of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Obstacle {
    /// Where; `null` for all of its memory.
    pub(crate) start: Option<u64>,
    /// How much of its memory that is.
    pub(crate) length: u64,
    pub(crate) reason: &'static str,
    /// What to do about it.
    pub(crate) remedy: String,
    /// The reason in words, for people.
    #[serde(skip)]
    pub(crate) why: String,
}
