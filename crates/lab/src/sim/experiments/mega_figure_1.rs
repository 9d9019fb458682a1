//! MEGA figure 1: contiguous memory after rounds of allocating and freeing, beside a sparse program.
//!
//! As `crates/lab/src/fragmentation/mega_figure_1.rs` does it in a guest: objects of growing size fill 10 of 16 GB and are
//! freed, while a program renews random ones of its pages, so that they lie all over memory: it touches again what it gave back
//! before, and gives another page back. (Giving a page back and touching it at once would get it the same frame, which the
//! allocator hands out first.) Each round has seven periods of compaction: six while it allocates, one at its end.

use mega_core::{BASE_PAGE_SIZE, Machine as _, bytes};

use super::pages::Pages;
use super::{COMPACTIONS, MEGA_BYTES, MEGA_KERNEL, names};
use crate::error::Error;
use crate::live::metric::Unit;
use crate::random::{Random, below};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{cells, share};
use crate::sim::system::PERIOD;
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-figure-1",
    title: "contiguity after rounds of allocating and freeing, by object size",
    source: "MEGA, figure 1",
    about: "A program allocates 10 of 16 GB in objects of 8 KiB to 128 MiB and frees all; another renews pages of its 420 MB meanwhile. What is free in blocks at the end of each round, as a share of what was at the start, under compaction policies alone: faults take base pages. The paper's Linux is `none`: a kernel that compacts only where an allocation needs a block; `linux` compacts all memory in each period.",
    memory: MEGA_BYTES,
    scale: 2,
    run,
};

/// The place of what the paper's figure shows: a kernel that compacts only where an allocation needs a block.
const LINUX: usize = 0;
/// Section 3.4: 10.9 GB are free at the start and 8.3 GB after the first round; none from 32 MB on.
const AFTER_THE_FIRST: f64 = 8.3 / 10.9;
const NONE_FROM: u64 = 32 << 20;

const SMALLEST_OBJECT: u64 = 8 << 10;
const LARGEST_OBJECT: u64 = 128 << 20;
const PERIODS_WHILE_ALLOCATING: u64 = 6;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memory_bytes = setting.scale.bytes(MEGA_BYTES);
    let mut happened = Vec::new();
    let mut kept: Vec<Vec<f64>> = Vec::new();
    let mut moved = Vec::new();
    for system in COMPACTIONS {
        (setting.progress)(system.name);
        let hardware = hardware::mega_notebook();
        let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
        bed.boot(setting.scale.bytes(MEGA_KERNEL));
        kept.push(rounds(&mut bed, setting)?);
        moved.push(bed.compacted().migrated);
        happened.push(bed.happened());
    }
    let systems = names(&COMPACTIONS);
    let rows = (0..).zip(objects()).map(|(round, object)| {
        let ours = kept.iter().map(|of| of.get(round).copied()).collect();
        let mut paper = vec![None; COMPACTIONS.len()];
        if round == 0 {
            paper[LINUX] = Some(AFTER_THE_FIRST);
        } else if object >= NONE_FROM {
            paper[LINUX] = Some(0.0);
        }
        Row::beside(bytes::format(object), ours, paper)
    });
    Ok(Findings {
        memory_bytes,
        tables: vec![
            Table::new(
                "free in blocks after each round, of what was at the start",
                Unit::Share,
                systems.clone(),
                rows.collect(),
            )
            .by_course(),
            Table::new(
                "pages moved in all rounds",
                Unit::Count,
                systems,
                vec![Row::ours("moved", cells(moved))],
            ),
        ],
        happened,
    })
}

fn objects() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(SMALLEST_OBJECT), |size| Some(size * 2))
        .take_while(|&size| size <= LARGEST_OBJECT)
}

/// What is free in blocks after each round, as a share of what was before.
fn rounds(bed: &mut Testbed, setting: &Setting<'_>) -> Result<Vec<f64>, Error> {
    let before = bed.free_blocks();
    let mut sparse = Sparse::start(bed, setting.scale.bytes(420 << 20), setting.seed)?;
    let contents = Pages::map(bed, setting.scale.bytes(10 << 30));
    let mut kept = Vec::new();
    for object in objects() {
        allocate(bed, &contents, &mut sparse, object)?;
        let pages = object / BASE_PAGE_SIZE;
        for number in 0..contents.count.div_ceil(pages) {
            contents.free(bed, number * pages..(number + 1) * pages);
        }
        period(bed);
        kept.push(share(bed.free_blocks(), before));
    }
    Ok(kept)
}

fn period(bed: &mut Testbed) {
    bed.compact_once();
    bed.machine.rest(PERIOD);
}

/// Touches all objects, one after the other, with the sparse program at work meanwhile: it renews all its pages once.
fn allocate(
    bed: &mut Testbed,
    objects: &Pages,
    sparse: &mut Sparse,
    object: u64,
) -> Result<(), Error> {
    let every = (objects.count / sparse.pages.count).max(1);
    let in_period = objects.count.div_ceil(PERIODS_WHILE_ALLOCATING);
    let object = object / BASE_PAGE_SIZE;
    for page in 0..objects.count {
        objects.touch(bed, page)?;
        // It runs between two allocations, not in the middle of one.
        if (page + 1) % object.max(every) == 0 {
            for _ in 0..(object / every).max(1) {
                sparse.renew_one(bed)?;
            }
        }
        if (page + 1) % in_period == 0 {
            period(bed);
        }
    }
    Ok(())
}

/// A program whose pages lie all over memory. It has all of them but one.
struct Sparse {
    pages: Pages,
    missing: u64,
    random: Random,
}

impl Sparse {
    fn start(bed: &mut Testbed, bytes: u64, seed: u64) -> Result<Self, Error> {
        let pages = Pages::map(bed, bytes);
        for page in 1..pages.count {
            pages.touch(bed, page)?;
        }
        Ok(Sparse {
            pages,
            missing: 0,
            random: Random::new(seed),
        })
    }

    /// Gets the page that is missing, and gives a random one back.
    fn renew_one(&mut self, bed: &mut Testbed) -> Result<(), Error> {
        self.pages.touch(bed, self.missing)?;
        let pages = usize::try_from(self.pages.count).unwrap_or(usize::MAX);
        self.missing = below(self.random.word(), pages) as u64;
        self.pages.free(bed, self.missing..self.missing + 1);
        Ok(())
    }
}
