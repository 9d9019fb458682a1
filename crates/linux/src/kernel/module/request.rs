//! What mega.ko can be asked, and which requests change something.

use super::interface::{
    self, Block, Compact, Demote, Exchange, FreeZero, Info, Pair, Promote, Region, ScanBlocks,
    ScanTask,
};
use crate::kernel::ProcessHandle;

/// One request to the module. The header `kernel/module/mega_ioctl.h` says what each does. A request about a process
/// names it by its handle; the boundary fills in the pidfd.
#[derive(Debug)]
#[allow(missing_docs, reason = "each member is what its type says")]
pub enum ModuleRequest<'a> {
    /// What the module can do.
    Info(&'a mut Info),
    /// Reads page tables of a process, into `regions`.
    ScanTask {
        process: &'a ProcessHandle,
        request: &'a mut ScanTask,
        regions: &'a mut [Region],
    },
    /// Counts the pages of physical blocks, into `blocks`.
    ScanBlocks {
        request: &'a mut ScanBlocks,
        blocks: &'a mut [Block],
    },
    /// Empties a range of physical memory, into none of the ranges of the same size that begin at the frames `avoid`:
    /// ascending, each once, at most [`interface::MAX_AVOID`].
    Compact {
        request: &'a mut Compact,
        avoid: &'a [u64],
    },
    /// Maps a span of a process by a giant page.
    Promote {
        process: &'a ProcessHandle,
        request: &'a mut Promote,
    },
    /// Maps a span of a process by huge pages again.
    Demote {
        process: &'a ProcessHandle,
        request: &'a mut Demote,
    },
    /// Gives back the zero-filled huge pages of a span.
    FreeZero {
        process: &'a ProcessHandle,
        request: &'a mut FreeZero,
    },
    /// Has pairs of huge pages of a process change places.
    Exchange {
        process: &'a ProcessHandle,
        request: &'a mut Exchange,
        pairs: &'a mut [Pair],
    },
}

impl ModuleRequest<'_> {
    /// Whether the request changes anything: Accessed bits, what the module remembers of them, or where memory lies.
    #[must_use]
    pub fn writes(&self) -> bool {
        match self {
            ModuleRequest::Info(_) => false,
            ModuleRequest::ScanTask { request, .. } => request.flags & interface::TASK_CLEAR != 0,
            ModuleRequest::ScanBlocks { request, .. } => {
                request.flags & interface::BLOCKS_RESET != 0
            }
            ModuleRequest::Compact { request, .. } => {
                request.flags & interface::COMPACT_DRY_RUN == 0
            }
            ModuleRequest::Promote { .. }
            | ModuleRequest::Demote { .. }
            | ModuleRequest::FreeZero { .. }
            | ModuleRequest::Exchange { .. } => true,
        }
    }
}
