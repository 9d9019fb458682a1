//! Looks on while a program runs, and says what its memory was like.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::class::MappingClass;
use super::summary::{MappingSummary, RunSummary};
use crate::observation::RegionObservation;
use crate::page::{PAGES_PER_REGION, Region};

/// Regions that are remembered of one program: 64 GiB, in 2 MiB of memory. What lies beyond is not learnt from.
const MOST_REGIONS: usize = 1 << 15;

/// Huge regions of a class that are looked into for zeros, of those whose touches are known and of the others: 32 MiB
/// each are read.
const LOOKED_INTO: usize = 16;

/// How long a program has to fill a region before it is looked into.
const TO_FILL: Duration = Duration::from_secs(1);

/// One mapping, and what was seen of its regions.
#[derive(Clone, Debug)]
pub struct MappingLook<'a> {
    /// Its class.
    pub class: MappingClass,
    /// Its addresses.
    pub range: Range<u64>,
    /// Its regions with at least one page, in address order.
    pub regions: &'a [RegionObservation],
}

/// What is known of one region.
#[derive(Clone, Copy, Debug)]
struct Seen {
    class: MappingClass,
    /// When it was first seen.
    touched: Duration,
    /// Base pages at the last look at which base pages mapped it.
    base_pages: Option<u16>,
    /// How many the program touched: what two looks found alike.
    known: Option<u16>,
    /// Whether it was huge at the last look.
    huge: bool,
    /// Its zero-filled base pages, once it was looked into.
    zeros: Option<u16>,
}

/// Looks on while one program runs.
#[derive(Clone, Debug, Default)]
pub struct Learner {
    regions: BTreeMap<Region, Seen>,
    resident: u64,
    began: Option<Duration>,
    latest: Duration,
}

impl Learner {
    /// Takes in one look at all mappings of the program, at the time `now`.
    pub fn look(&mut self, now: Duration, mappings: &[MappingLook<'_>]) {
        self.began.get_or_insert(now);
        self.latest = now;
        let mut resident = 0;
        for mapping in mappings {
            for seen in mapping.regions {
                resident += seen.resident_bytes();
                self.see(now, mapping.class, seen);
            }
        }
        self.resident = self.resident.max(resident);
    }

    fn see(&mut self, now: Duration, class: MappingClass, seen: &RegionObservation) {
        let room = self.regions.len() < MOST_REGIONS;
        let new = Seen {
            class,
            touched: now,
            base_pages: None,
            known: None,
            huge: false,
            zeros: None,
        };
        let known = match self.regions.entry(seen.region) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(_) if !room => return,
            std::collections::btree_map::Entry::Vacant(place) => place.insert(new),
        };
        known.class = class;
        known.huge = seen.is_huge();
        if known.huge {
            return;
        }
        if known.base_pages == Some(seen.mapped) {
            known.known = Some(seen.mapped);
        } else if known.known != Some(seen.mapped) {
            known.known = None;
        }
        if seen.mapped == PAGES_PER_REGION {
            // It cannot touch more.
            known.known = Some(seen.mapped);
        }
        known.base_pages = Some(seen.mapped);
    }

    /// Which huge regions to look into for zeros, of those that the program came to a while ago: spread over each class, some whose touches are known to be all and some
    /// whose are not, at most `LOOKED_INTO` of each in all.
    #[must_use]
    pub fn to_look_into(&self) -> Vec<Region> {
        let mut wanted: BTreeMap<(MappingClass, bool), (usize, Vec<Region>)> = BTreeMap::new();
        for (&region, seen) in self.regions.iter() {
            if !seen.huge || self.latest.saturating_sub(seen.touched) < TO_FILL {
                continue;
            }
            let full = match seen.known {
                None => false,
                Some(PAGES_PER_REGION) => true,
                Some(_) => continue,
            };
            let (done, left) = wanted.entry((seen.class, full)).or_default();
            match seen.zeros {
                Some(_) => *done += 1,
                None => left.push(region),
            }
        }
        let spread = |(done, left): (usize, Vec<Region>)| {
            let number = LOOKED_INTO.saturating_sub(done).min(left.len());
            let step = left.len().checked_div(number).unwrap_or(1).max(1);
            left.into_iter().step_by(step).take(number)
        };
        wanted.into_values().flat_map(spread).collect()
    }

    /// Takes in how many base pages of a region hold only zeros.
    pub fn looked_into(&mut self, region: Region, zeros: u16) {
        if let Some(seen) = self.regions.get_mut(&region) {
            seen.zeros = Some(zeros.min(PAGES_PER_REGION));
        }
    }

    /// Drops the counts of zeros, so that they are taken again: a program fills what it has touched.
    pub fn forget_zeros(&mut self) {
        for seen in self.regions.values_mut() {
            seen.zeros = None;
        }
    }

    /// What its memory was like until now.
    #[must_use]
    pub fn summary(&self) -> RunSummary {
        let mut classes: BTreeMap<MappingClass, Vec<Seen>> = BTreeMap::new();
        for seen in self.regions.values() {
            classes.entry(seen.class).or_default().push(*seen);
        }
        let began = self.began.unwrap_or_default();
        let huge_unknown = |seen: &&Seen| seen.huge && seen.known.is_none();
        let started_huge = self.regions.values().filter(huge_unknown).count();
        RunSummary {
            mappings: classes
                .into_iter()
                .map(|(class, regions)| summary(class, regions))
                .collect(),
            resident: self.resident,
            started_huge: started_huge * 2 > self.regions.len(),
            seconds: self.latest.saturating_sub(began).as_secs_f64(),
        }
    }
}

fn summary(class: MappingClass, mut regions: Vec<Seen>) -> MappingSummary {
    regions.sort_unstable_by_key(|seen| seen.touched);
    let first = regions.first().map_or(Duration::ZERO, |seen| seen.touched);
    let most = regions
        .get((regions.len() * 9 / 10).min(regions.len().saturating_sub(1)))
        .map_or(first, |seen| seen.touched);
    let known = || regions.iter().filter_map(|seen| seen.known);
    let zeros = |full: bool| {
        let counted = regions.iter().filter(|seen| match seen.known {
            None => !full,
            Some(known) => full && known == PAGES_PER_REGION,
        });
        share_of_zeros(counted.filter_map(|seen| seen.zeros))
    };
    MappingSummary {
        class,
        touched_regions: regions.len() as u64,
        known_regions: known().count() as u64,
        known_pages: known().map(u64::from).sum(),
        huge_regions: regions.iter().filter(|seen| seen.huge).count() as u64,
        filled_seconds: most.saturating_sub(first).as_secs_f64(),
        zeros_when_full: zeros(true),
        zeros_when_unknown: zeros(false),
    }
}

/// The share of these counts, out of whole regions. `None` without any.
fn share_of_zeros(counts: impl Iterator<Item = u16>) -> Option<f64> {
    let (mut regions, mut pages) = (0_u32, 0_u32);
    for count in counts {
        regions += 1;
        pages += u32::from(count);
    }
    let all = f64::from(regions) * f64::from(PAGES_PER_REGION);
    (regions > 0).then(|| f64::from(pages) / all)
}
