//! What carries exchanges out: the VMM's own process by `UFFDIO_MOVE` ([`Exchanger`](crate::Exchanger)), or a kernel that exchanges
//! pages of any process.

use crate::Refusal;
use crate::memory::{Blocks, Memory};

/// Exchanges what is behind pairs of blocks of one guest's memory.
pub trait Backend {
    /// The guest's memory. What a guest asks for outside of it is refused before it gets here.
    fn memory(&self) -> &Memory;

    /// How many pairs are taken together, at least 1. None of them can be cancelled any more while the others are exchanged.
    fn at_once(&self) -> usize;

    /// Exchanges the contents of each pair. A pair that is refused is as before. Returns one result for each.
    fn carry_out(&self, pairs: &[Blocks]) -> Vec<Result<(), Refusal>>;
}
