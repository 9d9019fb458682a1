//! How a recording lies in a file.
//!
//! | part | bytes | holds |
//! |---|---|---|
//! | magic | 8 | `MEGAREC` and a newline |
//! | version | 4 | [`VERSION`] |
//! | blocks | any | first one of the header, then some of looks, at the end one that says how many looks there are |
//!
//! Each block is a frame ([`block`]): its kind, its lengths, a CRC-32 of all that, and its content, deflated. Numbers in
//! frames are little-endian. The content of the header is JSON, and says the version once more (`header.rs`); that of looks and of the end is postcard's
//! (`wire.rs`). A block is readable without those before it, so damage costs what lies behind it and nothing before.
//!
//! A recording that was cut off has no end block.

pub(crate) mod acted;
pub mod block;
pub(crate) mod called;
pub(crate) mod compacted;
pub(crate) mod header;
pub(crate) mod wire;

/// How a recording begins.
pub const MAGIC: [u8; 8] = *b"MEGAREC\n";
/// The version that this program writes.
pub const VERSION: u32 = 7;
/// The oldest that it reads. Version 1 has no actions, version 2 no calls, version 3 not what was exchanged, version 4 not what
/// compaction did, version 5 no CPU time of processes, and version 6 not what was accessed in a moment.
pub const OLDEST: u32 = 1;

/// The place of a value in a list of all.
fn place<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let place = all.iter().position(|one| one == value);
    place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(u8::MAX)
}
