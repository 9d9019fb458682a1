//! What is done to processes: promotion and demotion, each verified by looking again.

pub mod demote;
pub mod giant;
pub(crate) mod perform;
pub mod promote;
pub(crate) mod ready;
pub(crate) mod warm;
