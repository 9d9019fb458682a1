//! What was emptied, as it is written.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_core::compaction::{Emptied, MigrationCounts, Stopped, ToEmpty, Unit};
use serde::{Deserialize, Serialize};

use super::place;
use super::wire::Nonsense;
use crate::look::Compacted;

const UNITS: [Unit; 2] = [Unit::Block, Unit::Chunk];

#[derive(Serialize, Deserialize)]
pub(crate) struct WireCompacted {
    at: Duration,
    took: Duration,
    /// 0 for a block, 1 for a chunk.
    unit: u8,
    /// Its place in physical memory: its first frame by the frames of one.
    number: u64,
    /// Base pages that were to be moved.
    pages: u32,
    empties: bool,
    /// The place in [`Stopped::ALL`].
    stopped: u8,
    scanned: u64,
    isolated: u64,
    migrated: u64,
    failed: u64,
}

impl From<&Compacted> for WireCompacted {
    fn from(compacted: &Compacted) -> Self {
        let Emptied {
            target,
            stopped,
            counts,
            took,
        } = compacted.emptied;
        WireCompacted {
            at: compacted.at,
            took,
            unit: place(&UNITS, &target.unit),
            number: target.first_pfn / u64::from(target.unit.pages()),
            pages: target.pages,
            empties: target.empties,
            stopped: place(&Stopped::ALL, &stopped),
            scanned: counts.scanned,
            isolated: counts.isolated,
            migrated: counts.migrated,
            failed: counts.failed,
        }
    }
}

impl TryFrom<WireCompacted> for Compacted {
    type Error = Nonsense;

    fn try_from(wire: WireCompacted) -> Result<Self, Nonsense> {
        let unit = UNITS.get(usize::from(wire.unit)).copied();
        let unit = unit.ok_or(Nonsense("what was emptied is of no known size"))?;
        let end = wire.number.checked_add(1);
        end.and_then(|end| end.checked_mul(unit.bytes()))
            .ok_or(Nonsense("what was emptied lies beyond all addresses"))?;
        if wire.pages > unit.pages() {
            return Err(Nonsense("what was emptied has more pages than it can have"));
        }
        let stopped = Stopped::ALL.get(usize::from(wire.stopped)).copied();
        Ok(Compacted {
            at: wire.at,
            emptied: Emptied {
                target: ToEmpty {
                    unit,
                    first_pfn: wire.number * (unit.bytes() / BASE_PAGE_SIZE),
                    pages: wire.pages,
                    empties: wire.empties,
                },
                stopped: stopped.ok_or(Nonsense("compaction ended for no known reason"))?,
                counts: MigrationCounts {
                    scanned: wire.scanned,
                    isolated: wire.isolated,
                    migrated: wire.migrated,
                    failed: wire.failed,
                },
                took: wire.took,
            },
        })
    }
}
