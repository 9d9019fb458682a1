//! How many translations of a process are usual.

/// Those that were seen, look by look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    mean: f64,
    looks: f64,
    last: f64,
}

impl Usual {
    pub(super) fn new(translations: f64) -> Usual {
        Usual {
            mean: translations,
            looks: 1.0,
            last: translations,
        }
    }

    pub(super) fn see(&mut self, translations: f64) {
        self.looks += 1.0;
        self.mean += (translations - self.mean) / self.looks;
        self.last = translations;
    }

    /// All that what was measured is spread over: the mean, or what was seen last where that is more, so that no more is gained in all than
    /// was measured; at least 1.
    pub(super) fn all(&self) -> f64 {
        self.mean.max(self.last).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What was seen last is never worth more than all that was measured; and a program that goes over all of its memory at times has
        /// soon its hot part worth what it was before.
        #[test]
        fn all_is_between_the_mean_and_the_most(seen in prop::collection::vec(0.0..1e6_f64, 1..50)) {
            let mut usual = Usual::new(seen[0]);
            seen[1..].iter().for_each(|translations| usual.see(*translations));
            let last = seen[seen.len() - 1];
            let most = seen.iter().copied().fold(1.0, f64::max);
            #[allow(clippy::cast_precision_loss)]
            let mean = seen.iter().sum::<f64>() / seen.len() as f64;
            prop_assert!(usual.all() >= last);
            prop_assert!(usual.all() >= mean * 0.999_999);
            prop_assert!(usual.all() <= most * 1.000_001);
        }
    }
}
