//! Memory that a program maps in pieces and fills, page after page.

use mega_core::BASE_PAGE_SIZE;
use mega_sim::Memory;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;

use super::AT_ONCE;

/// So many bytes, by pieces of one size.
#[derive(Clone, Debug)]
pub(in super::super) struct Filling {
    bytes: u64,
    piece: u64,
    /// The first address of each piece.
    pieces: Vec<u64>,
    /// Bytes that were touched.
    filled: u64,
}

impl Filling {
    /// Nothing yet of `bytes`, by pieces of `piece` bytes, the last one perhaps shorter. Both are rounded up to pages.
    pub(in super::super) fn new(bytes: u64, piece: u64) -> Self {
        Filling {
            bytes: bytes.next_multiple_of(BASE_PAGE_SIZE),
            piece: piece.next_multiple_of(BASE_PAGE_SIZE).max(BASE_PAGE_SIZE),
            pieces: Vec::new(),
            filled: 0,
        }
    }

    /// Touches some more; whether all is touched.
    pub(in super::super) fn go_on(&mut self, memory: &mut Memory<'_>) -> Result<bool, Fault> {
        for _ in 0..AT_ONCE {
            if self.filled >= self.bytes {
                return Ok(true);
            }
            let place = self.filled / self.piece;
            if place == self.pieces.len() as u64 {
                let bytes = self.piece.min(self.bytes - self.filled);
                self.pieces.push(memory.map(bytes, Advice::None));
            }
            memory.touch(self.address(self.filled))?;
            self.filled += BASE_PAGE_SIZE;
        }
        Ok(self.filled >= self.bytes)
    }

    /// The address that lies so many bytes into it, of what is mapped.
    fn address(&self, offset: u64) -> u64 {
        let piece = usize::try_from(offset / self.piece).unwrap_or(usize::MAX);
        let start = self.pieces.get(piece).or(self.pieces.last());
        start.copied().unwrap_or(0) + offset % self.piece
    }

    /// The pieces that are mapped: first address and bytes.
    pub(in super::super) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..).zip(&self.pieces).map(|(place, &start)| {
            let before: u64 = place * self.piece;
            (start, self.piece.min(self.bytes - before))
        })
    }
}
