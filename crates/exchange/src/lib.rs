//! Exchanges what is behind pairs of guest-physical 2 MiB blocks, within the process of a virtual machine monitor (VMM) and
//! without copying. The host's kernel is unmodified: Linux 6.8 or newer, for `UFFDIO_MOVE`.
//!
//! A guest that makes 512 huge pages one giant page would copy a gigabyte. With an exchanger it asks its host to exchange the
//! memory behind the pages instead.
//!
//! - [`Exchanger`] exchanges pairs of blocks. A VMM makes one over its guest's memory.
//! - [`Server`] owns the page that guest and host share, and serves the requests in it.
//! - [`Backend`] is what a server has exchanges carried out by: an [`Exchanger`], or the host's `mega daemon`, to which a VMM
//!   hands its server over ([`daemon`]).
//! - `include/mega_exchange.h` declares the same for C; link `libmega_exchange.so` or `libmega_exchange.a`.
//!
//! `docs/exchange.md` tells VMM authors what to do, and what is refused.
//!
//! # What a VMM promises
//!
//! - The memory stays mapped where it is as long as the exchanger lives ([`Range::new`]).
//! - It calls [`Exchanger::pause`] before it logs dirty pages, migrates, or takes a snapshot, and [`Exchanger::resume`] after.
//!   The moves are invisible to dirty logging.
//!
//! What a guest asks for is checked; a guest can harm only what is in its own memory.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod backend;
pub mod c;
pub mod daemon;
mod error;
mod exchanger;
pub mod ivshmem;
mod kernel;
mod mappings;
mod memory;
mod page;
mod server;

pub use backend::Backend;
pub use error::{Error, Refusal};
pub use exchanger::Exchanger;
pub use memory::{BLOCK_BYTES, Blocks, Memory, Pair, Range};
pub use page::{MAX_PAIRS, PAGE_BYTES, SharedHeader, SharedPage, SharedPair, Unserved, state};
pub use server::{HOST_PEER, Served, Server};
