//! What the Trident paper measured (MICRO '21, tables 3 and 4).

use super::shape::Shape;

/// GB mapped by 1 GiB pages, and by 2 MiB pages.
pub(super) type Mapped = (f64, f64);

/// One of the paper's programs.
pub(super) struct PaperProgram {
    pub(super) name: &'static str,
    /// The shape here that stands for it.
    pub(super) shape: Shape,
    /// GB.
    pub(super) footprint: f64,
    /// By faults only, with sequential compaction, with smart compaction.
    pub(super) unfragmented: [Mapped; 3],
    pub(super) fragmented: [Mapped; 3],
    /// Percent of allocations of 1 GiB that failed, at faults (where there were any) and at promotion; fragmented.
    pub(super) failed: (Option<f64>, f64),
}

pub(super) const PROGRAMS: [PaperProgram; 8] = [
    PaperProgram {
        name: "XSBench",
        shape: Shape::AtOnce,
        footprint: 117.0,
        unfragmented: [(114.0, 2.94), (116.0, 1.2), (116.0, 1.2)],
        fragmented: [(6.0, 5.3), (79.0, 38.1), (80.0, 37.1)],
        failed: (Some(94.0), 32.0),
    },
    PaperProgram {
        name: "GUPS",
        shape: Shape::AtOnce,
        footprint: 32.0,
        unfragmented: [(31.0, 1.0), (31.0, 1.0), (31.0, 1.0)],
        fragmented: [(9.0, 2.5), (31.0, 1.0), (31.0, 1.0)],
        failed: (Some(71.0), 0.0),
    },
    PaperProgram {
        name: "SVM",
        shape: Shape::AtOnce,
        footprint: 68.5,
        unfragmented: [(54.0, 14.3), (65.0, 3.5), (65.0, 3.5)],
        fragmented: [(6.0, 5.0), (53.0, 12.2), (54.0, 9.9)],
        failed: (Some(88.0), 19.0),
    },
    PaperProgram {
        name: "Graph500",
        shape: Shape::AtOnce,
        footprint: 63.5,
        unfragmented: [(59.0, 4.01), (60.0, 3.35), (60.0, 3.35)],
        fragmented: [(5.0, 5.8), (37.0, 24.2), (38.0, 23.6)],
        failed: (Some(91.0), 38.0),
    },
    PaperProgram {
        name: "Memcached",
        shape: Shape::ByArrays,
        footprint: 137.0,
        unfragmented: [(16.0, 121.0), (121.0, 16.0), (121.0, 16.0)],
        fragmented: [(9.0, 60.0), (12.0, 55.0), (16.0, 60.0)],
        failed: (Some(43.0), 81.0),
    },
    PaperProgram {
        name: "Canneal",
        shape: Shape::ByArrays,
        footprint: 32.0,
        unfragmented: [(8.0, 1.0), (30.0, 2.0), (30.0, 2.0)],
        fragmented: [(6.0, 1.0), (6.0, 21.0), (8.0, 22.0)],
        failed: (Some(12.0), 92.0),
    },
    PaperProgram {
        name: "Redis",
        shape: Shape::BySteps,
        footprint: 44.0,
        unfragmented: [(0.0, 0.5), (39.0, 3.4), (39.0, 3.4)],
        fragmented: [(0.0, 0.0), (25.0, 10.3), (28.0, 14.3)],
        failed: (None, 36.0),
    },
    PaperProgram {
        name: "Btree",
        shape: Shape::BySteps,
        footprint: 25.0,
        unfragmented: [(0.0, 16.7), (16.0, 5.8), (16.0, 5.8)],
        fragmented: [(0.0, 11.7), (8.0, 12.73), (12.0, 8.91)],
        failed: (None, 25.0),
    },
];
