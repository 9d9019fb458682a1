//! What is remembered of a program, how a run changes it, and what it says of the next run.

use serde::{Deserialize, Serialize};

use super::class::MappingClass;
use super::key::Key;
use super::summary::{MappingSummary, RunSummary};
use crate::page::{HUGE_PAGE_SIZE, PAGES_PER_REGION};
use crate::worth::Estimate;

/// The version of a [`Profile`]'s form. It changes when a field changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// The share of memory that huge pages may waste: pages inside of them that the program does not touch.
pub const WASTE_ALLOWED: f64 = 0.02;

/// How soon nine in ten regions have to be touched for huge pages from the start, in seconds. What fills up more slowly
/// is promoted in time anyway.
pub const FILLS_SOON: f64 = 60.0;

/// Bytes below which a class of mappings is left to base pages: the second-level TLB of today's processors reaches about
/// as far with base pages (1,536 to 2,048 entries, 6 to 8 MiB).
pub const LEAST_TOUCHED: u64 = 8 << 20;

/// Classes that a profile keeps; those with the least memory go first.
const MOST_CLASSES: usize = 16;

/// Regions whose touched pages must be known before a class is judged.
const LEAST_KNOWN: u64 = 2;

/// Doublings of the time for which base pages are kept after waste: 64 runs at most.
const MOST_DOUBLINGS: u32 = 6;

/// What is remembered of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The version of this form.
    pub version: u32,
    /// Which program.
    #[serde(flatten)]
    pub key: Key,
    /// Runs that it learnt from.
    pub runs: u64,
    /// The most that was resident in the last run with base pages at first, in bytes. `None` before one.
    pub resident_base: Option<u64>,
    /// The same of the last run with huge pages from the start.
    pub resident_huge: Option<u64>,
    /// The share of its CPU time that huge pages would save, as measured in the last run with base pages at first. `None` where none
    /// was measured.
    #[serde(default)]
    pub saved_share: Option<Estimate>,
    /// How long the last run was looked at, in seconds. `None` where that was not kept.
    #[serde(default)]
    pub lived_seconds: Option<f64>,
    /// Each class of mappings, in order.
    pub mappings: Vec<MappingProfile>,
}

/// What is remembered of one class of mappings. All shares are 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappingProfile {
    /// Which class.
    pub class: MappingClass,
    /// Memory that the program touched in the last run, in bytes, by whole regions.
    pub touched: u64,
    /// The share of base pages that it touched in the regions in which it touched any. `None` where it was never seen.
    pub filled: Option<f64>,
    /// How long it took to touch nine in ten of its regions, in seconds.
    pub filled_seconds: f64,
    /// The share that was huge at the end.
    pub ended_huge: f64,
    /// The share of zero-filled base pages in memory that the program touched whole. `None` where it was never seen.
    pub zeros: Option<f64>,
    /// The share that huge pages from the start wasted in the last run that had them. `None` before one.
    pub waste: Option<f64>,
    /// How often huge pages from the start turned out as waste.
    pub wrong: u32,
    /// Runs for which base pages are kept, since they did.
    pub base_for: u32,
}

/// What page faults should take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "faults", content = "why")]
pub enum Verdict {
    /// Huge pages from the start.
    Huge,
    /// Base pages, and promotion later.
    Base(Reason),
}

/// Why faults should take base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nothing is known of such memory.
    Unknown,
    /// There is too little of it ([`LEAST_TOUCHED`]).
    Small,
    /// The program leaves pages untouched in the regions that it uses.
    Sparse,
    /// It fills up slowly ([`FILLS_SOON`]).
    Slow,
    /// Huge pages from the start were wrong lately.
    Wasted,
}

impl Reason {
    /// As a person reads it.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Reason::Unknown => "not known yet",
            Reason::Small => "too small",
            Reason::Sparse => "sparse",
            Reason::Slow => "fills up slowly",
            Reason::Wasted => "huge pages were wrong",
        }
    }
}

impl Profile {
    /// A profile of a program that was never seen.
    #[must_use]
    pub fn new(key: Key) -> Self {
        Profile {
            version: VERSION,
            key,
            runs: 0,
            resident_base: None,
            resident_huge: None,
            saved_share: None,
            lived_seconds: None,
            mappings: Vec::new(),
        }
    }

    /// What faults in mappings of this class should take.
    #[must_use]
    pub fn verdict(&self, class: MappingClass) -> Verdict {
        let known = self.mappings.iter().find(|known| known.class == class);
        known.map_or(Verdict::Base(Reason::Unknown), MappingProfile::verdict)
    }

    /// Bytes that the program touched in mappings of this class last time, by whole regions.
    #[must_use]
    pub fn touched(&self, class: MappingClass) -> u64 {
        let known = self.mappings.iter().find(|known| known.class == class);
        known.map_or(0, |known| known.touched)
    }

    /// The classes in which faults should take huge pages.
    pub fn huge_classes(&self) -> impl Iterator<Item = MappingClass> {
        let huge = self
            .mappings
            .iter()
            .filter(|known| known.verdict() == Verdict::Huge);
        huge.map(|known| known.class)
    }

    /// Whether it pays to promote a region that the program has begun with base pages: the program stands still for `seconds`, and
    /// for as long as it lives it saves the region's share of what huge pages save. It is taken to live as long as last time; now it
    /// is `age` seconds old. Nothing pays where either is not known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn promotion_pays(&self, age: f64, seconds: f64) -> bool {
        let (Some(saved), Some(lived)) = (self.saved_share, self.lived_seconds) else {
            return false;
        };
        let huge = self
            .mappings
            .iter()
            .filter(|known| known.verdict() == Verdict::Huge);
        let touched: u64 = huge.map(|known| known.touched).sum();
        let regions = (touched / HUGE_PAGE_SIZE).max(1) as f64;
        saved.value / regions * (lived - age) > seconds
    }

    /// What faults should take where nothing tells one mapping from the other, as under the THP mode `always`: huge pages
    /// if they are right for a class, were wrong for none, and waste no more than [`WASTE_ALLOWED`] in all.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn verdict_as_a_whole(&self) -> Verdict {
        if self.mappings.iter().any(|known| known.base_for > 0) {
            return Verdict::Base(Reason::Wasted);
        }
        if self.huge_classes().next().is_none() {
            return Verdict::Base(Reason::Unknown);
        }
        let (mut touched, mut used) = (0.0, 0.0);
        for known in &self.mappings {
            touched += known.touched as f64;
            used += known.touched as f64 * known.filled.unwrap_or_default();
        }
        if touched - used > WASTE_ALLOWED * used {
            return Verdict::Base(Reason::Sparse);
        }
        Verdict::Huge
    }

    /// Learns from a run. Returns the classes that the profile was wrong about.
    pub fn learn(&mut self, run: &RunSummary) -> Vec<MappingClass> {
        self.runs = self.runs.saturating_add(1);
        let resident = if run.started_huge {
            &mut self.resident_huge
        } else {
            &mut self.resident_base
        };
        *resident = Some(run.resident);
        self.lived_seconds = Some(run.seconds);
        let chosen: Vec<MappingClass> = self.huge_classes().collect();
        for known in &mut self.mappings {
            known.base_for = known.base_for.saturating_sub(1);
        }
        let mut wrong = Vec::new();
        for summary in run.mappings.iter().filter(|one| one.touched_regions > 0) {
            let place = self
                .mappings
                .iter()
                .position(|known| known.class == summary.class);
            let known = match place {
                Some(place) => &mut self.mappings[place],
                None => {
                    self.mappings.push(MappingProfile::new(summary.class));
                    let last = self.mappings.len() - 1;
                    &mut self.mappings[last]
                }
            };
            if known.learn(summary, chosen.contains(&summary.class)) {
                wrong.push(summary.class);
            }
        }
        // What was wrong is remembered though there is little of it.
        self.mappings
            .sort_by_key(|known| std::cmp::Reverse((known.base_for > 0, known.touched)));
        self.mappings.truncate(MOST_CLASSES);
        self.mappings.sort_by_key(|known| known.class);
        wrong
    }

    /// Learns what share of its CPU time huge pages would save the program, as measured in that run. A run with huge pages from the
    /// start has no base pages left that would show it.
    pub fn learn_gain(&mut self, run: &RunSummary, saved_share: Estimate) {
        if !run.started_huge {
            self.saved_share = Some(saved_share);
        }
    }
}

impl MappingProfile {
    fn new(class: MappingClass) -> Self {
        MappingProfile {
            class,
            touched: 0,
            filled: None,
            filled_seconds: 0.0,
            ended_huge: 0.0,
            zeros: None,
            waste: None,
            wrong: 0,
            base_for: 0,
        }
    }

    /// What faults in such mappings should take.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let Some(filled) = self.filled else {
            return Verdict::Base(Reason::Unknown);
        };
        if self.base_for > 0 {
            Verdict::Base(Reason::Wasted)
        } else if self.touched < LEAST_TOUCHED {
            Verdict::Base(Reason::Small)
        } else if 1.0 - filled > WASTE_ALLOWED {
            Verdict::Base(Reason::Sparse)
        } else if self.filled_seconds > FILLS_SOON {
            Verdict::Base(Reason::Slow)
        } else {
            Verdict::Huge
        }
    }

    /// Learns from a run, for which huge pages from the start were chosen or not. Returns whether that was wrong: where they
    /// were not chosen, the program asked for them itself.
    #[allow(clippy::cast_precision_loss)]
    fn learn(&mut self, run: &MappingSummary, chosen: bool) -> bool {
        let regions = run.touched_regions.max(1) as f64;
        self.touched = run.touched_regions.saturating_mul(HUGE_PAGE_SIZE);
        self.filled_seconds = run.filled_seconds;
        self.ended_huge = run.huge_regions as f64 / regions;
        self.zeros = run.zeros_when_full.or(self.zeros);
        // Of a few regions among many more that were huge at once, it would be judged by what was left over.
        let tells =
            run.known_regions >= LEAST_KNOWN && run.known_regions * 2 >= run.touched_regions;
        let waste = if tells {
            let pages = run.known_regions * u64::from(PAGES_PER_REGION);
            let filled = (run.known_pages as f64 / pages as f64).clamp(0.0, 1.0);
            self.filled = Some(filled);
            chosen.then_some(1.0 - filled)
        } else {
            // Memory that the program touched holds zeros too.
            let zeros = self.zeros.unwrap_or_default();
            run.zeros_when_unknown.map(|found| (found - zeros).max(0.0))
        };
        let Some(waste) = waste else {
            return false;
        };
        self.waste = Some(waste);
        let was_wrong = chosen && waste > WASTE_ALLOWED;
        if was_wrong {
            self.base_for = 1 << self.wrong.min(MOST_DOUBLINGS);
            self.wrong = self.wrong.saturating_add(1);
        }
        was_wrong
    }
}
