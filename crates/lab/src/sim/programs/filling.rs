//! Memory that a program maps in pieces and fills, page after page.

use mega_core::BASE_PAGE_SIZE;
use mega_sim::Memory;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;

use super::AT_ONCE;

/// So many bytes, by pieces of one size but perhaps for the first ones.
#[derive(Clone, Debug)]
pub(in super::super) struct Filling {
    bytes: u64,
    piece: u64,
    /// Sizes of the first pieces, where they are others.
    first: Vec<u64>,
    /// The first address of each piece.
    pieces: Vec<u64>,
    /// Bytes that were touched.
    filled: u64,
}

impl Filling {
    /// Nothing yet of `bytes`, by pieces of `piece` bytes, the last one perhaps shorter. Both are rounded up to pages.
    pub(in super::super) fn new(bytes: u64, piece: u64) -> Self {
        let piece = piece.next_multiple_of(BASE_PAGE_SIZE).max(BASE_PAGE_SIZE);
        Filling {
            bytes: bytes.next_multiple_of(BASE_PAGE_SIZE),
            piece,
            first: Vec::new(),
            pieces: Vec::new(),
            filled: 0,
        }
    }

    /// The same with first pieces of other sizes, which are rounded up to pages.
    pub(super) fn beginning_with(self, first: &[u64]) -> Self {
        let pages = |bytes: &u64| bytes.next_multiple_of(BASE_PAGE_SIZE).max(BASE_PAGE_SIZE);
        let first = first.iter().map(pages).collect();
        Filling { first, ..self }
    }

    /// The piece that lies so many bytes into it, and how far into the piece.
    fn place(&self, mut offset: u64) -> (u64, u64) {
        for (place, size) in (0..).zip(&self.first) {
            if offset < *size {
                return (place, offset);
            }
            offset -= size;
        }
        let before = self.first.len() as u64;
        (before + offset / self.piece, offset % self.piece)
    }

    /// Touches some more; whether all is touched.
    pub(in super::super) fn go_on(&mut self, memory: &mut Memory<'_>) -> Result<bool, Fault> {
        for _ in 0..AT_ONCE {
            if self.filled >= self.bytes {
                return Ok(true);
            }
            let (place, _) = self.place(self.filled);
            if place == self.pieces.len() as u64 {
                let bytes = self.size(place).min(self.bytes - self.filled);
                self.pieces.push(memory.map(bytes, Advice::None));
            }
            memory.touch(self.address(self.filled))?;
            self.filled += BASE_PAGE_SIZE;
        }
        Ok(self.filled >= self.bytes)
    }

    /// The address that lies so many bytes into it, of what is mapped.
    fn address(&self, offset: u64) -> u64 {
        let (place, within) = self.place(offset);
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let start = self.pieces.get(place).or(self.pieces.last());
        start.copied().unwrap_or(0) + within
    }

    /// Bytes of a piece that is not the last one.
    fn size(&self, place: u64) -> u64 {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        self.first.get(place).copied().unwrap_or(self.piece)
    }

    /// The pieces that are mapped: first address and bytes.
    pub(in super::super) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut before = 0;
        (0..).zip(&self.pieces).map(move |(place, &start)| {
            let bytes = self.size(place).min(self.bytes - before);
            before += bytes;
            (start, bytes)
        })
    }
}
