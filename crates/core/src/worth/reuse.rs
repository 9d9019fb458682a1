//! How touches come back: what is touched between two touches of a page, and how many touches of a region follow each other.
//!
//! Both follow from the two halves of looks. A unit that is touched more often than others is so in both halves; what chance did is in
//! one. So units are sorted by one half, and how often they are touched is what the other half says. And how far the halves of one look
//! lie apart tells how many touches come together: single ones lie apart by the root of their number, and visits of n touches by that
//! times the root of n.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::look::Part;

/// The most touches of one visit: every page of a region.
const MOST_IN_VISIT: f64 = 512.0;
/// Visits that units of a class must have had together, so that chance alone does not make classes.
const VISITS_OF_CLASS: f64 = 20.0;
/// Looks at a class, at least.
const LOOKS_OF_CLASS: usize = 3;
/// The part of all pages that is touched within the mean time between two touches of one, where all are touched equally often at
/// random: 1 - 1/e.
const TOUCHED_MEANWHILE: f64 = 0.632_120_558_828_557_7;

/// Touches between which equally much else is touched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reuse {
    /// Their share of all touches, above 0, at most 1.
    pub share: f64,
    /// Bytes of a working set, touched at random, in which equally much else is touched until a page is touched again.
    pub working_set: u64,
}

/// The looks at some units.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    /// In halves, each of which tells something.
    halves: Vec<[Part; 2]>,
    /// The others.
    whole: Vec<Part>,
}

/// Units that are alike as far as is known without looking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units<'a> {
    pub(super) looks: &'a Looks,
    pub(super) count: f64,
    /// Entries of one of them, in the mean; at least 1.
    pub(super) entries: f64,
}

/// Units that are touched about equally often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    /// Entries of all of them together.
    entries: f64,
    /// Touches of one entry in a second.
    rate: f64,
}

impl Looks {
    /// Adds a look: its halves, or where they do not tell anything by themselves, all of it.
    pub(super) fn record(&mut self, halves: Option<[Part; 2]>, whole: Part) {
        if let Some(halves) = halves {
            self.halves.push(halves);
        } else {
            self.whole.push(whole);
        }
    }

    /// What each half of each tells, or all of it twice. `late`: how much second halves tell for each touch that first ones do.
    fn rates(&self, late: f64) -> Vec<[f64; 2]> {
        let halves = self.halves.iter();
        let halves = halves.map(|[early, other]| [early.rate(), other.rate() / late]);
        let whole = self.whole.iter().filter(|whole| whole.used > 0.0);
        halves.chain(whole.map(|whole| [whole.rate(); 2])).collect()
    }

    /// How many of them make a class, at least one, where visits have so many touches.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the number of looks
    fn size_of_class(&self, per_visit: f64) -> usize {
        let looks = (self.halves.len() + self.whole.len()) as f64;
        let parts = self.halves.iter().flatten().chain(&self.whole);
        let visits_of_half = parts.map(|part| part.touches).sum::<f64>() / 2.0 / per_visit;
        let enough = (looks * VISITS_OF_CLASS / visits_of_half.max(1.0)).min(looks);
        (enough.ceil() as usize).max(LOOKS_OF_CLASS)
    }
}

impl Units<'_> {
    /// By how often they are touched. `late`: how much second halves tell for each touch that first ones do.
    fn classes(&self, per_visit: f64, late: f64) -> Vec<Class> {
        let class = |share: f64, rate: f64| Class {
            entries: self.count * share * self.entries,
            rate: rate / self.entries,
        };
        let looks = self.looks.rates(late);
        let size = self.looks.size_of_class(per_visit);
        let mut classes = Vec::new();
        // Each half says of which class a look is, and the other one what that class does: so each look counts twice.
        for (of_class, told) in [(0, 1), (1, 0)] {
            let mut sorted = looks.clone();
            sorted.sort_by(|one, other| one[of_class].total_cmp(&other[of_class]));
            for alike in sorted.chunks(size) {
                let count = alike.len() as f64;
                let rate = alike.iter().map(|rates| rates[told]).sum::<f64>() / count;
                classes.push(class(count / looks.len() as f64 / 2.0, rate));
            }
        }
        classes
    }
}

impl Class {
    fn touches(&self) -> f64 {
        self.entries * self.rate
    }
}

/// Classes of all units by how often they are touched.
pub(super) fn classes(units: &[Units<'_>]) -> Vec<Class> {
    let looks = || units.iter().map(|units| units.looks);
    let (per_visit, late) = (per_visit(looks()), late(looks()));
    let of = |units: &Units<'_>| units.classes(per_visit, late);
    units.iter().flat_map(of).collect()
}

/// How much second halves tell for each touch that first ones do: less than 1 where some pages of a unit are touched more often than
/// others.
fn late<'a>(looks: impl Iterator<Item = &'a Looks>) -> f64 {
    let (mut early, mut late) = (0.0, 0.0);
    for [one, other] in looks.flat_map(|looks| &looks.halves) {
        early += one.rate();
        late += other.rate();
    }
    if early > 0.0 && late > 0.0 {
        late / early
    } else {
        1.0
    }
}

/// How many touches a visit to a unit has, 1 to 512, in the mean over visits. Single touches lie apart by the root of their number, and
/// visits by that times the root of the mean square of their touches over the mean. They are taken to be as uneven as visits that may end
/// at any touch: that ratio is then one less than twice the mean.
pub(super) fn per_visit<'a>(looks: impl Iterator<Item = &'a Looks> + Clone) -> f64 {
    let late = late(looks.clone());
    let (mut found, mut of_single_ones) = (0.0, 0.0);
    for [one, other] in looks.flat_map(|looks| &looks.halves) {
        let weight = one.used * other.used;
        let apart = one.rate() - other.rate() / late;
        found += apart * apart * weight;
        let variance = |part: &Part| part.variance / (part.used * part.used);
        of_single_ones += (variance(one) + variance(other) / (late * late)) * weight;
    }
    if of_single_ones > 0.0 {
        f64::midpoint(found / of_single_ones, 1.0).clamp(1.0, MOST_IN_VISIT)
    } else {
        1.0
    }
}

/// Entries that are touched again and again: as many, all touched equally often, would be touched as unevenly as these are.
pub(super) fn working_set(classes: &[Class]) -> f64 {
    let all: f64 = classes.iter().map(Class::touches).sum();
    let squares: f64 = classes
        .iter()
        .map(|class| class.touches() * class.rate)
        .sum();
    if squares > 0.0 {
        all * all / squares
    } else {
        0.0
    }
}

/// What is touched between two touches of an entry of `size` bytes, by octaves of that, the least first.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "sizes of memory that exists"
)]
pub(super) fn reuse(classes: &[Class], size: u64) -> Vec<Reuse> {
    let all: f64 = classes.iter().map(Class::touches).sum();
    let mut octaves: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for class in classes.iter().filter(|class| class.rate > 0.0) {
        let share = class.touches() / all;
        let meanwhile = |other: &Class| other.entries * -(-other.rate / class.rate).exp_m1();
        let entries = classes.iter().map(meanwhile).sum::<f64>() / TOUCHED_MEANWHILE;
        let bits = (entries * size as f64).max(1.0).log2();
        let (shares, weighed) = octaves.entry(bits as u32).or_default();
        *shares += share;
        *weighed += share * bits;
    }
    let told = |(share, weighed): (f64, f64)| Reuse {
        share,
        working_set: (weighed / share).exp2() as u64,
    };
    octaves.into_values().map(told).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;

    fn part(touches: f64) -> Part {
        Part {
            touches,
            variance: touches,
            used: 1e-3,
        }
    }

    fn looks(halves: &[[f64; 2]]) -> Looks {
        let mut looks = Looks::default();
        for half in halves {
            looks.record(Some(half.map(part)), Part::default());
        }
        looks
    }

    fn classes_of(looks: &Looks, count: f64) -> Vec<Class> {
        let entries = 512.0;
        classes(&[Units {
            looks,
            count,
            entries,
        }])
    }

    #[test]
    fn a_unit_that_is_always_touched_is_told_from_one_that_never_is() {
        let halves: Vec<[f64; 2]> = (0..24)
            .map(|unit| if unit % 6 == 0 { [60.0; 2] } else { [0.0; 2] })
            .collect();
        let classes = classes_of(&looks(&halves), 600.0);
        let pages = working_set(&classes);
        // A class of three looks holds one that is not of its kind.
        assert!((100.0 * 512.0..160.0 * 512.0).contains(&pages), "{pages}");
    }

    #[test]
    fn what_chance_does_makes_no_classes() {
        // Each unit is touched by visits of 64 pages, in one half of a look or in none.
        let halves: Vec<[f64; 2]> = (0..24)
            .map(|unit| match unit % 6 {
                0 => [64.0, 0.0],
                3 => [0.0, 64.0],
                _ => [0.0, 0.0],
            })
            .collect();
        let looks = looks(&halves);
        assert!((per_visit([&looks].into_iter()) - 32.5).abs() < 1e-9);
        let classes = classes_of(&looks, 600.0);
        assert!((working_set(&classes) - 600.0 * 512.0).abs() < 1e-6);
    }

    #[test]
    fn what_was_seen_in_whole_looks_alone_is_one_class() {
        let mut looks = Looks::default();
        looks.record(None, part(512.0));
        let classes = classes_of(&looks, 10.0);
        assert!((working_set(&classes) - 5120.0).abs() < 1e-6);
        let all = reuse(&classes, PAGE);
        assert!(
            all.len() == 1 && (all[0].share - 1.0).abs() < 1e-9,
            "{all:?}"
        );
        assert!(all[0].working_set.abs_diff(5120 * PAGE) < 5, "{all:?}");
        assert!(classes_of(&Looks::default(), 10.0).is_empty());
    }

    proptest! {
        #[test]
        fn all_that_is_told_is_in_bounds(
            halves in prop::collection::vec([0.0..512.0_f64, 0.0..512.0_f64], 0..60),
            count in 1.0..1e6_f64,
        ) {
            let looks = looks(&halves);
            let visit = per_visit([&looks].into_iter());
            prop_assert!((1.0..=512.0).contains(&visit));
            let classes = classes_of(&looks, count);
            let pages = count * 512.0;
            let set = working_set(&classes);
            prop_assert!((0.0..=pages * (1.0 + 1e-9)).contains(&set), "{} of {}", set, pages);
            let reuse = reuse(&classes, PAGE);
            let touched = halves.iter().flatten().any(|touches| *touches > 0.0);
            let all: f64 = reuse.iter().map(|reuse| reuse.share).sum();
            prop_assert!((all - f64::from(u8::from(touched))).abs() < 1e-9, "{}", all);
            // Where others come back sooner, all of them lie in between.
            let most = pages * PAGE as f64 / TOUCHED_MEANWHILE;
            prop_assert!(reuse.iter().all(|reuse| reuse.share > 0.0 && reuse.working_set as f64 <= most * 1.001));
        }
    }
}
