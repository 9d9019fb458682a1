//! The daemon's last day: what it saw, spent and did, in slots of five minutes, selection by selection and never by pid.
//!
//! `look.rs` takes note of the manager's latest snapshot, `day.rs` adds that up without a clock or I/O, and `recorder.rs` says
//! when, and keeps the slots in the state directory. `report.rs` is what `mega report` gets. `docs/interfaces.md` describes a slot.

mod day;
mod look;
mod recorder;
mod report;
mod slot;

pub(crate) use recorder::{History, Recorder};
pub(crate) use report::{DayReport, DaysReport, RefusedNow};
pub(crate) use slot::{Counts, Done, SLOT, SelectionSlot, Slot, Uncovered, zip};
