//! A process of the fake kernel: what it has mapped, and by which pages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mega_core::{HUGE_PAGE_SIZE, PAGES_PER_REGION, Region, Span};

/// One region of a fake process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FakeRegion {
    /// Base pages mapped, 0 to 512.
    pub mapped: u16,
    /// Base pages accessed.
    pub accessed: u16,
    /// Base pages that hold only zeros.
    pub zero_filled: u16,
    /// Base pages in swap.
    pub swapped: u16,
    /// Whether a huge page maps it.
    pub huge: bool,
    /// Pinned or isolated: collapse answers `EAGAIN`, and goes on.
    pub busy: bool,
    /// Shared after fork: a split succeeds without effect.
    pub shared: bool,
}

/// One mapping of a fake process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeMapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// The permissions and all that follows in `/proc/PID/maps`.
    pub line: String,
    /// `MADV_NOHUGEPAGE`: collapse answers `EINVAL`.
    pub no_huge: bool,
    /// `mlock`: cold answers `EINVAL`.
    pub locked: bool,
}

/// A process of the fake kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FakeProcess {
    /// Field 22 of its stat.
    pub start_time: u64,
    /// Its parent.
    pub parent: u32,
    /// `PF_*`.
    pub flags: u64,
    /// Field 39 of its stat.
    pub processor: u32,
    /// Differs for another program.
    pub layout: u64,
    /// In address order.
    pub mappings: Vec<FakeMapping>,
    /// By their first address.
    pub regions: BTreeMap<u64, FakeRegion>,
    /// Spans that a giant page maps, by their first address.
    pub giants: BTreeSet<u64>,
}

impl FakeProcess {
    /// A process with one private anonymous mapping of fully mapped regions.
    #[must_use]
    pub fn with_regions(start_time: u64, start: u64, count: u64) -> Self {
        let mut process = FakeProcess {
            start_time,
            parent: 1,
            ..FakeProcess::default()
        };
        process.map(start, count);
        process
    }

    /// Adds a private anonymous mapping of fully mapped regions.
    pub fn map(&mut self, start: u64, count: u64) {
        self.mappings.push(FakeMapping {
            range: start..start + count * HUGE_PAGE_SIZE,
            line: "rw-p 00000000 00:00 0".to_owned(),
            no_huge: false,
            locked: false,
        });
        for index in 0..count {
            let region = FakeRegion {
                mapped: PAGES_PER_REGION,
                ..FakeRegion::default()
            };
            self.regions.insert(start + index * HUGE_PAGE_SIZE, region);
        }
    }

    /// Whether a giant page maps the region.
    pub(super) fn is_giant(&self, region: Region) -> bool {
        self.giants.contains(&Span::of(region).start())
    }

    pub(super) fn mapping(&self, address: u64) -> Option<&FakeMapping> {
        self.mappings
            .iter()
            .find(|mapping| mapping.range.contains(&address))
    }
}
