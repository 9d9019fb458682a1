//! How much of a process's memory huge pages map, what the rest is, and what it would take to have more.
//!
//! Coverage is the part of the memory with a physical page, in regions that a huge page can map, that huge or giant pages
//! do map.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observation::RegionObservation;
use crate::page::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION};

/// What is in the way of a huge page in a region that base pages map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// Nothing but a free block, and that somebody promotes it.
    None,
    /// A huge page would add memory: not all of the region's base pages have a physical page.
    PartlyMapped,
    /// Some of it is in swap.
    Swapped,
    /// Base pages are shared with another process since a fork.
    SharedSinceFork,
    /// The program has switched huge pages off for itself.
    SwitchedOff,
}

impl Obstacle {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Obstacle::None => "none",
            Obstacle::PartlyMapped => "partly_mapped",
            Obstacle::Swapped => "swapped",
            Obstacle::SharedSinceFork => "shared_since_fork",
            Obstacle::SwitchedOff => "switched_off",
        }
    }

    /// What can be seen in the region itself.
    #[must_use]
    pub const fn seen_in(region: &RegionObservation) -> Self {
        if region.swapped > 0 {
            Obstacle::Swapped
        } else if region.mapped < PAGES_PER_REGION {
            Obstacle::PartlyMapped
        } else {
            Obstacle::None
        }
    }

    /// Whether mega would promote such a region.
    #[must_use]
    pub const fn can_be_promoted(self) -> bool {
        matches!(self, Obstacle::None | Obstacle::PartlyMapped)
    }
}

/// Regions that base pages map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How many.
    pub regions: u64,
    /// Bytes of them that have a physical page.
    pub bytes: u64,
}

/// How much of some memory huge pages map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes that have a physical page.
    pub mapped: u64,
    /// Bytes of that in huge or giant pages.
    pub huge: u64,
    /// The rest, by what is in the way.
    pub rest: BTreeMap<Obstacle, Part>,
    /// Of the regions that could be promoted, how many have each number of base pages mapped.
    promotable: BTreeMap<u16, u64>,
}

impl Coverage {
    /// Adds a region. `obstacle` counts where base pages map it.
    pub fn add(&mut self, region: &RegionObservation, obstacle: Obstacle) {
        let bytes = region.resident_bytes();
        self.mapped += bytes;
        if region.is_huge() {
            self.huge += bytes;
            return;
        }
        let part = self.rest.entry(obstacle).or_default();
        part.regions += 1;
        part.bytes += bytes;
        if obstacle.can_be_promoted() {
            *self.promotable.entry(region.mapped).or_default() += 1;
        }
    }

    /// Adds memory that no huge page can map, though it is of the kind that huge pages are for.
    pub fn add_out_of_reach(&mut self, bytes: u64) {
        self.mapped += bytes;
    }

    /// The part in huge pages, 0 to 1. `None` where there is no such memory.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn ratio(&self) -> Option<f64> {
        (self.mapped > 0).then(|| self.huge as f64 / self.mapped as f64)
    }

    /// Whether at least `least` of it, 0 to 1, is in huge pages. Where there is no memory, all of it is.
    #[must_use]
    pub fn reaches(&self, least: f64) -> bool {
        self.ratio().is_none_or(|ratio| ratio >= least)
    }

    /// How many regions have to be promoted until `least` is reached, the fullest first; each takes a free block. `None`
    /// where it is not reached even then.
    #[must_use]
    pub fn promotions_to(&self, least: f64) -> Option<u64> {
        let mut after = Coverage {
            mapped: self.mapped,
            huge: self.huge,
            ..Coverage::default()
        };
        let mut promoted = 0;
        for (&mapped, &regions) in self.promotable.iter().rev() {
            let added = HUGE_PAGE_SIZE - u64::from(mapped) * BASE_PAGE_SIZE;
            for _ in 0..regions {
                if after.reaches(least) {
                    return Some(promoted);
                }
                after.huge += HUGE_PAGE_SIZE;
                after.mapped += added;
                promoted += 1;
            }
        }
        after.reaches(least).then_some(promoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PageSize, Region};
    use proptest::prelude::*;

    fn region(mapped: u16, page_size: PageSize) -> RegionObservation {
        RegionObservation {
            region: Region::containing(0),
            mapped,
            accessed: 0,
            page_size,
            zero_filled: None,
            swapped: 0,
        }
    }

    fn of(regions: &[RegionObservation]) -> Coverage {
        let mut coverage = Coverage::default();
        for region in regions {
            coverage.add(region, Obstacle::seen_in(region));
        }
        coverage
    }

    #[test]
    fn the_rest_is_told_by_what_is_in_the_way() {
        let swapped = RegionObservation {
            swapped: 1,
            ..region(300, PageSize::Base)
        };
        let coverage = of(&[
            region(512, PageSize::Huge),
            region(512, PageSize::Giant),
            region(512, PageSize::Base),
            region(256, PageSize::Base),
            swapped,
        ]);
        assert_eq!(coverage.huge, 4 << 20);
        assert_eq!(coverage.mapped, (7 << 20) + 300 * 4096);
        let part = |regions, bytes| Part { regions, bytes };
        assert_eq!(
            coverage.rest,
            BTreeMap::from([
                (Obstacle::None, part(1, 2 << 20)),
                (Obstacle::PartlyMapped, part(1, 1 << 20)),
                (Obstacle::Swapped, part(1, 300 * 4096)),
            ])
        );
    }

    #[test]
    fn the_fullest_regions_are_counted_first() {
        let coverage = of(&[
            region(512, PageSize::Base),
            region(512, PageSize::Base),
            region(1, PageSize::Base),
            region(512, PageSize::Huge),
        ]);
        assert_eq!(coverage.promotions_to(0.3), Some(0));
        assert_eq!(coverage.promotions_to(0.6), Some(1));
        assert_eq!(coverage.promotions_to(0.99), Some(2));
        assert_eq!(coverage.promotions_to(1.0), Some(3));
    }

    #[test]
    fn what_is_in_the_way_can_make_it_unreachable() {
        let mut coverage = of(&[region(512, PageSize::Huge)]);
        coverage.add(&region(512, PageSize::Base), Obstacle::SharedSinceFork);
        assert_eq!(coverage.promotions_to(0.5), Some(0));
        assert_eq!(coverage.promotions_to(0.51), None);
        let mut nothing = Coverage::default();
        assert_eq!(
            (nothing.ratio(), nothing.promotions_to(1.0)),
            (None, Some(0))
        );
        nothing.add_out_of_reach(1);
        assert_eq!(
            (nothing.ratio(), nothing.promotions_to(0.1)),
            (Some(0.0), None)
        );
    }

    #[test]
    fn names_are_as_serialized() {
        for obstacle in [
            Obstacle::None,
            Obstacle::PartlyMapped,
            Obstacle::Swapped,
            Obstacle::SharedSinceFork,
            Obstacle::SwitchedOff,
        ] {
            assert_eq!(serde_json::to_value(obstacle).unwrap(), obstacle.name());
        }
    }

    proptest! {
        #[test]
        fn after_so_many_promotions_it_is_reached_and_not_before(
            mapped in prop::collection::vec((1..=512_u16, any::<bool>()), 0..60),
            least in 0.0..=1.0_f64,
        ) {
            let mut regions: Vec<RegionObservation> = mapped
                .into_iter()
                .map(|(mapped, huge)| if huge { region(512, PageSize::Huge) } else { region(mapped, PageSize::Base) })
                .collect();
            let wanted = of(&regions).promotions_to(least);
            prop_assert!(wanted.is_some(), "all can be promoted");
            regions.sort_by_key(|region| std::cmp::Reverse(region.mapped));
            let mut promoted = 0;
            for index in 0..regions.len() {
                if of(&regions).reaches(least) {
                    break;
                }
                if !regions[index].is_huge() {
                    regions[index] = region(512, PageSize::Huge);
                    promoted += 1;
                }
            }
            prop_assert!(of(&regions).reaches(least));
            prop_assert_eq!(wanted, Some(promoted));
        }
    }
}
