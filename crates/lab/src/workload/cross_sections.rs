//! Cross sections of nuclides at many energies, with one index over all of their energies, as `XSBench` has them.

use super::access::place;
use crate::random::{Random, below, mix};

/// Nuclides of the small Hoogenboom-Martin reactor, which `XSBench` models.
pub(crate) const NUCLIDES: usize = 68;
/// Words of a nuclide's data at one energy: that energy and the cross sections.
pub(crate) const POINT: usize = 1 + SECTIONS;
/// Kinds of cross sections: total, elastic, absorption, fission and nu-fission.
const SECTIONS: usize = 5;
/// Nuclides in each of that reactor's 12 materials, and how many of 1000 look-ups are in it. (`XSBench` names the nuclides
/// of each; here they are drawn.)
pub(crate) const MATERIALS: [(usize, usize); 12] = [
    (34, 140),
    (5, 52),
    (4, 275),
    (4, 134),
    (27, 154),
    (21, 64),
    (21, 66),
    (21, 55),
    (21, 8),
    (21, 15),
    (9, 25),
    (9, 12),
];

/// The data of all nuclides, in memory of someone else's that [`fill`] filled.
pub(super) struct CrossSections<'a> {
    /// All nuclides' energies, in order.
    energies: &'a [u64],
    /// For each of these energies, every nuclide's last point that is not above it.
    index: &'a [u64],
    /// Each nuclide's points, in the order of their energies.
    points: &'a [u64],
    /// Of each material, the nuclides and how much of each there is.
    materials: Vec<Vec<(usize, f64)>>,
    seed: u64,
}

/// How many points of each nuclide fit, with their index; at least 2 in 2 MiB.
fn points_of_each(words: &[u64]) -> usize {
    words.len() / (NUCLIDES * (1 + NUCLIDES + POINT))
}

/// The words of the energies, of the index and of the points.
fn lengths(points: usize) -> (usize, usize, usize) {
    let all = NUCLIDES * points;
    (all, all * NUCLIDES, all * POINT)
}

/// Fills memory with energies from 0 to 1 and their cross sections.
pub(super) fn fill(words: &mut [u64], seed: u64) {
    let count = points_of_each(words);
    let (energies_length, index_length, points_length) = lengths(count);
    let (energies, rest) = words.split_at_mut(energies_length);
    let (index, rest) = rest.split_at_mut(index_length);
    let (points, rest) = rest.split_at_mut(points_length);
    // No page is left out.
    rest.fill(u64::MAX);
    let mut random = Random::new(mix(seed));
    let mut last = [0_u64; NUCLIDES];
    let rows = energies.chunks_mut(NUCLIDES);
    let index_rows = index.chunks_mut(NUCLIDES * NUCLIDES);
    // Every nuclide has one point in each of `count` intervals, so that only those of one are to be sorted.
    for (interval, (energies, index)) in rows.zip(index_rows).enumerate() {
        let mut here: Vec<(u64, usize)> = (0..NUCLIDES)
            .map(|nuclide| {
                let first = (nuclide * count + interval) * POINT;
                let point = &mut points[first..first + POINT];
                point.fill_with(|| fraction(random.word()).to_bits());
                point[0] = energy(interval, f64::from_bits(point[0]), count).to_bits();
                (point[0], nuclide)
            })
            .collect();
        // Numbers that are not negative are in the order of their bits.
        here.sort_unstable();
        for (slot, (energy, nuclide)) in here.into_iter().enumerate() {
            energies[slot] = energy;
            last[nuclide] = interval.min(count - 2) as u64;
            index[slot * NUCLIDES..][..NUCLIDES].copy_from_slice(&last);
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn energy(interval: usize, within: f64, intervals: usize) -> f64 {
    (interval as f64 + within) / intervals as f64
}

/// A random word as a number from 0 to less than 1.
#[allow(clippy::cast_precision_loss)]
fn fraction(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

impl<'a> CrossSections<'a> {
    /// What [`fill`] wrote with that seed.
    pub(super) fn of(words: &'a [u64], seed: u64) -> Self {
        let (energies_length, index_length, points_length) = lengths(points_of_each(words));
        let (energies, rest) = words.split_at(energies_length);
        let (index, rest) = rest.split_at(index_length);
        CrossSections {
            energies,
            index,
            points: &rest[..points_length],
            materials: materials(seed),
            seed,
        }
    }

    /// The macroscopic cross sections that look-up `number` is for: of a random material at a random energy.
    pub(super) fn look_up(&self, number: u64) -> [f64; SECTIONS] {
        let (energy, material) = self.sought(number);
        let row = last_not_above(self.energies, 1, energy);
        let last = &self.index[row * NUCLIDES..][..NUCLIDES];
        self.add_up(material, energy, |nuclide| place(last[nuclide]))
    }

    /// The same by a search of each nuclide's own energies: it needs no index, and checks it.
    pub(super) fn look_up_without_index(&self, number: u64) -> [f64; SECTIONS] {
        let (energy, material) = self.sought(number);
        let points = self.points_of_each();
        self.add_up(material, energy, |nuclide| {
            let own = &self.points[nuclide * points * POINT..][..points * POINT];
            last_not_above(own, POINT, energy).min(points - 2)
        })
    }

    fn points_of_each(&self) -> usize {
        self.energies.len() / NUCLIDES
    }

    fn sought(&self, number: u64) -> (f64, &[(usize, f64)]) {
        let mut random = Random::new(mix(self.seed ^ number));
        let energy = fraction(random.word());
        let mut left = below(random.word(), 1000);
        let mut material = 0;
        while let Some((_, share)) = MATERIALS.get(material)
            && left >= *share
        {
            left -= share;
            material += 1;
        }
        (energy, &self.materials[material])
    }

    /// Adds up the cross sections of a material's nuclides, each between the point that `last` tells and the next one.
    fn add_up(
        &self,
        material: &[(usize, f64)],
        energy: f64,
        last: impl Fn(usize) -> usize,
    ) -> [f64; SECTIONS] {
        let mut sections = [0.0; SECTIONS];
        let points = self.points_of_each();
        for (nuclide, amount) in material {
            let first = (nuclide * points).saturating_add(last(*nuclide));
            let both = first.saturating_mul(POINT)..first.saturating_add(2).saturating_mul(POINT);
            // Beyond them only where the index is not as it was written: the hash is wrong then.
            let (low, high) = self
                .points
                .get(both)
                .unwrap_or(&[0; 2 * POINT])
                .split_at(POINT);
            let at = |point: &[u64], word: usize| f64::from_bits(point[word]);
            let part = (at(high, 0) - energy) / (at(high, 0) - at(low, 0));
            for (kind, section) in sections.iter_mut().enumerate() {
                let (low, high) = (at(low, kind + 1), at(high, kind + 1));
                *section += amount * (high - part * (high - low));
            }
        }
        sections
    }
}

/// The last of the energies, one in `step` words, that is not above `energy`; the first where all are.
fn last_not_above(words: &[u64], step: usize, energy: f64) -> usize {
    let (mut low, mut high) = (0, words.len() / step);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if f64::from_bits(words[middle * step]) <= energy {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn materials(seed: u64) -> Vec<Vec<(usize, f64)>> {
    let mut random = Random::new(mix(!seed));
    let material = |(count, _): (usize, usize)| {
        let mut left: Vec<usize> = (0..NUCLIDES).collect();
        (0..count)
            .map(|_| {
                let nuclide = left.swap_remove(below(random.word(), left.len()));
                (nuclide, fraction(random.word()))
            })
            .collect()
    };
    MATERIALS.map(material).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_up_has_a_material() {
        assert_eq!(
            MATERIALS.iter().map(|(_, share)| share).sum::<usize>(),
            1000
        );
        let materials = materials(1);
        for (material, (count, _)) in materials.iter().zip(MATERIALS) {
            assert_eq!(material.len(), count);
        }
    }

    #[test]
    fn the_last_energy_not_above_is_found() {
        let energies: Vec<u64> = [0.1_f64, 0.2, 0.4].iter().map(|e| e.to_bits()).collect();
        for (energy, expected) in [(0.0, 0), (0.1, 0), (0.3, 1), (0.4, 2), (0.9, 2)] {
            assert_eq!(last_not_above(&energies, 1, energy), expected, "{energy}");
        }
    }
}
