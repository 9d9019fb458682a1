//! Global settings of the kernel: what mega changes is recorded first, and put back at the end or at the next start.

pub mod changed_settings;
pub mod chunk_order;
pub mod fault;
pub mod ledger;
mod old_record;
pub mod run_dir;
pub mod stale;
pub mod thp_mode;
