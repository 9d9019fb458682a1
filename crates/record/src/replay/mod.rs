//! A machine made of a recording: mega's engine and policies run on it as on a live kernel.
//!
//! It is an open loop. What the program does is in the recording and does not change with what a policy does: a program that
//! huge pages make faster would have done more in the same time.
//!
//! It says nothing that the recording does not know. Where a huge page maps a region in the recording, the use of its base pages
//! is hidden: such memory is counted as blind, and a policy that demotes it sees it no more. [`ReplayedMachine`] leaves giant pages as
//! they were recorded: a recording does not say which chunk could have been emptied for another. [`SimulatedReplay`] has them, and
//! compaction, on the simulated kernel: its physical memory is made up, so that as much is free and contiguous as was recorded.

mod course;
mod machine;
mod playback;
mod player;
mod process;
mod simulated;
mod terms;
mod translation;

pub use course::{Course, Point, follow};
pub use machine::{Over, ReplayedMachine};
pub use mega_sim::translation::{PROCESSORS, Processor, Walk};
pub use player::Player;
pub use simulated::{CannotSimulate, SimulatedReplay, kernel_as_recorded};
pub use terms::Terms;
pub use translation::Translation;
