//! The arrays that LIBLINEAR has while it trains with kdd2012 by `-s 6` (`train.c`, `linear.cpp`), as the artifact of the Trident paper runs SVM.

use mega_core::BASE_PAGE_SIZE;

/// Of kdd2012 (the LIBSVM data sets' page): instances, features, and values that are not 0, 11 for each instance.
pub(in super::super) const INSTANCES: u64 = 149_639_105;
pub(in super::super) const FEATURES: u64 = 54_686_452;
pub(in super::super) const VALUES: u64 = 1_646_030_155;
/// An index and a value (`struct feature_node`).
pub(in super::super) const NODE: u64 = 16;

/// The arrays that it has while it descends, in the order in which it gets them: bytes for each instance, feature and value. Behind the values of
/// each instance, and of each feature, one more node ends them.
pub(in super::super) const ARRAYS: [(&str, [u64; 3]); 22] = [
    ("labels", [8, 0, 0]),
    ("instances", [8, 0, 0]),
    ("values", [NODE, 0, NODE]),
    ("order", [4, 0, 0]),
    ("sorted", [8, 0, 0]),
    ("part", [8, 0, 0]),
    ("part's labels", [8, 0, 0]),
    ("weights", [0, 8, 0]),
    ("columns' labels", [8, 0, 0]),
    ("columns", [0, 8, 0]),
    ("columns' values", [0, NODE, NODE]),
    ("index", [0, 4, 0]),
    ("signs", [1, 0, 0]),
    ("Hdiag", [0, 8, 0]),
    ("Grad", [0, 8, 0]),
    ("wpd", [0, 8, 0]),
    ("xjneg_sum", [0, 8, 0]),
    ("xTd", [8, 0, 0]),
    ("exp_wTx", [8, 0, 0]),
    ("exp_wTx_new", [8, 0, 0]),
    ("tau", [8, 0, 0]),
    ("D", [8, 0, 0]),
];
/// malloc's own number before an array, which is a mapping of its own.
pub(super) const HEADER: u64 = 16;

/// How much data there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) instances: u64,
    pub(super) features: u64,
    pub(super) values: u64,
}

/// kdd2012 as it is.
const KDD2012: Data = Data {
    instances: INSTANCES,
    features: FEATURES,
    values: VALUES,
};

impl Data {
    /// A part of it, of which all arrays fit into so many bytes, 1 MiB or more.
    pub(super) fn within(bytes: u64) -> Data {
        let all: u64 = KDD2012.arrays().sum();
        let rounding = ARRAYS.len() as u64 * (BASE_PAGE_SIZE + HEADER);
        let room = u128::from(bytes.saturating_sub(rounding));
        let part = |count: u64| {
            let part = u128::from(count) * room / u128::from(all);
            u64::try_from(part).unwrap_or(u64::MAX).max(1)
        };
        Data {
            instances: part(INSTANCES),
            features: part(FEATURES),
            values: part(VALUES),
        }
    }

    /// Bytes of the arrays.
    fn arrays(self) -> impl Iterator<Item = u64> {
        ARRAYS.iter().map(move |(_, [instance, feature, value])| {
            instance * self.instances + feature * self.features + value * self.values
        })
    }
}

/// The mappings that it makes of so many bytes, one after the other.
pub(in super::super) fn arrays(bytes: u64) -> Vec<u64> {
    let mapping = |bytes: u64| (bytes + HEADER).next_multiple_of(BASE_PAGE_SIZE);
    Data::within(bytes).arrays().map(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::numbers::number;

    #[test]
    fn it_has_the_size_that_the_paper_says() {
        let all: u64 = KDD2012.arrays().sum();
        let gibibytes = number(all) / number(1 << 30);
        assert!((67.0..68.5).contains(&gibibytes), "{gibibytes}");
        assert_eq!(VALUES, 11 * INSTANCES);
    }

    #[test]
    fn its_arrays_fit() {
        for bytes in [1 << 20, 4 << 20, 1 << 30, 679 * (1 << 30) / 10] {
            let all: u64 = arrays(bytes).iter().sum();
            assert!(all <= bytes && all * 10 > bytes * 9, "{all} of {bytes}");
        }
    }
}
