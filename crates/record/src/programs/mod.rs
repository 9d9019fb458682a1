//! Recordings as programs of the simulated machine: each process maps, touches and frees what it did when it was recorded, in simulated time.
//!
//! Unlike a replay, several recordings can run together, beside other programs, and what a policy does comes back to them: faults,
//! touches and promotions take their time. What a process did between two looks it begins when it was recorded, or, where it is
//! late, once it is through with what comes before. So one that huge pages make faster rests longer, and one that they hold up is late.
//!
//! | module | holds |
//! |---|---|
//! | `survey` | what a recording has, before it runs |
//! | `tape` | the looks of a recording, dealt out to its processes |
//! | `recorded` | a process as a program |
//! | `touching` | how it touches its memory between two looks |
//! | `blind` | the memory of a process that huge pages mapped when it was recorded |
//! | `start` | when all of it begins |

mod blind;
mod recorded;
mod start;
mod survey;
mod tape;
mod touching;

pub use blind::BlindMemory;
pub use recorded::RecordedProgram;
pub use start::Start;
pub use survey::{Survey, Surveyed};
pub use tape::{Tape, share};
pub use touching::Told;
