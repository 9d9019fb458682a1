//! What the kernel is set to do with huge and giant pages.

use std::time::Duration;

/// The mode of transparent huge pages (`/sys/kernel/mm/transparent_hugepage/enabled`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thp {
    /// Base pages only.
    Never,
    /// Huge pages where a program asks for them.
    Madvise,
    /// Huge pages wherever one fits.
    Always,
}

/// When a fault compacts memory for a huge page (`.../defrag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defrag {
    /// Never.
    Never,
    /// Where a program asked for huge pages: the default since Linux 4.6.
    Madvise,
    /// At each fault: the default before.
    Always,
}

/// Which chunk is emptied for a giant page (`/sys/kernel/debug/anon_pud/sequential` of the patched kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkChoice {
    /// The one with the least in it (Trident's smart compaction).
    LeastOccupied,
    /// One after the other, as Linux does (Trident's normal compaction).
    Sequential,
}

/// How khugepaged works (`.../khugepaged/`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KhugepagedSettings {
    /// Time between two rounds (`scan_sleep_millisecs`).
    pub sleep: Duration,
    /// Base pages that it looks at in a round (`pages_to_scan`).
    pub pages: u32,
    /// Base pages of a region that may be missing (`max_ptes_none`).
    pub most_missing: u16,
    /// Whether it makes giant pages too, as Trident's does.
    pub makes_giant: bool,
}

impl Default for KhugepagedSettings {
    /// Linux's: 10 s, 4096 pages, 511.
    fn default() -> Self {
        KhugepagedSettings {
            sleep: Duration::from_secs(10),
            pages: 4096,
            most_missing: 511,
            makes_giant: false,
        }
    }
}

/// All settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where huge pages are used.
    pub thp: Thp,
    /// Where a fault compacts for one.
    pub defrag: Defrag,
    /// Whether faults map huge pages at all. Trident's ablation without them does not.
    pub huge_faults: bool,
    /// Whether faults map giant pages where one fits and a chunk is free (Trident, section 5.1.2).
    pub giant_faults: bool,
    /// Whether promotion to giant pages is possible: the patched kernel.
    pub giant_pages: bool,
    /// Which chunk is emptied for one.
    pub chunk_choice: ChunkChoice,
    /// Whether a thread zeroes free chunks ahead (Trident's asynchronous zero-fill), one after the other. A giant fault that finds one
    /// does not pay for the zeroing; one that finds none does.
    pub zeroes_ahead: bool,
    /// Whether this is a guest whose hypervisor exchanges the memory behind huge pages instead of letting them be copied, for
    /// giant pages and where chunks are emptied for them (Trident, section 6).
    pub exchanges: bool,
}

impl Default for Settings {
    /// A distribution's defaults: `madvise` for both; no giant pages.
    fn default() -> Self {
        Settings {
            thp: Thp::Madvise,
            defrag: Defrag::Madvise,
            huge_faults: true,
            giant_faults: false,
            giant_pages: false,
            chunk_choice: ChunkChoice::LeastOccupied,
            zeroes_ahead: false,
            exchanges: false,
        }
    }
}
