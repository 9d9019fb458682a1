//! Ranks by Zipf's law: the probability of rank `k` is as `k` to the power of minus the exponent.

use crate::random::Random;
use crate::sim::numbers::number;

/// The exponent of YCSB's requests (`ZipfianGenerator.ZIPFIAN_CONSTANT`).
pub(super) const YCSB: f64 = 0.99;

/// The law for so many ranks. A rank is drawn exactly, by rejection inversion (Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996): in constant time, without a table.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Zipf {
    ranks: u64,
    exponent: f64,
    /// The integral of the density up to the middle of the first rank, without its own part, and up to the end of the last one.
    first: f64,
    last: f64,
    /// So far left of a rank it is taken without a look.
    sure: f64,
}

impl Zipf {
    /// For ranks from 1 to `ranks`, which is 1 at least. The exponent is above 0.
    pub(in super::super) fn new(ranks: u64, exponent: f64) -> Self {
        let ranks = ranks.max(1);
        let law = Zipf {
            ranks,
            exponent,
            first: 0.0,
            last: 0.0,
            sure: 0.0,
        };
        Zipf {
            first: law.integral(1.5) - 1.0,
            last: law.integral(number(ranks) + 0.5),
            sure: 2.0 - law.inverse(law.integral(2.5) - law.density(2.0)),
            ..law
        }
    }

    /// The next rank, the most frequent one being 1.
    pub(in super::super) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            // A number between 0 and 1 has 53 bits.
            let part = number(random.word() >> 11) / number(1 << 53);
            let area = self.last + part * (self.first - self.last);
            let place = self.inverse(area);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            // clamped to the ranks
            let rank = (place.round() as u64).clamp(1, self.ranks);
            let middle = number(rank);
            if middle - place <= self.sure
                || area >= self.integral(middle + 0.5) - self.density(middle)
            {
                return rank;
            }
        }
    }

    fn density(&self, place: f64) -> f64 {
        (-self.exponent * place.ln()).exp()
    }

    /// Of the density, from 1 on: (place^(1 - exponent) - 1) / (1 - exponent), also where the exponent is 1.
    fn integral(&self, place: f64) -> f64 {
        let logarithm = place.ln();
        let power = (1.0 - self.exponent) * logarithm;
        if power.abs() < 1e-8 {
            return logarithm * (1.0 + power / 2.0);
        }
        logarithm * power.exp_m1() / power
    }

    /// The place up to which the integral is that.
    fn inverse(&self, area: f64) -> f64 {
        let part = ((1.0 - self.exponent) * area).max(-1.0);
        if part.abs() < 1e-8 {
            return (area * (1.0 - part / 2.0)).exp();
        }
        (area * part.ln_1p() / part).exp()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How often each rank is drawn, against the law, by a chi-square test: for so many degrees of freedom, ten times their
    /// standard deviation above their mean does not happen by chance.
    fn is_the_law(ranks: u64, exponent: f64, seed: u64) -> bool {
        const DRAWS: u32 = 40_000;
        let law = Zipf::new(ranks, exponent);
        let mut random = Random::new(seed);
        let mut counts = vec![0u32; usize::try_from(ranks).unwrap()];
        for _ in 0..DRAWS {
            counts[usize::try_from(law.draw(&mut random)).unwrap() - 1] += 1;
        }
        let weights: Vec<f64> = (1..=ranks).map(|rank| law.density(number(rank))).collect();
        let all: f64 = weights.iter().sum();
        let chi: f64 = counts
            .iter()
            .zip(&weights)
            .map(|(count, weight)| {
                let expected = f64::from(DRAWS) * weight / all;
                (f64::from(*count) - expected).powi(2) / expected
            })
            .sum();
        let freedom = number(ranks - 1);
        chi <= freedom + 10.0 * (2.0 * freedom).sqrt()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn ranks_are_as_frequent_as_the_law_says(
            ranks in 1u64..200,
            exponent in prop::sample::select(vec![0.5, YCSB, 1.0, 1.2, 2.0]),
            seed: u64,
        ) {
            prop_assert!(is_the_law(ranks, exponent, seed));
        }

        #[test]
        fn no_rank_is_out_of_range(ranks in 1u64..1 << 40, exponent in 0.1..3.0, seed: u64) {
            let law = Zipf::new(ranks, exponent);
            let mut random = Random::new(seed);
            for _ in 0..100 {
                prop_assert!((1..=ranks).contains(&law.draw(&mut random)));
            }
        }
    }

    /// Of YCSB's requests to a billion records, a third goes to the first 1000 or so: the sum of the law tells.
    #[test]
    fn the_first_of_very_many_get_their_part() {
        let law = Zipf::new(1_000_000_000, YCSB);
        let mut random = Random::new(5);
        let draws = 100_000;
        let first = (0..draws).filter(|_| law.draw(&mut random) <= 1000).count();
        let upto = |ranks: f64| law.integral(ranks + 0.5) - law.first;
        let expected = upto(1000.0) / upto(1e9);
        let found = first as f64 / f64::from(draws);
        assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
    }
}
