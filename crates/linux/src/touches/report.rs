//! What all looks at a process tell.

use mega_core::RegionObservation;
use mega_core::worth::{MappingTouches, RegionTouches, Sampling, Touches};

use super::units::Units;
use crate::observe::frames;
use crate::target::Held;
use crate::{Error, Host};

/// Regions whose frames are looked at: some 8,000 base pages.
const FRAMES_OF: usize = 16;

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
    let mappings = mappings(host, held, units, &regions)?;
    let frames_together = frames_together(host, held, &regions);
    let huge = (!units.huge_entries().is_empty()).then_some(huge);
    let told = Touches::told(base, huge, cpu_share, per_cpu, mappings, regions);
    Ok(Touches {
        frames_together,
        ..told
    })
}

/// By some of the regions, from all over its memory.
fn frames_together(host: &Host, held: &Held, regions: &[RegionTouches]) -> Option<f64> {
    let step = regions.len().div_ceil(FRAMES_OF).max(1);
    let some = regions.iter().step_by(step);
    frames::together(
        host.kernel().as_ref(),
        held.process.pid,
        some.map(|region| region.region.start()),
    )
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
