//! What one look at a process found: `mega scan --json`.

use std::collections::BTreeMap;

use mega_core::bytes;
use mega_core::engine::Would;
use mega_core::worth::Worth;
use mega_core::{BASE_PAGE_SIZE, GIANT_PAGE_SIZE, ProcessObservation, Region};
use mega_linux::observe::tracker::FolioSizes;
use mega_linux::process::not_eligible::NotEligible;
use serde::{Deserialize, Serialize};

use super::{HostPage, Memory};

/// What `mega scan --json` prints.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScanReport {
    pub(crate) version: u32,
    pub(crate) pid: u32,
    /// How long Accessed bits gathered; 0 in a dry run.
    pub(crate) window_seconds: f64,
    pub(crate) tracker: String,
    pub(crate) regions: Vec<RegionReport>,
    pub(crate) totals: ScanTotals,
    /// By which pages the host maps these; `null` where the machine is no guest.
    pub(crate) host_page: Option<HostPage>,
    /// Whether it runs a virtual machine by KVM, so that these are the sizes behind a guest's memory.
    pub(crate) runs_guest: bool,
    /// What huge pages would gain it; `null` in a dry run, where this machine is not calibrated, and where the process ran
    /// too little to tell.
    pub(crate) worth: Option<Worth>,
    /// Memory that huge pages would be of use in and cannot map.
    pub(crate) not_eligible: Vec<NotEligibleReport>,
    pub(crate) memory: Memory,
    /// By policy, with default parameters: what it would do if nothing changed until it settled.
    pub(crate) would: BTreeMap<String, Would>,
}

/// Memory that is left alone, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotEligibleReport {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) reason: &'static str,
    pub(crate) remedy: &'static str,
    /// The reason in words, for people.
    #[serde(skip)]
    pub(crate) why: String,
}

impl From<&NotEligible> for NotEligibleReport {
    fn from(found: &NotEligible) -> Self {
        NotEligibleReport {
            start: found.range.start,
            length: found.range.end - found.range.start,
            reason: found.reason.name(),
            remedy: found.reason.remedy(),
            why: found.reason.in_words(),
        }
    }
}

/// Memory in folios of one size that base page table entries map, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolioReport {
    /// Of a folio: more than a base page.
    pub(crate) size: u64,
    /// Mapped of such folios.
    pub(crate) mapped: u64,
}

/// One region, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RegionReport {
    pub(crate) start: u64,
    pub(crate) mapped: u64,
    /// `null` where accesses are not known.
    pub(crate) accessed: Option<u64>,
    /// 4096, 2097152 or 1073741824.
    pub(crate) page_size: u64,
    /// Of what base page table entries map, what is in larger folios, by size; `null` where that is not known.
    pub(crate) folios: Option<Vec<FolioReport>>,
    /// Base pages that hold only zeros; there with `--bloat` only, `null` where they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zero_filled: Option<Option<u64>>,
}

impl RegionReport {
    /// Whether a huge page maps it.
    pub(crate) fn is_huge(&self) -> bool {
        self.page_size > BASE_PAGE_SIZE
    }

    /// Zero-filled bytes, where they were counted.
    pub(crate) fn zero_filled(&self) -> Option<u64> {
        self.zero_filled.flatten()
    }
}

/// Sums over the regions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ScanTotals {
    /// How many.
    pub(crate) regions: u64,
    pub(crate) mapped: u64,
    /// `null` where accesses are not known.
    pub(crate) accessed: Option<u64>,
    /// Mapped by huge pages, or by giant ones.
    pub(crate) huge: u64,
    /// Of that, mapped by giant pages.
    pub(crate) giant: u64,
    /// As in a region.
    pub(crate) folios: Option<Vec<FolioReport>>,
    /// As in a region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zero_filled: Option<u64>,
    /// Zero-filled in huge pages: what demotion could give back. There with `--bloat` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bloat: Option<u64>,
}

impl ScanTotals {
    /// Adds up regions.
    pub(crate) fn of(regions: &[RegionReport]) -> Self {
        let inspected = regions.iter().any(|region| region.zero_filled.is_some());
        let huge = || regions.iter().filter(|region| region.is_huge());
        ScanTotals {
            regions: regions.len() as u64,
            mapped: regions.iter().map(|region| region.mapped).sum(),
            accessed: regions.iter().map(|region| region.accessed).sum(),
            huge: huge().map(|region| region.mapped).sum(),
            giant: huge()
                .filter(|region| region.page_size == GIANT_PAGE_SIZE)
                .map(|region| region.mapped)
                .sum(),
            folios: folios_of_all(regions),
            zero_filled: inspected
                .then(|| regions.iter().filter_map(RegionReport::zero_filled).sum()),
            bloat: inspected.then(|| huge().filter_map(RegionReport::zero_filled).sum()),
        }
    }
}

/// The folios of all regions together, where those of each are known.
fn folios_of_all(regions: &[RegionReport]) -> Option<Vec<FolioReport>> {
    let mut sums = FolioSizes::new();
    for region in regions {
        for folios in region.folios.as_ref()? {
            *sums.entry(folios.size).or_default() += folios.mapped;
        }
    }
    Some(folio_reports(&sums))
}

pub(crate) fn folio_reports(sizes: &FolioSizes) -> Vec<FolioReport> {
    let report = |(&size, &mapped)| FolioReport { size, mapped };
    sizes.iter().map(report).collect()
}

/// `None` where there are none.
pub(crate) fn folios_in_words(folios: &[FolioReport]) -> Option<String> {
    let of_each = folios.iter().map(|of_size| {
        let mapped = bytes::format(of_size.mapped);
        format!("{mapped} of {}", bytes::format(of_size.size))
    });
    (!folios.is_empty()).then(|| of_each.collect::<Vec<_>>().join(", "))
}

/// The regions of an observation in bytes. `folios` are those of the regions that base pages map, where they are known.
/// `inspected` says whether zero-filled pages were counted.
pub(crate) fn region_reports(
    observed: &ProcessObservation,
    folios: Option<&BTreeMap<Region, FolioSizes>>,
    inspected: bool,
) -> Vec<RegionReport> {
    let folios_of = |region| folios.map(|seen| seen.get(&region).map_or(Vec::new(), folio_reports));
    let bytes = |pages: u16| u64::from(pages) * BASE_PAGE_SIZE;
    let report = |region: &mega_core::RegionObservation| RegionReport {
        start: region.region.start(),
        mapped: bytes(region.mapped),
        accessed: observed.accesses_known.then(|| bytes(region.accessed)),
        page_size: region.page_size.bytes(),
        folios: folios_of(region.region),
        zero_filled: inspected.then(|| region.zero_filled.map(bytes)),
    };
    observed.regions.iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_filled_is_left_out_unless_asked_for() {
        let region = RegionReport {
            start: 0,
            mapped: 4096,
            accessed: None,
            page_size: 4096,
            folios: None,
            zero_filled: None,
        };
        let json = serde_json::to_value(&region).expect("serializes");
        assert!(json.get("zero_filled").is_none() && json["accessed"].is_null());
        let unreadable = RegionReport {
            zero_filled: Some(None),
            ..region
        };
        let json = serde_json::to_value(unreadable).expect("serializes");
        assert!(
            json.get("zero_filled")
                .is_some_and(serde_json::Value::is_null)
        );
    }

    #[test]
    fn bloat_counts_huge_pages_only() {
        let base = RegionReport {
            start: 0,
            mapped: 8192,
            accessed: Some(4096),
            page_size: 4096,
            folios: None,
            zero_filled: Some(Some(4096)),
        };
        let huge = RegionReport {
            mapped: 2 << 20,
            page_size: 2 << 20,
            ..base.clone()
        };
        let giant = RegionReport {
            page_size: 1 << 30,
            ..huge.clone()
        };
        let totals = ScanTotals::of(&[base.clone(), huge.clone(), giant]);
        assert_eq!((totals.huge, totals.giant), (4 << 20, 2 << 20));
        let totals = ScanTotals::of(&[base, huge]);
        assert_eq!((totals.zero_filled, totals.bloat), (Some(8192), Some(4096)));
        assert_eq!((totals.accessed, totals.huge), (Some(8192), 2 << 20));
    }
    #[test]
    fn folios_are_added_up_where_those_of_every_region_are_known() {
        let region = |folios| RegionReport {
            start: 0,
            mapped: 2 << 20,
            accessed: None,
            page_size: 4096,
            folios,
            zero_filled: None,
        };
        let of = |size, mapped| FolioReport { size, mapped };
        let mixed = region(Some(vec![of(16384, 32768), of(65536, 65536)]));
        let alike = region(Some(vec![of(65536, 131_072)]));
        let totals = ScanTotals::of(&[mixed.clone(), alike, region(Some(Vec::new()))]);
        let wanted = vec![of(16384, 32768), of(65536, 196_608)];
        assert_eq!(totals.folios, Some(wanted));
        assert_eq!(ScanTotals::of(&[mixed, region(None)]).folios, None);
    }
}
