//! Processors: their TLBs, page-walk caches and caches, each number with its public source.
//!
//! `docs/simulator.md` says which numbers were held against their source, which are assumptions, and where sources say otherwise.
//! "InstLatx64" is the collection of CPUID dumps and latencies in github.com/InstLatx64/InstLatx64; the file is named.

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
///
/// Their ways are an assumption. For 32 PD entries simulators choose 4 ways, as here (Victima,
/// `sniper/config/virtual_memory_configs/common_translation.cfg`), or 8 (ChampSim, `inc/defaults.hpp`). The few above them can lie anywhere.
const INTEL_WALK: WalkCaches = WalkCaches::Own([cache(2, 2), cache(4, 4), cache(32, 4)]);

/// Page-walk caches of AMD's: 64 entries for the PML4 and the PDPT together, and the PD's in the L2 TLB (AMD's Software Optimization Guide
/// for family 17h, from Zen 1 on, as Chips and Cheese quotes it, "Deep Diving Neoverse N1"; WikiChip, "Zen 2", for the second). That any
/// of the 64 can lie anywhere is an assumption.
const AMD_WALK: WalkCaches = WalkCaches::DirectoriesInL2(cache(64, 64));

/// Trident's machine: Xeon Gold 6140, Skylake-SP, 2.3 GHz.
///
/// - 2.3 GHz: the paper's table 1.
/// - TLBs: the paper's table 1; Intel's Optimization Reference Manual has the same.
/// - L2 TLB hit 7 cycles: the manual's "STLB hit" for Skylake; beyond the L1 lookup. Others have 9 (pmu-tools, `skx_server_ratios.py`:
///   `Mem_STLB_Hit_Cost`; InstLatx64, `GenuineIntel0050654_SkylakeX_NewMemLat.txt`: 23 in place of 14, beyond 64 pages).
/// - Caches 32 KiB, 1 MiB, 24.75 MiB: the paper's table 1 and WikiChip; 8, 16 and 11 ways, and a core can use all: WikiChip, and the
///   CPUID of a Xeon Platinum 8160 (InstLatx64, `GenuineIntel0050654_SkylakeXeon_20_CPUID.txt`). 4, 14 and 70 cycles: the manual's
///   tables for Skylake server (L3: 50 to 70); 7-cpu.com has 4, 14 and 68 for Skylake-X.
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
/// - 2.3 GHz: the paper.
/// - TLBs: Intel's Optimization Reference Manual, Haswell: 64, 32 and 4 entries; L2 1024 entries of 8 ways for base and huge
///   pages, none for giant ones. The CPUID of an i7-4770R, which is a Crystal Well as the i7-4850HQ is, has the same
///   entries and ways (InstLatx64, `GenuineIntel0040661_CrystalWell_CPUID.txt`: leaf 2).
/// - L2 TLB hit 7 cycles: what Intel's top-down analysis charged for it (`MEM_STLB_HIT_COST` of pmu-tools' model of Haswell, which
///   has 8 since 2017).
/// - Caches 32 KiB, 256 KiB, 6 MiB: Intel's product page (its 128 MiB of eDRAM is left out); 8, 8 and 12 ways: leaf 4 of the same
///   CPUID. 4, 12 and 36 cycles: 7-cpu.com, for an i7-4770.
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
/// - 3.4 GHz: its highest boost clock, at which AnandTech ("AMD Rome Second Generation EPYC Review") tells its latencies.
/// - TLBs: WikiChip: L1 64 entries for all sizes, anywhere; L2 2048 entries, 12 ways (2040 here, a whole number of sets), base and
///   huge pages, giant ones as huge ones. Its CPUID has 64 and 2048 as well, but in the L2 TLB 8 ways for base pages, 4 for huge ones
///   and nothing for giant ones (InstLatx64, `AuthenticAMD0830F10_K17_Rome_CPUID.txt`: leaves 80000005h, 80000006h and 80000019h).
/// - L2 TLB hit 7 cycles: AMD's Software Optimization Guide for family 17h. Measured latencies have 6 (InstLatx64,
///   `AuthenticAMD0830F10_K17_Rome_NewMemLat.txt`: 19 in place of 13, beyond 64 pages).
/// - Page-walk caches: `AMD_WALK`.
/// - Caches 32 KiB, 512 KiB, 16 MiB for each four cores, 8, 8 and 16 ways: 7-cpu.com, and the same CPUID; 4, 13 and 34 cycles:
///   AnandTech's review.
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
/// - 4.4 GHz: "it clocks up to 4.4 GHz", Chips and Cheese, "AMD's EPYC 9355P: Inside a 32 Core Zen 5 Server Chip".
/// - TLBs: AMD's Software Optimization Guide for Zen 5 (58455): L1 96 entries, anywhere; L2 4096 entries, 16 ways. The CPUID of an EPYC
///   9655 has as many, in the L2 TLB of 8 ways for base pages and 4 for huge ones (InstLatx64,
///   `AuthenticAMD0B00F21_K20_Turin_01_CPUID.txt`: leaves 80000005h and 80000006h, in units of 32).
/// - That all sizes share the first is an assumption, taken over from Zen 2: the CPUID has 96 entries for each of the three, anywhere.
/// - That giant pages are as huge ones in the second is an assumption, taken over from Zen 2. AMD's slides say "everything but 1G" ("Next
///   Generation Zen 5 Core", Hot Chips 2024); leaf 80000019h has 32 entries of 4 ways for them (1,024 if counted in units of 32).
/// - L2 TLB hit 7 cycles: Chips and Cheese, "AMD's Strix Point: Zen 5 Hits Mobile".
/// - Page-walk caches: `AMD_WALK`. Chips and Cheese, "Zen 5's Leaked Slides": known from Zen 1 to Zen 4, perhaps larger here.
/// - Caches 48 KiB, 1 MiB, 32 MiB, 12, 16 and 16 ways: the guide, and the same CPUID; 4 and 14 cycles: the guide. L3 10.58 ns, 47 cycles:
///   the article on the EPYC 9355P.
/// - Memory 130 ns, 572 cycles: Chips and Cheese, "Evaluating Uniform Memory Access Mode on AMD's Turin", has over 220 ns where two
///   sockets' memory is interleaved (EPYC 9575F), nearly 90 ns more than an EPYC 9355P whose socket is one node.
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
/// same core (Raptor Cove), and a larger L3.
///
/// - 3.0 GHz is an assumption: it was read where others quote Intel, and no page of Intel's was found that has it.
/// - L1 TLB, larger pages: 32 and 8 entries, with their ways: CPUID, leaf 18h, of a Xeon w9-3475X (Bochs, `sapphire_rapids.cc`;
///   InstLatx64, `GenuineIntel00806F8_SapphireRapids_06_CPUID.txt`).
/// - L1 TLB, base pages: 96 entries: Intel's Architecture Day 2021, as reports of it tell (cpunews.net, on Alder Lake: 96 in place of 64).
///   That leaf has 64 of 4 ways for loads and 16 for stores. The 6 ways of the 96 are an assumption: as many sets as those 64 have.
/// - L2 TLB: the same leaf: 1024 entries of 8 ways for base and huge pages, and 1024 of 8 ways for base and giant pages. Here 2048
///   of 16 ways hold base and huge pages, which is too many of these, and giant pages have 1024 to themselves.
/// - L2 TLB hit 7 cycles, L3 37 ns (111 cycles), memory on the same socket 108 ns (324 cycles): what Intel's top-down analysis charges
///   for them (pmu-tools, `spr_server_ratios.py`: `Mem_STLB_Hit_Cost`, `Mem_XSNP_None_Cost`, `Mem_Local_DRAM_Cost`), in its versions 4.5
///   and 4.6, of 2023. Version 5.1, of 2026, has 7 cycles, 12 ns and 66.5 ns.
/// - L2 cache 15 cycles: its 4 ns for it (`Mem_L2_Hit_Cost`; 3 ns in version 5.1) at the 3.8 GHz of one busy core. L1 cache 5 cycles:
///   Chips and Cheese, "Going Armchair Quarterback on Golden Cove's Caches".
/// - Caches 48 KiB, 2 MiB and 105 MiB: Intel's product page, the last as others quote it; 12, 16 and 15 ways: CPUID, leaf 4, in the same
///   file of Bochs's.
/// - Page-walk caches are an assumption: those of Skylake, the newest that anybody has measured. ChampSim (`inc/defaults.hpp`), whose
///   default core has the reorder buffer, the queues and the L1 cache of Sunny Cove, this one's forerunner, has 32 PD entries, too, and
///   8 and 4 above them.
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
