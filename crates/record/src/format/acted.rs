//! Actions as they are written.

use std::time::Duration;

use mega_core::{Action, ActionKind, Cause, Outcome, ProcessId, Region, RegionRef};
use serde::{Deserialize, Serialize};

use super::place;
use super::wire::Nonsense;
use crate::look::Acted;

#[derive(Serialize, Deserialize)]
pub(crate) struct WireActed {
    at: Duration,
    process: ProcessId,
    /// The number of the region: its address by 2 MiB.
    region: u64,
    /// The place in [`ActionKind::ALL`].
    kind: u8,
    outcome: WireOutcome,
}

#[derive(Serialize, Deserialize)]
enum WireOutcome {
    /// Resident before and after.
    Done(u64, u64),
    /// Bytes copied. Nothing was exchanged.
    Remapped(u64),
    AlreadySo,
    /// The place in [`Cause::ALL`].
    Failed(u8),
    NotTried,
    /// Bytes copied, and bytes that the hypervisor exchanged instead. From version 4 on; before, these were [`Self::Remapped`] too.
    Exchanged(u64, u64),
}

impl From<&Acted> for WireActed {
    fn from(acted: &Acted) -> Self {
        let target = acted.action.target;
        WireActed {
            at: acted.at,
            process: target.process,
            region: target.region.start() / mega_core::HUGE_PAGE_SIZE,
            kind: place(&ActionKind::ALL, &acted.action.kind),
            outcome: match acted.outcome {
                Outcome::Done {
                    resident_before,
                    resident_after,
                } => WireOutcome::Done(resident_before, resident_after),
                Outcome::Remapped {
                    copied,
                    exchanged: 0,
                } => WireOutcome::Remapped(copied),
                Outcome::Remapped { copied, exchanged } => {
                    WireOutcome::Exchanged(copied, exchanged)
                }
                Outcome::AlreadySo => WireOutcome::AlreadySo,
                Outcome::Failed(cause) => WireOutcome::Failed(place(&Cause::ALL, &cause)),
                Outcome::NotTried => WireOutcome::NotTried,
            },
        }
    }
}

impl TryFrom<WireActed> for Acted {
    type Error = Nonsense;

    fn try_from(wire: WireActed) -> Result<Self, Nonsense> {
        let kind = ActionKind::ALL.get(usize::from(wire.kind)).copied();
        let start = wire.region.checked_mul(mega_core::HUGE_PAGE_SIZE);
        let start = start.ok_or(Nonsense("an action lies beyond all addresses"))?;
        Ok(Acted {
            at: wire.at,
            action: Action {
                kind: kind.ok_or(Nonsense("an action is of no known kind"))?,
                target: RegionRef {
                    process: wire.process,
                    region: Region::containing(start),
                },
            },
            outcome: match wire.outcome {
                WireOutcome::Done(resident_before, resident_after) => Outcome::Done {
                    resident_before,
                    resident_after,
                },
                WireOutcome::Remapped(copied) => Outcome::Remapped {
                    copied,
                    exchanged: 0,
                },
                WireOutcome::Exchanged(copied, exchanged) => {
                    Outcome::Remapped { copied, exchanged }
                }
                WireOutcome::AlreadySo => Outcome::AlreadySo,
                WireOutcome::Failed(cause) => {
                    let cause = Cause::ALL.get(usize::from(cause)).copied();
                    Outcome::Failed(cause.ok_or(Nonsense("a failure has no known cause"))?)
                }
                WireOutcome::NotTried => Outcome::NotTried,
            },
        })
    }
}
