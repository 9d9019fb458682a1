//! The counts per block as the module reports them.

use std::ops::Range;
use std::time::Duration;

use mega_core::PageSize;
use mega_core::compaction::{Block, BlockObservation, PAGES_PER_BLOCK};

use crate::Error;
use crate::module::Device;
use crate::module::interface::{self, ScanBlocks};
use crate::module::refused;

/// Blocks per request: 4 GiB, 32 KiB of answer.
const BATCH: u32 = 2048;

/// The blocks of `frames`, which begin and end at a block's edge, in order. Blocks without memory are left out.
/// With `forget_accesses` the module starts to count accesses anew.
pub(super) fn read(
    device: &Device,
    frames: Range<u64>,
    forget_accesses: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<BlockObservation>, Error> {
    let pages = u64::from(PAGES_PER_BLOCK);
    let most = BATCH.min(device.info().max_blocks.max(1));
    let flags = if forget_accesses {
        interface::BLOCKS_RESET
    } else {
        0
    };
    let mut answer = vec![interface::Block::default(); most as usize];
    let mut observations = Vec::new();
    let mut start_frame = frames.start;
    while start_frame < frames.end {
        let left = frames.end.saturating_sub(start_frame).div_ceil(pages);
        let wanted = usize::try_from(left)
            .unwrap_or(answer.len())
            .min(answer.len());
        let Some(batch) = answer.get_mut(..wanted) else {
            break;
        };
        let mut request = ScanBlocks {
            start_frame,
            flags,
            ..ScanBlocks::default()
        };
        device
            .scan_blocks(&mut request, batch)
            .map_err(|error| refused("scan blocks", error))?;
        if request.done == 0 {
            let interrupted = std::io::Error::from_raw_os_error(libc::EINTR);
            return Err(refused("scan blocks", interrupted));
        }
        for block in batch.iter().take(request.done as usize) {
            if block.flags & interface::BLOCK_ABSENT == 0 {
                observations.push(observation(Block::containing(start_frame), block));
            }
            start_frame = start_frame.saturating_add(pages);
        }
        progress(start_frame.saturating_sub(frames.start));
    }
    Ok(observations)
}

fn observation(block: Block, reported: &interface::Block) -> BlockObservation {
    // On its first scan nothing is known about the time before.
    let unknown = interface::BLOCK_NEW | interface::BLOCK_UNTRACKED;
    let known = reported.flags & unknown == 0;
    let huge = reported.flags & interface::BLOCK_HUGE != 0;
    let free = reported.free.min(PAGES_PER_BLOCK);
    let used = reported
        .movable
        .saturating_add(reported.unmovable)
        .min(PAGES_PER_BLOCK - free);
    // What lies in a pageblock that is not to be emptied stays where it is.
    let reserved = reported.flags & interface::BLOCK_RESERVED != 0;
    let movable = if reserved {
        0
    } else {
        reported.movable.min(used)
    };
    BlockObservation {
        block,
        free,
        movable,
        unmovable: used - movable,
        accessed: known.then_some(reported.accessed.min(PAGES_PER_BLOCK)),
        age: known.then(|| Duration::from_millis(reported.age.into())),
        page_size: if huge { PageSize::Huge } else { PageSize::Base },
    }
}
