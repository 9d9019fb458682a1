//! Table 1 and figure 3: what hzmem costs while there is enough memory.
//!
//! The same computation runs in hzmem and in hugetlbfs on the same machine, in turn, and each turn compares the two.
//! Below the watermark hzmem scans and compresses nothing; the experiment checks that.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::kernels::{KERNELS, Kernel};
use super::memory::{self, Mapper, Memory, Setup};
use super::stream::{OPERATIONS, Vectors};
use super::{state, table};
use crate::error::Error;
use crate::mapping::Area;
use crate::statistics::median;

/// Millions of elements of a vector. The paper has 10 to 100.
const SIZES: [usize; 6] = [1, 2, 4, 8, 12, 16];
const ROUNDS: usize = 7;
/// What the computations are scaled by: words of memory, about.
const SCALE: usize = 2_000_000;

/// hzmem and hugetlbfs.
const PAIR: [Memory; 2] = [Memory::Hzmem, Memory::Hugetlbfs];

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    configured: u64,
    stream: Vec<Stream>,
    kernels: Vec<Compute>,
    /// What hzmem compressed meanwhile: nothing, or this says nothing.
    compressions: u64,
}

/// Bytes per second of each operation in each round, hzmem first, hugetlbfs second.
#[derive(Debug, Serialize, Deserialize)]
struct Stream {
    millions: usize,
    operations: [Vec<[f64; 2]>; 4],
}

/// Seconds of each round, hzmem first, hugetlbfs second.
#[derive(Debug, Serialize, Deserialize)]
struct Compute {
    name: String,
    rounds: Vec<[f64; 2]>,
}

pub(super) fn measure(setup: &Setup, quick: bool) -> Result<Measurement, Error> {
    for memory in PAIR {
        memory::set_up(memory, setup)?;
    }
    let rounds = if quick { 2 } else { ROUNDS };
    let sizes = if quick { &SIZES[..1] } else { &SIZES };
    let scale = if quick { SCALE / 10 } else { SCALE };
    let stream = sizes.iter().map(|&millions| stream(millions, rounds));
    let stream = stream.collect::<Result<_, _>>()?;
    let kernels = KERNELS.iter().map(|kernel| compute(kernel, scale, rounds));
    let kernels = kernels.collect::<Result<_, _>>()?;
    let counts = state::mount()?.counts;
    Ok(Measurement {
        configured: setup.configured,
        stream,
        kernels,
        compressions: counts.compressions + counts.compressions_zero,
    })
}

/// Memory of both kinds, all touched. The mappers are kept, because the files go with them.
fn both(bytes: usize) -> Result<[(Mapper, Area); 2], Error> {
    let map = |memory: Memory| {
        let mut mapper = Mapper::new(memory)?;
        let mut area = mapper
            .map(bytes)
            .map_err(|error| Error::io(format!("map {bytes} bytes of {}", memory.name()), error))?;
        area.touch_all();
        Ok::<_, Error>((mapper, area))
    };
    Ok([map(PAIR[0])?, map(PAIR[1])?])
}

fn stream(millions: usize, rounds: usize) -> Result<Stream, Error> {
    let length = millions * 1_000_000;
    let [(_first, mut hzmem), (_second, mut hugetlbfs)] = both(3 * 8 * length)?;
    let mut vectors = [
        Vectors::new(hzmem.words_mut(), length),
        Vectors::new(hugetlbfs.words_mut(), length),
    ];
    let mut operations: [Vec<[f64; 2]>; 4] = Default::default();
    for round in 0..rounds {
        for (operation, results) in operations.iter_mut().enumerate() {
            let mut result = [0.0; 2];
            // Who goes first changes, so that neither always finds the caches as the other left them.
            for turn in 0..2 {
                let which = (round + turn) % 2;
                result[which] = vectors[which].run(operation);
            }
            results.push(result);
        }
    }
    if vectors.iter().all(|vectors| vectors.is_right(rounds)) {
        Ok(Stream {
            millions,
            operations,
        })
    } else {
        Err(Error::Failed(format!(
            "vectors of {millions} million elements do not hold what was computed"
        )))
    }
}

fn compute(kernel: &Kernel, scale: usize, rounds: usize) -> Result<Compute, Error> {
    let [(_first, hzmem), (_second, hugetlbfs)] = both(8 * (kernel.words)(scale))?;
    let mut areas = [hzmem, hugetlbfs];
    let mut results = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let mut seconds = [0.0; 2];
        let mut answers = [0; 2];
        for turn in 0..2 {
            let which = (round + turn) % 2;
            let start = Instant::now();
            answers[which] = (kernel.run)(areas[which].words_mut(), scale);
            seconds[which] = start.elapsed().as_secs_f64();
        }
        if answers[0] != answers[1] {
            return Err(Error::Failed(format!(
                "{}: {} in hzmem, {} in hugetlbfs",
                kernel.name, answers[0], answers[1]
            )));
        }
        results.push(seconds);
    }
    Ok(Compute {
        name: kernel.name.to_owned(),
        rounds: results,
    })
}

/// Table 1 of the paper: Hzmem's throughput over unmodified Linux's, for copy, scale, add and triad.
const PAPER: [(usize, [f64; 4]); 6] = [
    (
        10,
        [
            3035.7 / 3043.0,
            2594.3 / 2595.8,
            3244.0 / 3226.5,
            2930.7 / 2928.4,
        ],
    ),
    (
        20,
        [
            2318.0 / 2321.6,
            1970.0 / 1968.6,
            2298.3 / 2278.1,
            1839.0 / 1838.9,
        ],
    ),
    (
        30,
        [
            2315.5 / 2317.7,
            1973.2 / 1970.6,
            2395.9 / 2397.8,
            2214.7 / 2216.7,
        ],
    ),
    (
        40,
        [
            2319.0 / 2325.0,
            1972.2 / 1976.0,
            2294.5 / 2295.7,
            1825.9 / 1829.9,
        ],
    ),
    (
        80,
        [
            2503.4 / 2324.0,
            2131.7 / 1978.2,
            2440.6 / 2299.9,
            1956.0 / 1828.2,
        ],
    ),
    (
        100,
        [
            2383.6 / 2324.2,
            2029.5 / 1978.1,
            2327.5 / 2278.8,
            1875.9 / 1836.7,
        ],
    ),
];

pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::new();
    for measurement in measurements {
        text += &report_one(measurement);
    }
    text
}

fn report_one(measurement: &Measurement) -> String {
    let mut rows = vec![vec!["millions of elements".to_owned()]];
    rows[0].extend(OPERATIONS.map(str::to_owned));
    for stream in &measurement.stream {
        let mut row = vec![stream.millions.to_string()];
        row.extend(stream.operations.iter().map(|pairs| ratio(pairs)));
        rows.push(row);
    }
    for (millions, ratios) in PAPER {
        let mut row = vec![format!("paper, {millions}")];
        row.extend(ratios.map(|ratio| format!("{ratio:.3}")));
        rows.push(row);
    }
    let mut times = vec![vec!["computation".to_owned(), "time".to_owned()]];
    for kernel in &measurement.kernels {
        times.push(vec![kernel.name.clone(), ratio(&kernel.rounds)]);
    }
    let medians: Vec<f64> = measurement
        .kernels
        .iter()
        .filter_map(|kernel| middle(&kernel.rounds))
        .collect();
    let count = u32::try_from(medians.len()).unwrap_or(u32::MAX);
    let mean = medians.iter().sum::<f64>() / f64::from(count.max(1));
    let worst = medians.iter().copied().fold(0.0, f64::max);
    times.push(vec!["mean".to_owned(), format!("{mean:.3}")]);
    times.push(vec!["worst".to_owned(), format!("{worst:.3}")]);
    times.push(vec!["paper, mean".to_owned(), "1.007".to_owned()]);
    times.push(vec!["paper, worst".to_owned(), "1.033".to_owned()]);
    let compressed = match measurement.compressions {
        0 => "hzmem compressed nothing meanwhile".to_owned(),
        pages => format!("HZMEM COMPRESSED {pages} PAGES MEANWHILE: this says nothing"),
    };
    format!(
        "Speed below the watermark, hzmem to hugetlbfs in the same machine; the median of the rounds, lowest and highest\n\n\
         STREAM's throughput (table 1)\n{}\n\
         time of computations (figure 3)\n{}\n\
         {compressed}. Both map the same 2 MiB pages; emulation shows what the kernel's paths cost, not TLB misses.\n",
        table(&rows),
        table(&times)
    )
}

/// The ratio of each pair.
fn ratios(pairs: &[[f64; 2]]) -> Vec<f64> {
    pairs
        .iter()
        .map(|[hzmem, hugetlbfs]| hzmem / hugetlbfs)
        .collect()
}

fn middle(pairs: &[[f64; 2]]) -> Option<f64> {
    median(&ratios(pairs))
}

fn ratio(pairs: &[[f64; 2]]) -> String {
    let ratios = ratios(pairs);
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(0.0, f64::max);
    middle(pairs).map_or_else(
        || "-".to_owned(),
        |middle| format!("{middle:.3} ({low:.2} to {high:.2})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_each_round() {
        let measurement = Measurement {
            configured: 1 << 30,
            stream: vec![Stream {
                millions: 8,
                operations: std::array::from_fn(|_| vec![[1.0, 2.0], [3.0, 3.0], [9.0, 3.0]]),
            }],
            kernels: vec![Compute {
                name: "sort".to_owned(),
                rounds: vec![[1.1, 1.0]],
            }],
            compressions: 0,
        };
        let text = report(&[measurement]);
        assert!(text.contains("1.000 (0.50 to 3.00)"), "{text}");
        assert!(text.contains("1.100 (1.10 to 1.10)"), "{text}");
        assert!(text.contains("compressed nothing"), "{text}");
    }
}
