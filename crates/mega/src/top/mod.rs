//! `mega top`: a live view of what mega sees and does, in a terminal.
//!
//! [`state`] is the model: what is shown follows from samples, keys and the mouse alone, and nothing in it does I/O. [`draw`]
//! paints a state into a buffer. [`source`] takes samples on a thread of its own, or
//! [`playback`] takes them from a recording; [`terminal`] ties the three together.

mod draw;
mod history;
mod layout;
mod playback;
mod sample;
mod snapshot_file;
mod source;
mod state;
mod terminal;
mod update;

pub(crate) use playback::Recording;
pub(crate) use snapshot_file::SnapshotFile;
pub(crate) use source::{Source, observe};
pub(crate) use state::Origin;
pub(crate) use terminal::{play, show, show_file};
