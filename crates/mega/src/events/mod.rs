//! What changes while a manager runs, as events: for the control socket, the journal and the metrics.
//!
//! The manager's thread adds an event to the log and goes on; whoever reads the log waits for nobody else.

mod change;
mod followed;
mod journal;
mod log;
mod told;

pub(crate) use change::{Change, Event, Who};
pub(crate) use followed::Followed;
pub(crate) use journal::{report, start};
pub(crate) use log::EventLog;
pub(crate) use told::{Teller, tell};
