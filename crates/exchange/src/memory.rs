//! A guest's memory, and what of a request lies within it. Computes only.

use std::collections::HashSet;

use crate::{Error, Refusal};

/// What is exchanged: 2 MiB, aligned.
pub const BLOCK_BYTES: u64 = 1 << 21;

/// A part of the guest's memory: where the guest sees it, and where this process maps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    guest: u64,
    bytes: u64,
    host: usize,
}

impl Range {
    /// `bytes` of guest memory at guest-physical `guest`, mapped at `host`. What is not a whole aligned block is never
    /// exchanged.
    ///
    /// # Safety
    ///
    /// As long as an [`Exchanger`](crate::Exchanger) over this range lives, the memory is mapped there and is the guest's:
    /// nothing else in this process relies on its contents, and no Rust reference points into it.
    #[must_use]
    pub unsafe fn new(guest: u64, bytes: u64, host: usize) -> Self {
        Self { guest, bytes, host }
    }

    /// Guest-physical address.
    #[must_use]
    pub fn guest(&self) -> u64 {
        self.guest
    }

    /// Length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Address in this process.
    #[must_use]
    pub fn host(&self) -> usize {
        self.host
    }

    fn end(&self) -> u64 {
        self.guest.saturating_add(self.bytes)
    }

    /// The address and length in this process of its whole blocks.
    pub(crate) fn blocks(&self) -> (usize, usize) {
        let first = self.guest.next_multiple_of(BLOCK_BYTES);
        let end = self.end() / BLOCK_BYTES * BLOCK_BYTES;
        let skipped = to_usize(first - self.guest);
        (self.host + skipped, to_usize(end.saturating_sub(first)))
    }

    fn check(&self) -> Result<(), Error> {
        let bad = |reason| {
            Err(Error::BadRange {
                guest: self.guest,
                bytes: self.bytes,
                host: self.host,
                reason,
            })
        };
        let past = u64::MAX - 2 * BLOCK_BYTES;
        if self
            .guest
            .checked_add(self.bytes)
            .is_none_or(|end| end > past)
            || (self.host as u64)
                .checked_add(self.bytes)
                .is_none_or(|end| end > past)
        {
            return bad("it ends beyond the address space");
        }
        if self.guest % BLOCK_BYTES != self.host as u64 % BLOCK_BYTES {
            return bad(
                "its two addresses differ modulo 2 MiB, so no huge page of the host is one of the guest; map it aligned",
            );
        }
        Ok(())
    }
}

/// 64-bit machines only: `UFFDIO_MOVE` of huge pages is of use there.
fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Two guest-physical addresses of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// One block.
    pub source: u64,
    /// The other.
    pub target: u64,
}

/// A block in this process that lies in the guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Block(usize);

impl Block {
    pub(crate) fn address(self) -> usize {
        self.0
    }
}

/// Two blocks of a guest's memory that a request may have exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    pub(crate) source: Block,
    pub(crate) target: Block,
}

impl Blocks {
    /// Their addresses in the process that has the guest's memory: the source's, the target's.
    #[must_use]
    pub fn addresses(self) -> (usize, usize) {
        (self.source.0, self.target.0)
    }
}

/// All ranges of a guest, ordered by guest-physical address.
#[derive(Debug)]
pub struct Memory {
    ranges: Vec<Range>,
}

impl Memory {
    /// Of a guest in another process: for each range its guest-physical address, its length, and where that process maps it.
    /// Nothing here touches it, so nobody promises anything.
    ///
    /// # Errors
    ///
    /// Ranges overlap, are not aligned alike, or lie beyond all addresses.
    pub fn elsewhere(ranges: impl IntoIterator<Item = (u64, u64, usize)>) -> Result<Self, Error> {
        let ranges = ranges
            .into_iter()
            .map(|(guest, bytes, host)| Range { guest, bytes, host });
        Self::new(ranges.collect())
    }

    /// Whether a block of this process lies in it.
    pub(crate) fn has(&self, block: Block) -> bool {
        self.ranges.iter().any(|range| {
            let (start, bytes) = range.blocks();
            block.0 >= start && block.0 - start < bytes
        })
    }

    pub(crate) fn new(mut ranges: Vec<Range>) -> Result<Self, Error> {
        ranges.retain(|range| range.bytes > 0);
        for range in &ranges {
            range.check()?;
        }
        overlap_free(
            &mut ranges,
            |range| (range.host as u64, range.bytes),
            "two ranges share memory of this process",
        )?;
        overlap_free(
            &mut ranges,
            |range| (range.guest, range.bytes),
            "two ranges have the same guest-physical address",
        )?;
        Ok(Self { ranges })
    }

    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// What to exchange for each pair, or why it is refused. No block is in two pairs that are not refused.
    pub(crate) fn plan(&self, pairs: &[Pair]) -> Vec<Result<Blocks, Refusal>> {
        let mut used = HashSet::with_capacity(2 * pairs.len());
        pairs
            .iter()
            .map(|pair| {
                let source = self.block(pair.source)?;
                let target = self.block(pair.target)?;
                if source == target || used.contains(&source) || used.contains(&target) {
                    return Err(Refusal::Invalid);
                }
                used.extend([source, target]);
                Ok(Blocks { source, target })
            })
            .collect()
    }

    fn block(&self, guest: u64) -> Result<Block, Refusal> {
        if !guest.is_multiple_of(BLOCK_BYTES) {
            return Err(Refusal::Invalid);
        }
        let after = self.ranges.partition_point(|range| range.guest <= guest);
        let range = after
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .ok_or(Refusal::NotGuest)?;
        let offset = guest - range.guest;
        if offset
            .checked_add(BLOCK_BYTES)
            .is_none_or(|end| end > range.bytes)
        {
            return Err(Refusal::NotGuest);
        }
        Ok(Block(range.host + to_usize(offset)))
    }
}

/// Sorts the ranges by the address that `part` gives, and refuses two that overlap there.
fn overlap_free(
    ranges: &mut [Range],
    part: impl Fn(&Range) -> (u64, u64),
    reason: &'static str,
) -> Result<(), Error> {
    ranges.sort_unstable_by_key(|range| part(range).0);
    for pair in ranges.windows(2) {
        let [low, high] = pair else { continue };
        let (start, bytes) = part(low);
        if start + bytes > part(high).0 {
            return Err(Error::BadRange {
                guest: high.guest,
                bytes: high.bytes,
                host: high.host,
                reason,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(guest: u64, bytes: u64, host: usize) -> Range {
        Range { guest, bytes, host }
    }

    /// Ranges as machines have them: with gaps, some of odd length, in any order in this process.
    fn memories() -> impl Strategy<Value = Memory> {
        prop::collection::vec((0_u64..4, 1_u64..9, 0_u64..513), 1..5).prop_map(|parts| {
            let mut guest = 0;
            let mut host = 0x7000_0000_0000_usize;
            let mut ranges = Vec::new();
            for (gap, blocks, pages) in parts {
                guest += gap * BLOCK_BYTES;
                let bytes = blocks * BLOCK_BYTES + pages * 4096;
                host -= to_usize((blocks + 5) * BLOCK_BYTES);
                ranges.push(range(guest, bytes, host));
                guest += (blocks + 1) * BLOCK_BYTES;
            }
            Memory::new(ranges).unwrap()
        })
    }

    fn addresses() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => (0_u64..40).prop_map(|block| block * BLOCK_BYTES),
            1 => 0_u64..40 * BLOCK_BYTES,
            1 => any::<u64>(),
            1 => any::<u64>().prop_map(|address| address / BLOCK_BYTES * BLOCK_BYTES),
        ]
    }

    proptest! {
        #[test]
        fn what_is_planned_is_whole_and_the_guests_and_used_once(
            memory in memories(),
            pairs in prop::collection::vec((addresses(), addresses()), 0..60),
        ) {
            let pairs: Vec<Pair> = pairs.into_iter().map(|(source, target)| Pair { source, target }).collect();
            let mut used = HashSet::new();
            for (pair, plan) in pairs.iter().zip(memory.plan(&pairs)) {
                let mine = |guest: u64| memory.ranges.iter().find(|range| {
                    guest >= range.guest && u128::from(guest) + u128::from(BLOCK_BYTES) <= u128::from(range.end())
                });
                match plan {
                    Ok(Blocks { source, target }) => {
                        for (guest, block) in [(pair.source, source), (pair.target, target)] {
                            let range = mine(guest).expect("a block of the guest");
                            prop_assert_eq!(block.0 - range.host, to_usize(guest - range.guest));
                            prop_assert_eq!(block.0 % to_usize(BLOCK_BYTES), 0);
                            prop_assert!(memory.has(block));
                            prop_assert!(used.insert(block));
                        }
                    }
                    Err(Refusal::NotGuest) => {
                        prop_assert!(mine(pair.source).is_none() || mine(pair.target).is_none());
                    }
                    Err(Refusal::Invalid) => {
                        let aligned = pair.source % BLOCK_BYTES == 0 && pair.target % BLOCK_BYTES == 0;
                        let again = pairs.iter().filter(|other| {
                            [other.source, other.target].iter().any(|a| *a == pair.source || *a == pair.target)
                        }).count() > 1;
                        prop_assert!(!aligned || again || pair.source == pair.target);
                    }
                    Err(other) => prop_assert!(false, "a plan never says {other:?}"),
                }
            }
        }
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        let block = to_usize(BLOCK_BYTES);
        let bad = [
            vec![range(0, BLOCK_BYTES, 4096)],
            vec![range(u64::MAX - 4096, BLOCK_BYTES, 0)],
            vec![range(0, u64::MAX, block)],
            vec![
                range(0, 2 * BLOCK_BYTES, block),
                range(BLOCK_BYTES, BLOCK_BYTES, 8 * block),
            ],
            vec![
                range(0, 2 * BLOCK_BYTES, block),
                range(4 * BLOCK_BYTES, BLOCK_BYTES, 2 * block),
            ],
        ];
        for ranges in bad {
            assert!(Memory::new(ranges.clone()).is_err(), "{ranges:?}");
        }
    }
}
