//! Why Trident's tables 3 and 4 and its figure 7 come out otherwise than in the paper.

use crate::sim::reason::{Known, Number, Part, Reason};

const IN_GIANT: &str = "in giant pages, unfragmented";
const IN_HUGE: &str = "in huge pages, unfragmented";
const FRAGMENTED_GIANT: &str = "in giant pages, fragmented";
const FRAGMENTED_HUGE: &str = "in huge pages, fragmented";
const FAULTS: &str = "faults that wanted a giant page";
const PROMOTIONS: &str = "promotions to giant pages";
const MOVED: &str = "pages moved for each promotion";

pub(super) const REASONS: &[Reason] = &[
    Reason {
        of: &[Part {
            tables: &[IN_HUGE, FRAGMENTED_HUGE],
            rows: &["Btree"],
            systems: &["fault-only"],
        }],
        why: "The published Btree takes each slab of 256 KiB aligned to 2 MiB, by a mapping of its own that is as large as both, so that the first touch of each finds a whole region (and its memory grows from 10.5 to 25 GB). Here it is a heap that grows by 128 KiB, and no region is whole at its first touch.",
        known: &[
            Known::Source("trident-workloads, btree1.c, ALIGNMET"),
            Known::Run(&[Number::Cell(IN_HUGE, "Btree", "fault-only")]),
        ],
    },
    Reason {
        of: &[Part {
            tables: &[IN_GIANT, IN_HUGE, FRAGMENTED_GIANT, FRAGMENTED_HUGE],
            rows: &["Memcached"],
            systems: &["fault-only"],
        }],
        why: "In the paper faults alone map all of Memcached's 137 GB by giant and huge pages, 58 GB more than it has without them (table 2), so it maps memory by much more than a gigabyte, and fills that sparsely. Here each slab of 1 MiB is a mapping of its own, as malloc makes it: the first touch of a region finds half of it mapped. How Memcached was told to allocate, and what it was asked for, is not published.",
        known: &[
            Known::Paper("tables 2 and 3"),
            Known::Run(&[
                Number::Cell(IN_GIANT, "Memcached", "fault-only"),
                Number::Cell(IN_HUGE, "Memcached", "fault-only"),
            ]),
        ],
    },
    Reason {
        of: &[Part {
            tables: &[IN_HUGE],
            rows: &["Redis"],
            systems: &["fault-only"],
        }],
        why: "The paper's 0.5 GB is as much as a table of 2^26 words; here Redis is a heap alone, without its hash table.",
        known: &[Known::Unknown(
            "nothing; what Redis was asked for is not published.",
        )],
    },
    Reason {
        of: &[Part {
            tables: &[FRAGMENTED_GIANT, FRAGMENTED_HUGE],
            rows: &[],
            systems: &["fault-only"],
        }],
        why: "The fragmenter leaves files in all of memory but what the kernel keeps free, so here no fault finds a chunk, and few find a block. In the paper 6 to 29 % of the faults for giant pages find one.",
        known: &[
            Known::Run(&[
                Number::Cell(FAULTS, "GUPS", "fault-only"),
                Number::Cell(FAULTS, "XSBench", "fault-only"),
            ]),
            Known::Unknown(
                "no other run. The published script reads files as large as the node, a quarter less than here; they fill it as well, since the kernel has a part of it.",
            ),
        ],
    },
    Reason {
        of: &[
            Part {
                tables: &[FRAGMENTED_GIANT, FRAGMENTED_HUGE],
                rows: &["Canneal", "Graph500", "Memcached"],
                systems: &["trident-nc", "trident"],
            },
            Part {
                tables: &[PROMOTIONS],
                rows: &[],
                systems: &[],
            },
        ],
        why: "On the paper's machine pages of the kernel's own, which nobody can move, lie among the others, and one is enough to spoil a chunk. Here all of them lie in one place since the machine booted, so each chunk but the first can be emptied.",
        known: &[
            Known::Paper("section 5.1.3"),
            Known::Varied(
                "at 1/16 of the memory, with a page of the kernel's own for each 200 pages of files that the fragmenter reads, no promotion of Memcached and Canneal finds a chunk, and all of their memory becomes huge pages.",
            ),
            Known::Run(&[
                Number::Cell(PROMOTIONS, "Memcached", "trident"),
                Number::Cell(PROMOTIONS, "Canneal", "trident"),
            ]),
        ],
    },
    Reason {
        of: &[Part {
            tables: &[FRAGMENTED_HUGE],
            rows: &["XSBench"],
            systems: &["trident-nc"],
        }],
        why: "XSBench needs 15 of 24 chunks here. Half of its promotions find none, in the paper a third, and what is not giant is huge.",
        known: &[
            Known::Run(&[
                Number::Cell(PROMOTIONS, "XSBench", "trident-nc"),
                Number::Cell(PROMOTIONS, "XSBench", "trident"),
            ]),
            Known::Unknown("nothing but the above, by which it would be more that find none."),
        ],
    },
    Reason {
        of: &[
            Part {
                tables: &[IN_GIANT, IN_HUGE],
                rows: &["GUPS", "XSBench", "Canneal", "Redis", "SVM", "Graph500"],
                systems: &[],
            },
            Part {
                tables: &[FRAGMENTED_HUGE],
                rows: &["GUPS"],
                systems: &["trident-nc", "trident"],
            },
        ],
        why: "What lies before a program's first whole gigabyte and behind its last can be mapped by huge pages alone. That is up to 1 GiB each at any size, so it is a larger part of a smaller program; and of an array of little more than a gigabyte, as Canneal's is at 1/8, nothing is whole.",
        known: &[Known::Run(&[
            Number::Cell(IN_HUGE, "GUPS", "trident"),
            Number::Cell(IN_HUGE, "XSBench", "trident"),
        ])],
    },
    Reason {
        of: &[Part {
            tables: &["fragmentation of free memory"],
            rows: &[],
            systems: &[],
        }],
        why: "What is free when a program starts is what the kernel keeps for itself and never gave away: it lies in blocks since the machine booted. The index counts free memory alone, and nothing of the files that fill the rest.",
        known: &[Known::Varied(
            "at 1/16 of the memory, asked where free memory lies then: 31,744 of 34,337 pages in 62 blocks.",
        )],
    },
    Reason {
        of: &[Part {
            tables: &["the same, times that of normal compaction"],
            rows: &[],
            systems: &[],
        }],
        why: "Smart compaction moves less where some chunks hold less than others. Here files fill all of memory evenly, so the least occupied chunk is nearly full, too: of its 262,144 pages all have to be moved that reclaim has not taken by then. And normal compaction moves nothing in vain, as it does in the paper before it meets a page that cannot be moved: there is none among the files.",
        known: &[
            Known::Paper("section 5.1.3"),
            Known::Run(&[
                Number::Cell(MOVED, "Memcached", "trident-nc"),
                Number::Cell(MOVED, "Memcached", "trident"),
            ]),
        ],
    },
];
