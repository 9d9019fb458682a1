//! Processors: their TLBs, page-walk caches and caches, each number with its public source.
//!
//! `docs/simulator.md` says which numbers were held against their source.

/// Entries and ways of something that caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Entries; for a cache of data, lines of 64 bytes.
    pub entries: usize,
    /// Ways of each set; as many as entries where any entry can lie anywhere.
    pub ways: usize,
}

const fn cache(entries: usize, ways: usize) -> Cache {
    Cache { entries, ways }
}

/// Lines of a cache of so many KiB.
const fn lines(kib: usize, ways: usize) -> Cache {
    Cache {
        entries: kib * 16,
        ways,
    }
}

/// Where the L2 TLB keeps giant pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiantL2 {
    /// In entries of their own.
    Own(Cache),
    /// As the huge pages that they consist of.
    AsHuge,
    /// Nowhere.
    None,
}

/// Where the upper entries that a walk reads are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkCaches {
    /// Those of the PML4, of the PDPT and of the PD in a cache each.
    Own([Cache; 3]),
    /// Those of the PML4 and of the PDPT in one cache, and those of the PD in the L2 TLB.
    DirectoriesInL2(Cache),
}

/// What a processor translates addresses with, and how long its memory takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its name.
    pub name: &'static str,
    /// Cycles in a second, by which all cycles here are told.
    pub hertz: u64,
    /// L1 TLB for data: base, huge and giant pages. On AMD all sizes share one: then the three are alike, and
    /// `shares_l1` is set.
    pub l1: [Cache; 3],
    /// Whether the L1 TLB is one for all sizes.
    pub shares_l1: bool,
    /// L2 TLB of base and huge pages together.
    pub l2: Cache,
    /// What it does with giant pages.
    pub l2_giant: GiantL2,
    /// Cycles that a hit in the L2 TLB costs.
    pub l2_hit: u64,
    /// Page-walk caches.
    pub walk_caches: WalkCaches,
    /// Caches of data, from the first level on, which page tables share with programs; and the cycles of a hit in each.
    pub caches: [(Cache, u64); 3],
    /// Cycles of a line from memory.
    pub memory: u64,
}

/// Page-walk caches of Intel's: 2 PML4 entries, 4 PDPT entries, 32 PD entries (Barr, Cox and Rixner, ISCA '10, for the first
/// two; van Schaik and others, "Reverse Engineering Hardware Page Table Caches", 2017, for all on Haswell and Skylake).
const INTEL_WALK: WalkCaches = WalkCaches::Own([cache(2, 2), cache(4, 4), cache(32, 4)]);

/// Page-walk caches of AMD's: 64 entries for the PML4 and the PDPT together, and the PD's in the L2 TLB (AMD's Software Optimization Guide
/// for family 17h, from Zen 1 on, as Chips and Cheese quotes it, "Deep Diving Neoverse N1"; WikiChip, "Zen 2", for the second). That any
/// of the 64 can lie anywhere is an assumption.
const AMD_WALK: WalkCaches = WalkCaches::DirectoriesInL2(cache(64, 64));

/// Trident's machine: Xeon Gold 6140, Skylake-SP, 2.3 GHz.
///
/// - TLBs: the paper's table 1; Intel's Optimization Reference Manual has the same.
/// - L2 TLB hit 7 cycles: the manual's "STLB hit" for Skylake; beyond the L1 lookup.
/// - Caches 32 KiB, 1 MiB, 24.75 MiB (11 ways, of which a core can use all): the paper's table 1 and WikiChip; 4, 14 and 70
///   cycles: the manual's tables for Skylake server (L3: 50 to 70); 7-cpu.com has 4, 14 and 68 for Skylake-X.
/// - Memory on the same socket 80 ns, 184 cycles: what Intel's top-down analysis charges for it (pmu-tools, `skx_server_ratios.py`:
///   `Mem_Local_DRAM_Cost`).
pub const SKYLAKE_SP: Processor = Processor {
    name: "skylake-sp",
    hertz: 2_300_000_000,
    l1: [cache(64, 4), cache(32, 4), cache(4, 4)],
    shares_l1: false,
    l2: cache(1536, 12),
    l2_giant: GiantL2::Own(cache(16, 4)),
    l2_hit: 7,
    walk_caches: INTEL_WALK,
    caches: [
        (lines(32, 8), 4),
        (lines(1024, 16), 14),
        (lines(25_344, 11), 70),
    ],
    memory: 184,
};

/// MEGA's machine: the paper says "Intel i7 @ 2,3GHz, 16GB DDR3", which a Core i7-4850HQ (Haswell) is; that it is this one is
/// an assumption.
///
/// - TLBs: Intel's Optimization Reference Manual, Haswell: 64, 32 and 4 entries; L2 1024 entries of 8 ways for base and huge
///   pages, none for giant ones.
/// - L2 TLB hit 7 cycles: what Intel's top-down analysis charges for it (`MEM_STLB_HIT_COST` of pmu-tools' model of Haswell).
/// - Caches 32 KiB, 256 KiB, 6 MiB: Intel's product page (its 128 MiB of eDRAM is left out); 4, 12 and 36 cycles: 7-cpu.com, for
///   an i7-4770.
/// - Memory 36 cycles and 57 ns, so 167 cycles: the same page.
pub const HASWELL: Processor = Processor {
    name: "haswell",
    hertz: 2_300_000_000,
    l1: [cache(64, 4), cache(32, 4), cache(4, 4)],
    shares_l1: false,
    l2: cache(1024, 8),
    l2_giant: GiantL2::None,
    l2_hit: 7,
    walk_caches: INTEL_WALK,
    caches: [
        (lines(32, 8), 4),
        (lines(256, 8), 12),
        (lines(6144, 12), 36),
    ],
    memory: 167,
};

/// AMD Zen 2 as in a server: EPYC 7742 at 3.4 GHz.
///
/// - TLBs: WikiChip: L1 64 entries for all sizes, anywhere; L2 2048 entries, 12 ways (2040 here, a whole number of sets), base and
///   huge pages, giant ones as huge ones.
/// - L2 TLB hit 7 cycles: AMD's Software Optimization Guide for family 17h.
/// - Page-walk caches: `AMD_WALK`.
/// - Caches 32 KiB, 512 KiB, 16 MiB for each four cores, 8, 8 and 16 ways: 7-cpu.com; 4, 13 and 34 cycles: AnandTech, "AMD Rome Second
///   Generation EPYC Review".
/// - Memory 107 ns, 364 cycles: the same article has 113 ns for random touches of 128 MiB where each socket is four nodes; of them 20
///   cycles are the walk, whose entries fit the L2 cache.
pub const ZEN_2: Processor = Processor {
    name: "zen-2",
    hertz: 3_400_000_000,
    l1: [cache(64, 64), cache(64, 64), cache(64, 64)],
    shares_l1: true,
    l2: cache(2040, 12),
    l2_giant: GiantL2::AsHuge,
    l2_hit: 7,
    walk_caches: AMD_WALK,
    caches: [
        (lines(32, 8), 4),
        (lines(512, 8), 13),
        (lines(16_384, 16), 34),
    ],
    memory: 364,
};

/// AMD Zen 5 as in a server: EPYC 9355P at 4.4 GHz.
///
/// - TLBs: AMD's Software Optimization Guide for Zen 5 (58455): L1 96 entries, anywhere; L2 4096 entries, 16 ways. That all sizes
///   share them, and giant pages are as huge ones in the second, is taken over from Zen 2.
/// - L2 TLB hit 7 cycles: Chips and Cheese, "AMD's Strix Point: Zen 5 Hits Mobile".
/// - Page-walk caches: `AMD_WALK`. Chips and Cheese, "Zen 5's Leaked Slides": known from Zen 1 to Zen 4, perhaps larger here.
/// - Caches 48 KiB, 1 MiB, 32 MiB, 12, 16 and 16 ways; 4 and 14 cycles: the guide. L3 10.58 ns, 47 cycles: Chips and Cheese, "AMD's
///   EPYC 9355P: Inside a 32 Core Zen 5 Server Chip".
/// - Memory 130 ns, 572 cycles: the same article has 220 ns with memory of all dies interleaved, and 90 ns less without.
pub const ZEN_5: Processor = Processor {
    name: "zen-5",
    hertz: 4_400_000_000,
    l1: [cache(96, 96), cache(96, 96), cache(96, 96)],
    shares_l1: true,
    l2: cache(4096, 16),
    l2_giant: GiantL2::AsHuge,
    l2_hit: 7,
    walk_caches: AMD_WALK,
    caches: [
        (lines(48, 12), 4),
        (lines(1024, 16), 14),
        (lines(32_768, 16), 47),
    ],
    memory: 572,
};

/// Intel Sapphire Rapids (Golden Cove): Xeon Platinum 8480+ at 3.0 GHz, its turbo with all cores. Emerald Rapids has nearly the
/// same core (Raptor Cove), and a larger L3. The frequency and the size of the L3 were read as others quote Intel.
///
/// - L1 TLB: 96 entries for base pages: Intel's Architecture Day 2021. Its ways, and 32 and 8 entries for larger pages: CPUID, leaf 18h
///   (Bochs, `sapphire_rapids.cc`, has that of a Xeon w9-3475X, with 64 entries of 4 ways for base pages; so 96 of 6 here).
/// - L2 TLB: the same leaf: 1024 entries of 8 ways for base and huge pages, and 1024 of 8 ways for base and giant pages. Here 2048
///   of 16 ways hold base and huge pages, which is too many of these, and giant pages have 1024 to themselves.
/// - L2 TLB hit 7 cycles, L3 37 ns (111 cycles), memory on the same socket 108 ns (324 cycles): what Intel's top-down analysis charges
///   for them (pmu-tools, `spr_server_ratios.py`: `Mem_STLB_Hit_Cost`, `Mem_XSNP_None_Cost`, `Mem_Local_DRAM_Cost`).
/// - L2 cache 15 cycles: its 4 ns for it (`Mem_L2_Hit_Cost`) at the 3.8 GHz of one busy core. L1 cache 5 cycles: Chips and Cheese,
///   "Going Armchair Quarterback on Golden Cove's Caches".
/// - Caches 48 KiB, 2 MiB and 105 MiB: Intel's product page; 12, 16 and 15 ways: CPUID, leaf 4, in the same file of Bochs's.
/// - Page-walk caches: those of Skylake, the newest that anybody has measured. ChampSim (`inc/defaults.hpp`), whose default core has the
///   reorder buffer, the queues and the L1 cache of Sunny Cove, this one's forerunner, has 32 PD entries, too, and 8 and 4 above them.
pub const SAPPHIRE_RAPIDS: Processor = Processor {
    name: "sapphire-rapids",
    hertz: 3_000_000_000,
    l1: [cache(96, 6), cache(32, 4), cache(8, 8)],
    shares_l1: false,
    l2: cache(2048, 16),
    l2_giant: GiantL2::Own(cache(1024, 8)),
    l2_hit: 7,
    walk_caches: INTEL_WALK,
    caches: [
        (lines(48, 12), 5),
        (lines(2048, 16), 15),
        (lines(107_520, 15), 111),
    ],
    memory: 324,
};

/// All that there are.
pub const PROCESSORS: [&Processor; 5] = [&SKYLAKE_SP, &HASWELL, &ZEN_2, &ZEN_5, &SAPPHIRE_RAPIDS];
