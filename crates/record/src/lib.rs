//! Recordings of programs' memory.
//!
//! A recording holds what a machine saw of some processes, look by look. [`Writer`] writes one as it is made, [`Reader`] reads it.
//!
//! | module | holds |
//! |---|---|
//! | [`look`] | what is recorded |
//! | [`format`](mod@format) | how it lies in the file |
//! | [`writer`], [`reader`] | writing and reading it, a look at a time |
//! | [`damo`] | records of damo's, read and written |
//! | [`overview`] | what a recording has, added up, and its heat maps |
//! | [`replay`] | the replayed machine, and the course of a policy on it |
//! | [`programs`] | recordings as programs of the simulated machine, several at a time |

#![forbid(unsafe_code)]

pub mod damo;
pub mod format;
pub mod look;
pub mod overview;
mod pages;
pub mod programs;
pub mod reader;
pub mod replay;
pub mod writer;

pub use look::{Acted, Compacted, FreeList, Header, Look, News, TouchRate};
pub use reader::{Ending, Reader, Usable};
pub use writer::Writer;
