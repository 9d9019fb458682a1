//! The programs that the experiments run on the simulated machine.

mod accesses;
mod busy;
mod churn;
mod columns;
mod descent;
mod filling;
mod holes;
pub(super) mod kdd2012;
mod key_values;
mod kronecker;
mod netlist;
mod objects;
mod operations;
mod pass;
mod regions;
mod resident;
mod saving_server;
mod scatter;
mod search;
mod server;
mod service;
mod sweep;
mod using;
mod values;
mod zipf;

pub(super) use accesses::{Accesses, Pattern};
pub(super) use busy::Busy;
pub(super) use churn::Churn;
use filling::Filling;
pub(super) use holes::Holes;
pub(super) use netlist::arrays as netlist_arrays;
pub(super) use objects::Objects;
pub(super) use operations::{Done, Operations};
pub(super) use pass::Pass;
pub(super) use regions::Regions;
pub(super) use resident::Resident;
pub(super) use saving_server::{Load as SavingLoad, SavingServer, Told, Written};
pub(super) use server::{Load, Server};
pub(super) use service::Service;
use sweep::Sweep;
use using::Using;
pub(super) use values::Values;

/// Pages that a program touches before others have their turn.
const AT_ONCE: u64 = 256;
