//! Reading a record of damo's.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::time::Duration;

use flate2::read::ZlibDecoder;
use mega_core::{
    BASE_PAGE_SIZE, HUGE_PAGE_SIZE, Observation, PAGES_PER_REGION, PageSize, ProcessId,
    ProcessObservation, Region, RegionObservation,
};
use serde::Deserialize;

use super::number::Number;
use crate::look::{Header, Look, News};

/// The first byte of a zlib stream with a window of 32 KiB, which damo's are.
const ZLIB: u8 = 0x78;
/// Bytes of JSON that are read: more is no record of a day.
const MOST_BYTES: u64 = 4 << 30;
/// Regions of 2 MiB in a snapshot: 8 TiB.
const MOST_REGIONS: u64 = 1 << 22;
/// Programs' addresses have 47 bits.
const END_OF_ADDRESSES: u64 = 1 << 47;

/// Why a file cannot be read as a record of damo's.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read at all.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none.
    #[error("it is no record of damo's (JSON, or that compressed): {0}")]
    NoRecord(#[from] serde_json::Error),
    /// More than is read.
    #[error("it holds more than {} GiB", MOST_BYTES >> 30)]
    TooLong,
    /// It has nothing for that target.
    #[error("it has no snapshot of {}; its targets are: {}", target.map_or("any target".to_owned(), |target| format!("target {target}")), list(targets))]
    NoTarget {
        /// The one that was asked for.
        target: Option<u64>,
        /// Those that it has.
        targets: Vec<u64>,
    },
    /// A snapshot makes no sense.
    #[error("its snapshot {0} {1}")]
    Nonsense(usize, &'static str),
}

fn list(targets: &[u64]) -> String {
    let targets: Vec<String> = targets.iter().map(u64::to_string).collect();
    targets.join(", ")
}

/// What DAMON saw of one target.
#[derive(Clone, Debug)]
pub struct Record {
    /// What DAMON calls the target. Of a program that damo started or was told the pid of, a small number or the pid.
    pub target: u64,
    /// The header of a recording made of it.
    pub header: Header,
    /// Its snapshots, as looks.
    pub looks: Vec<Look>,
    /// The other targets in the file.
    pub others: Vec<u64>,
}

#[derive(Deserialize)]
struct RawRecord {
    #[serde(default)]
    target_id: Option<Number>,
    #[serde(default)]
    intervals: Option<RawIntervals>,
    snapshots: Vec<RawSnapshot>,
}

#[derive(Deserialize)]
struct RawIntervals {
    sample_us: Number,
    aggr_us: Number,
}

#[derive(Deserialize)]
struct RawSnapshot {
    start_time: Number,
    end_time: Number,
    regions: Vec<RawRegion>,
}

#[derive(Deserialize)]
struct RawRegion {
    start: Number,
    end: Number,
    nr_accesses: RawAccesses,
}

#[derive(Deserialize)]
struct RawAccesses {
    #[serde(default)]
    samples: Option<Number>,
    #[serde(default)]
    percent: Option<Number>,
}

impl RawRecord {
    fn target(&self) -> u64 {
        self.target_id.unwrap_or_default().whole()
    }

    /// Samples in an interval. Where the file does not say, as after `perf script`: the most that any region has.
    fn samples(&self) -> f64 {
        let intervals = self.intervals.as_ref();
        let told = intervals.filter(|intervals| intervals.sample_us.0 > 0.0);
        let told = told.map(|intervals| (intervals.aggr_us.0 / intervals.sample_us.0).floor());
        told.unwrap_or_else(|| {
            let regions = self.snapshots.iter().flat_map(|seen| &seen.regions);
            let samples = regions.filter_map(|region| region.nr_accesses.samples);
            samples.map(|samples| samples.0).fold(1.0, f64::max)
        })
    }
}

/// Reads the record of a target, or of the one with the most snapshots where none is named.
///
/// # Errors
/// Where the file cannot be read, is no record of damo's, or has nothing for the target.
pub fn read(mut input: impl Read, target: Option<u64>) -> Result<Record, ImportError> {
    let mut first = [0; 1];
    let begin = match input.read(&mut first)? {
        0 => &[][..],
        _ => &first[..],
    };
    let whole = begin.chain(input);
    let text = if begin == [ZLIB] {
        text(ZlibDecoder::new(whole))?
    } else {
        text(whole)?
    };
    let records: Vec<RawRecord> = serde_json::from_slice(&text)?;
    let targets: Vec<u64> = records.iter().map(RawRecord::target).collect();
    let of_target = |record: &&RawRecord| target.is_none_or(|target| record.target() == target);
    let with_any = records.iter().filter(|record| !record.snapshots.is_empty());
    // Of several that have as many, the first.
    let chosen = with_any
        .filter(of_target)
        .rev()
        .max_by_key(|record| record.snapshots.len());
    let Some(chosen) = chosen else {
        return Err(ImportError::NoTarget { target, targets });
    };
    let id = chosen.target();
    Ok(Record {
        target: id,
        header: header(chosen),
        looks: looks(chosen)?,
        others: targets.into_iter().filter(|other| *other != id).collect(),
    })
}

fn text(input: impl Read) -> Result<Vec<u8>, ImportError> {
    let mut text = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(ImportError::TooLong);
    }
    Ok(text)
}

fn header(record: &RawRecord) -> Header {
    let first = record.snapshots.first();
    let length = first.map(|seen| {
        seen.end_time
            .whole()
            .saturating_sub(seen.start_time.whole())
    });
    Header {
        recorder: "damo".to_owned(),
        tracker: "damon".to_owned(),
        // It does not say.
        kernel: "?".to_owned(),
        subject: format!("target {} of a record of damo's", record.target()),
        interval_ms: length.unwrap_or(0) / 1_000_000,
        ..Header::default()
    }
}

fn looks(record: &RawRecord) -> Result<Vec<Look>, ImportError> {
    let samples = record.samples();
    let process = ProcessId {
        // A pid names the process as long as it is one.
        pid: u32::try_from(record.target()).unwrap_or(0),
        start_time: 0,
    };
    let began = record
        .snapshots
        .first()
        .map_or(0, |seen| seen.start_time.whole());
    let mut looks = Vec::with_capacity(record.snapshots.len());
    for (place, seen) in record.snapshots.iter().enumerate() {
        let nonsense = |what| ImportError::Nonsense(place, what);
        let since = |from| seen.end_time.whole().checked_sub(from);
        let at = since(began).ok_or(nonsense("ends before the first begins"))?;
        let interval = since(seen.start_time.whole()).ok_or(nonsense("ends before it begins"))?;
        let at = Duration::from_nanos(at);
        if looks.last().is_some_and(|last: &Look| at < last.at) {
            return Err(nonsense("ends before the one before it"));
        }
        let named = looks.is_empty().then(|| (process, header(record).subject));
        looks.push(Look {
            at,
            observation: Observation {
                interval: Duration::from_nanos(interval),
                processes: vec![ProcessObservation {
                    process,
                    cpu_time: None,
                    regions: regions(seen, samples).map_err(nonsense)?,
                    accesses_known: true,
                    node: None,
                    cgroup: None,
                }],
                ..Observation::default()
            },
            news: News {
                names: named.into_iter().collect(),
                ..News::default()
            },
            ..Look::default()
        });
    }
    Ok(looks)
}

/// What a snapshot says of each region of 2 MiB.
fn regions(seen: &RawSnapshot, samples: f64) -> Result<Vec<RegionObservation>, &'static str> {
    // Mapped and accessed base pages, by the first address.
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut regions = 0;
    for region in &seen.regions {
        let (start, end) = (region.start.whole(), region.end.whole());
        if start >= end || end > END_OF_ADDRESSES {
            return Err("has a region with impossible addresses");
        }
        regions += (end - start) / HUGE_PAGE_SIZE + 1;
        if regions > MOST_REGIONS {
            return Err("has more than 8 TiB");
        }
        let accesses = &region.nr_accesses;
        let share = match (accesses.samples, accesses.percent) {
            (Some(count), _) => count.0 / samples,
            (None, Some(percent)) => percent.0 / 100.0,
            (None, None) => return Err("has a region that does not say how often it was accessed"),
        };
        let mut at = start;
        while at < end {
            let base = at / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
            let until = end.min(base + HUGE_PAGE_SIZE);
            #[allow(clippy::cast_precision_loss)] // 2 MiB at most
            let pages = (until - at) as f64 / BASE_PAGE_SIZE as f64;
            let (mapped, accessed) = sums.entry(base).or_default();
            *mapped += pages;
            *accessed += pages * share.min(1.0);
            at = until;
        }
    }
    let observed = |(base, (mapped, accessed)): (u64, (f64, f64))| {
        let mapped = pages(mapped);
        RegionObservation {
            region: Region::containing(base),
            mapped,
            accessed: pages(accessed).min(mapped),
            page_size: PageSize::Base,
            zero_filled: None,
            swapped: 0,
        }
    };
    Ok(sums.into_iter().map(observed).collect())
}

/// Whole pages: a part of one counts.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 512
fn pages(pages: f64) -> u16 {
    // What rounding adds is no page.
    (pages - 1e-6).ceil().clamp(0.0, PAGES_PER_REGION.into()) as u16
}
