//! Writing a recording in damo's format.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use mega_core::{ProcessId, ProcessObservation, RegionObservation};
use serde_json::{Value, json};

use super::SAMPLES;
use crate::look::{Header, Look};

/// Why a recording was not written in damo's format.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// What it is written to takes nothing.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its looks could not be read again.
    #[error("{0}")]
    Looks(String),
}

/// Writes all processes of a recording as targets, whose numbers are the pids. `looks` gives all its looks, as often as it is asked:
/// once for each process and once more. Returns the pids.
///
/// Of a region that a huge page maps, one bit is known: it was accessed whole, or not at all.
///
/// # Errors
/// Where the looks cannot be read, or `out` takes nothing.
pub fn export<I: Iterator<Item = Look>>(
    header: &Header,
    looks: impl Fn() -> Result<I, String>,
    out: impl Write,
) -> Result<Vec<u32>, ExportError> {
    let looks = || looks().map_err(ExportError::Looks);
    let mut processes = BTreeSet::new();
    for look in looks()? {
        processes.extend(look.observation.processes.iter().map(|seen| seen.process));
    }
    let mut out = ZlibEncoder::new(out, Compression::default());
    out.write_all(b"[")?;
    for (place, process) in processes.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        out.write_all(comma.as_bytes())?;
        target(header, *process, looks()?, &mut out)?;
    }
    out.write_all(b"]")?;
    out.finish()?.flush()?;
    Ok(processes.iter().map(|process| process.pid).collect())
}

/// Writes one target, snapshot by snapshot.
fn target(
    header: &Header,
    process: ProcessId,
    looks: impl Iterator<Item = Look>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut mean = Mean::default();
    let mut before = Duration::ZERO;
    let mut is_first = true;
    write!(
        out,
        "{{\"kdamond_idx\":0,\"context_idx\":0,\"scheme_idx\":null,\"scheme_filters\":[],\"target_id\":{},\"snapshots\":[",
        process.pid
    )?;
    for look in looks {
        let seen = &look.observation.processes;
        let Some(seen) = seen.iter().find(|seen| seen.process == process) else {
            before = look.at;
            continue;
        };
        // At the first look nothing is known of accesses, and no time has passed.
        if seen.accesses_known && look.at > before {
            let comma = if is_first { "" } else { "," };
            write!(out, "{comma}{}", snapshot(before, look.at, seen))?;
            is_first = false;
            mean.add(look.at - before);
        }
        before = look.at;
    }
    write!(out, "],\"intervals\":{}}}", intervals(mean.or(header)))
}

/// The mean time between two looks.
#[derive(Default)]
struct Mean {
    sum: Duration,
    count: u32,
}

impl Mean {
    fn add(&mut self, time: Duration) {
        self.sum += time;
        self.count += 1;
    }

    /// In microseconds; what was asked for where there was none.
    fn or(&self, header: &Header) -> u128 {
        match self.count {
            0 => u128::from(header.interval_ms) * 1000,
            count => (self.sum / count).as_micros(),
        }
    }
}

fn intervals(aggregation: u128) -> Value {
    let samples = u128::from(SAMPLES);
    let aggregation = aggregation.max(samples);
    json!({
        "sample_us": (aggregation / samples).to_string(),
        "aggr_us": aggregation.to_string(),
        "ops_update_us": aggregation.to_string(),
        "intervals_goal": {"access_bp": "0", "aggrs": "0", "min_sample_us": "0", "max_sample_us": "0"},
    })
}

fn snapshot(from: Duration, to: Duration, seen: &ProcessObservation) -> Value {
    let mut regions: Vec<(u64, u64, u16)> = Vec::new();
    for region in &seen.regions {
        let (start, end) = (region.region.start(), region.region.end());
        let accessed = accessed(region);
        match regions.last_mut() {
            Some((_, last, same)) if *last == start && *same == accessed => *last = end,
            _ => regions.push((start, end, accessed)),
        }
    }
    let bytes: u64 = regions.iter().map(|(start, end, _)| end - start).sum();
    let regions: Vec<Value> = regions
        .into_iter()
        .map(|(start, end, accessed)| {
            json!({
                "start": start.to_string(),
                "end": end.to_string(),
                "nr_accesses": {"samples": accessed, "percent": null},
                "age": {"usec": null, "aggr_intervals": "0"},
                "probe_hits": [],
                "sz_filter_passed": "0",
            })
        })
        .collect();
    json!({
        "start_time": from.as_nanos().to_string(),
        "end_time": to.as_nanos().to_string(),
        "regions": regions,
        "total_bytes": bytes.to_string(),
    })
}

/// Base pages that were accessed; of a larger page all of them.
fn accessed(region: &RegionObservation) -> u16 {
    if region.is_huge() && region.accessed > 0 {
        mega_core::PAGES_PER_REGION
    } else {
        region.accessed
    }
}
