//! Whether pages can be moved, after which the kernel groups them.

/// What kind of pages a block is for, and in which free list its free pages are (`enum migratetype` of Linux, without
/// `MIGRATE_HIGHATOMIC` and `MIGRATE_CMA`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mobility {
    /// Pages of the kernel's own that nothing can move or free.
    Unmovable,
    /// Pages that can be moved: those of programs and of the page cache.
    Movable,
    /// Pages of the kernel's own that can be freed when memory is short, but not moved.
    Reclaimable,
    /// Free pages that nobody may get: their block is being emptied.
    Isolated,
}

impl Mobility {
    /// Free lists for each order.
    pub(super) const COUNT: usize = 4;

    /// Whose blocks an allocation takes when its own kind has none, the first choice first (`fallbacks` in
    /// `mm/page_alloc.c` of Linux 6.12).
    pub(super) const fn fallbacks(self) -> &'static [Mobility] {
        match self {
            Mobility::Unmovable => &[Mobility::Reclaimable, Mobility::Movable],
            Mobility::Movable => &[Mobility::Reclaimable, Mobility::Unmovable],
            Mobility::Reclaimable => &[Mobility::Unmovable, Mobility::Movable],
            Mobility::Isolated => &[],
        }
    }

    /// Whether free blocks of this kind may become one area with blocks of another (`migratetype_is_mergeable`).
    pub(super) const fn is_mergeable(self) -> bool {
        !matches!(self, Mobility::Isolated)
    }
}
