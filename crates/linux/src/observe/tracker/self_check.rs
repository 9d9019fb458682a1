//! Finds what the BPF walker has to know of this kernel, and proves that it walks right.
//!
//! Where the kernel's direct map of physical memory begins is a secret (KASLR), and whether page tables
//! have 4 or 5 levels is not told either. Both are found by trial: the direct map begins at a multiple of
//! 1 GiB, at most the size of physical memory below any address in it, and the top page table is in it. A
//! walk of the tracker's own memory, whose state is known page by page, succeeds with the right values
//! only. The same walk is the self-check: what it finds must agree exactly with what is known and with
//! `/proc/self/pagemap`.

use std::arch::x86_64::__cpuid;
use std::path::Path;

use mega_core::page::GIANT_PAGE_SIZE;
use mega_core::{BASE_PAGE_SIZE, PAGES_PER_REGION, PageSize, RegionObservation};

use super::known_memory::{Known, KnownMemory};
use super::pagemap;
use super::zero_page::ZeroPages;
use crate::kernel::Kernel;
use crate::observe::bpf::{Program, Request, RunError, Status, Thread};

/// Tries at seeing the Accessed bits that were just set: something else may clear or set some in between.
const ACCESS_ATTEMPTS: u32 = 8;

/// Why the walker is not to be used.
#[derive(Debug, thiserror::Error)]
pub enum SelfCheckError {
    /// The known memory could not be made, or pagemap not be read.
    #[error("{attempted}: {error}")]
    Setup {
        /// What was attempted.
        attempted: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
    /// `/proc/zoneinfo` does not say where physical memory ends.
    #[error("/proc/zoneinfo does not say where physical memory ends")]
    NoZones,
    /// The walker could not be run at all.
    #[error("the program could not be run: {0}")]
    NotRun(String),
    /// No guess of the direct map's base and of the depth of page tables shows the known memory.
    #[error("no direct map was found in {tries} tries below the page table")]
    NoDirectMap {
        /// How many were made.
        tries: u64,
    },
    /// The walker and pagemap disagree.
    #[error("of a region with {known} pages mapped, /proc/self/pagemap shows {pagemap}")]
    Pagemap {
        /// Pages known to be mapped, the page of zeros counted too.
        known: u16,
        /// Pages that pagemap shows.
        pagemap: u16,
    },
    /// Accessed bits are not seen as they are.
    #[error("of a region with {read} pages just read, {seen} are seen accessed")]
    Accessed {
        /// Pages read.
        read: u16,
        /// Pages seen accessed.
        seen: u16,
    },
}

impl From<RunError> for SelfCheckError {
    fn from(error: RunError) -> Self {
        SelfCheckError::NotRun(error.to_string())
    }
}

/// What the walker has to know of this kernel and machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) direct_map: u64,
    pub(super) levels: u32,
    pub(super) memory_end: u64,
    pub(super) encryption_mask: u64,
    pub(super) huge_zero_page: u64,
}

impl Geometry {
    /// A request for nothing yet.
    pub(super) fn request(&self) -> Request {
        Request {
            direct_map: self.direct_map,
            memory_end: self.memory_end,
            encryption_mask: self.encryption_mask,
            huge_zero_page: self.huge_zero_page,
            levels: self.levels,
            count_lines: false,
            ranges: Vec::new(),
        }
    }

    /// The first address above user space.
    pub(super) fn user_end(&self) -> u64 {
        if self.levels == 5 { 1 << 56 } else { 1 << 47 }
    }
}

/// Finds the geometry and checks the walker with it.
///
/// # Errors
/// When anything that is seen differs from what is known.
pub(super) fn examine(
    program: &mut Program,
    kernel: &dyn Kernel,
) -> Result<Geometry, SelfCheckError> {
    let memory = KnownMemory::new().map_err(|error| SelfCheckError::Setup {
        attempted: "map memory to check with",
        error,
    })?;
    agree_with_pagemap(kernel, memory.regions())?;
    let thread = program.thread(std::process::id())?;
    let unknown = Geometry {
        direct_map: 0,
        levels: 4,
        memory_end: memory_end(kernel)?,
        encryption_mask: encryption_mask(),
        huge_zero_page: ZeroPages::find(kernel)
            .map_err(|error| SelfCheckError::Setup {
                attempted: "look at the page of zeros",
                error,
            })?
            .huge_address(),
    };
    let geometry = find_direct_map(program, &thread, &memory, unknown)?;
    check_accessed(program, &thread, &memory, &geometry)?;
    Ok(geometry)
}

/// Compares what is known of the memory with pagemap.
fn agree_with_pagemap(kernel: &dyn Kernel, regions: &[Known]) -> Result<(), SelfCheckError> {
    let setup = |error| SelfCheckError::Setup {
        attempted: "read /proc/self/pagemap",
        error,
    };
    let file = pagemap::open(kernel, "self").map_err(setup)?;
    for region in regions {
        let mut entries = [pagemap::Entry::default(); PAGES_PER_REGION as usize];
        pagemap::read(kernel, &file, region.start, &mut entries).map_err(setup)?;
        let present = entries.iter().filter(|entry| entry.is_present()).count();
        let (known, pagemap) = (
            region.mapped + region.zero,
            u16::try_from(present).unwrap_or(u16::MAX),
        );
        if known != pagemap {
            return Err(SelfCheckError::Pagemap { known, pagemap });
        }
    }
    Ok(())
}

/// Tries every possible base of the direct map with both depths of page tables, the likelier depth first,
/// until a walk shows the known memory exactly as it is.
fn find_direct_map(
    program: &mut Program,
    thread: &Thread,
    memory: &KnownMemory,
    unknown: Geometry,
) -> Result<Geometry, SelfCheckError> {
    let pgd = program.run(thread, &unknown.request())?.identity.pgd;
    // With 4 levels the kernel's half of addresses begins here; with 5 it begins far lower, and so does its
    // direct map in practice.
    let depths = if pgd >= 0xffff_8000_0000_0000 {
        [4, 5]
    } else {
        [5, 4]
    };
    let candidates = unknown.memory_end.div_ceil(GIANT_PAGE_SIZE) + 1;
    for levels in depths {
        for below in 0..candidates {
            let direct_map = (pgd & !(GIANT_PAGE_SIZE - 1)).wrapping_sub(below * GIANT_PAGE_SIZE);
            let geometry = Geometry {
                direct_map,
                levels,
                ..unknown
            };
            if shows_mapped(&walk(program, thread, memory, &geometry)?, memory.regions()) {
                return Ok(geometry);
            }
        }
    }
    Err(SelfCheckError::NoDirectMap {
        tries: candidates * 2,
    })
}

/// Walks the known memory, in one run.
fn walk(
    program: &mut Program,
    thread: &Thread,
    memory: &KnownMemory,
    geometry: &Geometry,
) -> Result<Vec<RegionObservation>, SelfCheckError> {
    let request = Request {
        ranges: vec![memory.range()],
        ..geometry.request()
    };
    let run = program.run(thread, &request)?;
    if run.status != Status::Ok {
        return Err(SelfCheckError::NotRun(format!(
            "it ended with {:?}",
            run.status
        )));
    }
    Ok(run.regions)
}

/// Whether the walk saw each region mapped exactly as it is, and no other.
fn shows_mapped(seen: &[RegionObservation], known: &[Known]) -> bool {
    let known = known.iter().filter(|region| region.mapped > 0);
    seen.iter()
        .map(|region| (region.region.start(), region.mapped, region.page_size))
        .eq(known.map(|region| (region.start, region.mapped, region.page_size)))
}

/// Clears the known memory's Accessed bits, reads known pages, and compares. The kernel may set or clear
/// single bits in between (reclaim, DAMON), hence more than one try.
fn check_accessed(
    program: &mut Program,
    thread: &Thread,
    memory: &KnownMemory,
    geometry: &Geometry,
) -> Result<(), SelfCheckError> {
    let mut last = Ok(());
    for _ in 0..ACCESS_ATTEMPTS {
        memory
            .clear_accessed()
            .map_err(|error| SelfCheckError::Setup {
                attempted: "clear the Accessed bits of memory to check with",
                error,
            })?;
        memory.read_again();
        last = shows_accessed(&walk(program, thread, memory, geometry)?, memory.regions());
        if last.is_ok() {
            break;
        }
        memory.drain_lru_caches();
    }
    last
}

/// Every page read must be seen accessed. A processor may also set the bit of the page after one that was
/// read, by prefetching; nothing else may be seen.
fn shows_accessed(seen: &[RegionObservation], known: &[Known]) -> Result<(), SelfCheckError> {
    for region in known {
        let accessed = seen
            .iter()
            .find(|observation| observation.region.start() == region.start)
            .map_or(0, |observation| observation.accessed);
        let most = if region.page_size == PageSize::Base {
            region.read_again * 2
        } else {
            region.read_again
        };
        if !(region.read_again..=most).contains(&accessed) {
            return Err(SelfCheckError::Accessed {
                read: region.read_again,
                seen: accessed,
            });
        }
    }
    Ok(())
}

/// The physical address after the last page of memory. Memory can be added while the system runs.
///
/// # Errors
/// When `/proc/zoneinfo` cannot be read or understood.
pub(super) fn memory_end(kernel: &dyn Kernel) -> Result<u64, SelfCheckError> {
    let bytes =
        kernel
            .read(Path::new("/proc/zoneinfo"))
            .map_err(|error| SelfCheckError::Setup {
                attempted: "read /proc/zoneinfo",
                error,
            })?;
    end_of_zones(&String::from_utf8_lossy(&bytes)).ok_or(SelfCheckError::NoZones)
}

/// The highest `start_pfn` plus `spanned` of the zones, in bytes.
fn end_of_zones(zoneinfo: &str) -> Option<u64> {
    let mut spanned = 0_u64;
    let mut end = 0_u64;
    for line in zoneinfo.lines() {
        let mut words = line.split_ascii_whitespace();
        match (
            words.next(),
            words.next().and_then(|word| word.parse::<u64>().ok()),
        ) {
            (Some("spanned"), Some(pages)) => spanned = pages,
            (Some("start_pfn:"), Some(start)) if spanned > 0 => {
                end = end.max(start.saturating_add(spanned))
            }
            _ => {}
        }
    }
    end.checked_mul(BASE_PAGE_SIZE).filter(|end| *end > 0)
}

/// The bit by which AMD's memory encryption marks an encrypted page in page tables, or 0: it is part of no
/// physical address. (AMD64 Architecture Programmer's Manual, CPUID Fn8000_001F: EAX bits 0 and 1 tell of
/// SME and SEV, EBX bits 0-5 which bit.)
fn encryption_mask() -> u64 {
    const LEAF: u32 = 0x8000_001f;
    if __cpuid(0x8000_0000).eax < LEAF {
        return 0;
    }
    let leaf = __cpuid(LEAF);
    if leaf.eax & 3 == 0 {
        0
    } else {
        1 << (leaf.ebx & 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_where_the_last_zone_with_pages_does() {
        let zoneinfo = "Node 0, zone      DMA\n  pages free     2816\n        spanned  4095\n        present  3998\n  \
                        start_pfn:           1\nNode 0, zone   Normal\n        spanned  1000\n  start_pfn:  \
                        1048576\nNode 0, zone  Movable\n        spanned  0\n  start_pfn:           9999999\n";
        assert_eq!(end_of_zones(zoneinfo), Some((1_048_576 + 1000) * 4096));
        assert_eq!(end_of_zones(""), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_zone_parser_fail(text in "(?s).{0,300}") {
            let _ = end_of_zones(&text);
        }
    }
}
