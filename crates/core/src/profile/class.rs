//! What stays the same of a mapping from one run of a program to the next: its kind and its size, not its address.

use serde::{Deserialize, Serialize};

/// What kind of memory a mapping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingKind {
    /// The heap that brk(2) grows.
    Heap,
    /// Other private anonymous memory.
    Anonymous,
    /// Shared memory.
    Shared,
}

/// Mappings of a program that are taken for alike: of one kind, and of a size between two powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MappingClass {
    /// Their kind.
    pub kind: MappingKind,
    /// The binary logarithm of their size in bytes, rounded down. 0 for the heap, which grows.
    pub size_log2: u8,
}

impl MappingClass {
    /// The class of a mapping of `bytes`.
    #[must_use]
    pub fn of(kind: MappingKind, bytes: u64) -> Self {
        let size_log2 = match kind {
            MappingKind::Heap => 0,
            // At most 63, which fits.
            _ => u8::try_from(bytes.max(1).ilog2()).unwrap_or(u8::MAX),
        };
        MappingClass { kind, size_log2 }
    }
}

impl std::fmt::Display for MappingClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            MappingKind::Heap => return f.write_str("heap"),
            MappingKind::Anonymous => "anonymous",
            MappingKind::Shared => "shared",
        };
        let least = 1_u64.checked_shl(self.size_log2.into()).unwrap_or(u64::MAX);
        write!(f, "{kind}, {} or more", crate::bytes::format(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_between_two_powers_of_two_are_alike() {
        let of = |bytes| MappingClass::of(MappingKind::Anonymous, bytes);
        assert_eq!(of(4 << 30), of((8 << 30) - 4096));
        assert_ne!(of(4 << 30), of(8 << 30));
        assert_eq!(of(0), of(1));
        assert_eq!(of(4 << 30).to_string(), "anonymous, 4 GiB or more");
        assert_eq!(of(u64::MAX).size_log2, 63);
    }

    #[test]
    fn a_heap_of_any_size_is_the_heap() {
        let of = |bytes| MappingClass::of(MappingKind::Heap, bytes);
        assert_eq!(of(1 << 20), of(1 << 34));
        assert_eq!(of(5).to_string(), "heap");
    }
}
