//! What touches cost on a machine that nobody has calibrated.

use super::{Calibration, Estimate, Point, Touching, Validity};

/// What was measured at one working set.
struct Measured {
    mib: u64,
    /// Nanoseconds of a touch on base pages, and how many of them a huge page saved: of a chain, of touches that overlap,
    /// and of neighbouring pages, whose entries share cache lines.
    chain: (f64, f64),
    overlapped: (f64, f64),
    neighbours: (f64, f64),
}

/// A calibration of a 2-core virtual machine (Sapphire Rapids, nested page tables, Linux 6.18), rounded, and nothing where its
/// interval held a zero.
const MEASURED: [Measured; 5] = [
    Measured {
        mib: 4,
        chain: (30.0, 0.0),
        overlapped: (3.0, 0.0),
        neighbours: (2.0, 0.0),
    },
    Measured {
        mib: 32,
        chain: (90.0, 2.0),
        overlapped: (12.0, 0.4),
        neighbours: (7.0, 0.2),
    },
    Measured {
        mib: 128,
        chain: (140.0, 15.0),
        overlapped: (14.0, 1.1),
        neighbours: (10.0, 0.8),
    },
    Measured {
        mib: 512,
        chain: (180.0, 34.0),
        overlapped: (18.0, 3.9),
        neighbours: (12.0, 1.5),
    },
    Measured {
        mib: 2048,
        chain: (250.0, 80.0),
        overlapped: (28.0, 8.8),
        neighbours: (14.0, 2.0),
    },
];
/// How many times as much another machine may save.
const WITHIN: f64 = 2.0;
/// Nanoseconds to read a whole page, of which a huge page saves nothing that could be told from noise.
const STREAM_NS: f64 = 350.0;
/// CPU seconds that it takes to make one region huge, as in [`crate::gain::Price`].
const PROMOTION: f64 = 0.6e-3;

/// Stands for a calibration until there is one. Machines without nested page tables save less at each touch, and those
/// with a slower memory more: anything from nothing to twice as much is possible.
#[must_use]
pub fn typical() -> Calibration {
    let points = MEASURED.iter().flat_map(|measured| {
        let point = |touching, (ns, saved)| Point {
            working_set: measured.mib << 20,
            touching,
            ns,
            saved: Estimate::within(saved, 0.0, WITHIN * saved),
        };
        [
            point(Touching::Serial, measured.chain),
            point(Touching::Overlapped, measured.overlapped),
            point(Touching::Neighbours, measured.neighbours),
            point(Touching::Stream, (STREAM_NS, 0.0)),
        ]
    });
    Calibration {
        valid_for: Validity {
            processor: String::new(),
            kernel: String::new(),
            hypervisor: None,
            memory: 0,
        },
        made: 0,
        points: points.collect(),
        giant: None,
        promotion: Estimate::exact(PROMOTION),
    }
}

/// The share of its CPU time that huge pages save a program that does nothing but touch pages of such a working set, in
/// bytes, at random: 0 to 1.
#[must_use]
pub fn saved_share(working_set: u64) -> f64 {
    let share = |measured: &Measured| measured.overlapped.1 / measured.overlapped.0;
    let mib = working_set as f64 / f64::from(1 << 20);
    let above = MEASURED.partition_point(|measured| (measured.mib as f64) < mib);
    match (
        above.checked_sub(1).map(|below| &MEASURED[below]),
        MEASURED.get(above),
    ) {
        (Some(below), Some(above)) => {
            let part = (mib / below.mib as f64).ln() / (above.mib as f64 / below.mib as f64).ln();
            share(below) + (share(above) - share(below)) * part
        }
        (Some(last), None) => share(last),
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_sound_calibration_in_which_larger_working_sets_gain_more() {
        assert_eq!(typical().nonsense(), None);
        let shares: Vec<f64> = (0..14)
            .map(|power| saved_share(1 << (20 + power)))
            .collect();
        assert!(shares.is_sorted(), "{shares:?}");
        assert_eq!(shares[2], 0.0);
        assert!((0.3..0.4).contains(&shares[13]), "{shares:?}");
        for mib in [64_u64, 700, 4096] {
            let by_points = typical().saved_ns(mib << 20, 1.0, 1.0).value;
            assert!((saved_share(mib << 20) - by_points).abs() < 1e-9);
        }
    }
}
