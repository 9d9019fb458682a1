//! Settings of the whole machine. mega records each before it changes it, and puts it back at the end or at the next
//! start.

pub mod changed_settings;
pub mod chunk_order;
pub mod fault;
pub mod ledger;
mod old_record;
pub mod policies;
pub mod shared_memory;
pub mod stale;
pub mod thp_mode;
