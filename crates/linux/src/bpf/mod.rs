//! Loading BPF programs, and running them as task iterators.

mod iterator;
mod load;

pub(crate) use iterator::{attach_to_all, attach_to_process, attach_to_thread, iterator};
pub(crate) use load::{LoadError, load, load_some};
