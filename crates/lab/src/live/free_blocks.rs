//! How much of physical memory is free in large pieces.

use mega_linux::kernel::LiveKernel;
use mega_linux::physical::buddyinfo;

use super::metric::{Better, Metric, Unit};
use crate::error::Error;

/// Free blocks of 2 MiB, no larger (MEGA, table 10).
pub(crate) const FREE_2MIB: Metric = Metric::new(
    "free_2mib_blocks",
    "free blocks of 2 MiB at the end",
    Unit::Count,
    Better::Higher,
);
/// Free blocks of 4 MiB, the largest that the kernel's allocator knows on x86 (MEGA, table 10).
pub(crate) const FREE_4MIB: Metric = Metric::new(
    "free_4mib_blocks",
    "free blocks of 4 MiB at the end",
    Unit::Count,
    Better::Higher,
);

/// Base pages in a free block, as a power of two.
const ORDERS: [usize; 2] = [9, 10];

/// Free blocks of 2 MiB and of 4 MiB, all zones together.
///
/// # Errors
/// When `/proc/buddyinfo` cannot be read.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn free_blocks() -> Result<[f64; 2], Error> {
    let lists = buddyinfo::read(&LiveKernel).map_err(|e| Error::Failed(e.to_string()))?;
    Ok(ORDERS.map(|order| {
        let blocks: u64 = lists.iter().filter_map(|list| list.areas.get(order)).sum();
        blocks as f64
    }))
}
