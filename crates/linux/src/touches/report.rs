//! What all looks at a process tell.

use mega_core::worth::{Estimate, HugeTouches, MappingTouches, RegionTouches, Sampling, Touches};
use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, RegionObservation};

use super::units::Units;
use crate::process::target::Held;
use crate::{Error, Host};

/// Puts together what was measured of a process that used `cpu_share` CPUs meanwhile. What was sampled times `per_cpu` is
/// what a second of CPU time has.
///
/// # Errors
/// As reading its mappings.
pub(super) fn report(
    host: &Host,
    held: &Held,
    units: &Units,
    [base, huge]: [&Sampling; 2],
    cpu_share: f64,
    per_cpu: f64,
) -> Result<Touches, Error> {
    let regions: Vec<RegionTouches> = base
        .units()
        .into_iter()
        .map(|(unit, rate, weight)| {
            let seen = units.base_region(unit);
            RegionTouches {
                region: seen.region,
                mapped: seen.mapped,
                per_cpu_second: rate * per_cpu,
                weight,
            }
        })
        .collect();
    Ok(Touches {
        per_cpu_second: rate(base).scaled(per_cpu),
        cpu_share,
        working_set: bytes(base.working_set(), BASE_PAGE_SIZE),
        pages_per_line: base.pages_per_line(),
        huge: (!units.huge_entries().is_empty()).then(|| HugeTouches {
            per_cpu_second: rate(huge).scaled(per_cpu),
            working_set: bytes(huge.working_set(), HUGE_PAGE_SIZE),
        }),
        mappings: mappings(host, held, units, &regions)?,
        regions,
    })
}

/// Touches a second; anything at all where there were too few rounds to tell.
fn rate(sampling: &Sampling) -> Estimate {
    sampling.rate().unwrap_or(Estimate {
        value: 0.0,
        low: 0.0,
        high: f64::MAX,
    })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of pages that exist"
)]
fn bytes(pages: f64, size: u64) -> u64 {
    (pages * size as f64) as u64
}

fn mappings(
    host: &Host,
    held: &Held,
    units: &Units,
    regions: &[RegionTouches],
) -> Result<Vec<MappingTouches>, Error> {
    let mappings = held.mappings(host)?.into_iter().filter_map(|mapping| {
        let range = mapping.range;
        let inside = |start: u64| range.contains(&start);
        let seen: Vec<&RegionObservation> = units
            .regions
            .iter()
            .filter(|seen| inside(seen.region.start()))
            .collect();
        let rates = regions
            .iter()
            .filter(|region| inside(region.region.start()))
            .map(|region| region.per_cpu_second * region.weight);
        (!seen.is_empty()).then(|| MappingTouches {
            name: mapping.name,
            resident: seen.iter().map(|seen| seen.resident_bytes()).sum(),
            huge: seen
                .iter()
                .filter(|seen| seen.is_huge())
                .map(|seen| seen.resident_bytes())
                .sum(),
            per_cpu_second: rates.sum(),
            range: range.clone(),
        })
    });
    Ok(mappings.collect())
}
