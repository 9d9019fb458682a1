//! MEGA figure 1: contiguous memory after rounds of allocating and freeing, beside a sparse program.
//!
//! As `crates/lab/src/fragmentation/mega_figure_1.rs` does it in a guest: objects of growing size fill 10 of 16 GB and are
//! freed, while a program renews random ones of its pages, so that they lie all over memory: it touches again what it gave back
//! before, and gives another page back. (Giving a page back and touching it at once would get it the same frame, which the
//! allocator hands out first.) Each round has seven periods of compaction: six while it allocates, one at its end.
//!
//! How many of its pages the program renews in a round the paper does not say. It is all of them, once; and for the kernel that the
//! paper's figure is about, other parts of them as well.

use mega_core::{BASE_PAGE_SIZE, Machine as _, bytes};

use super::pages::Pages;
use super::{COMPACTIONS, MEGA_BYTES, names};
use crate::error::Error;
use crate::live::metric::Unit;
use crate::random::{Random, below};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{cells, share};
use crate::sim::reason::{Known, Number, Part, Reason};
use crate::sim::system::{PERIOD, System};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-figure-1",
    title: "contiguity after rounds of allocating and freeing, by object size",
    source: "MEGA, figure 1",
    about: "Of 16 GB 10.9 are free. A program allocates 10 of them in objects of 8 KiB to 128 MiB and frees all; another renews each page of its 420 MB meanwhile. What is free in blocks at the end of each round, as a share of what was at the start, under compaction policies alone: faults take base pages. The paper's Linux is `none`: a kernel that compacts only where an allocation needs a block; `linux` compacts all memory in each period. Then, with `none`, the same where the other program renews only a part of its pages in a round, or each several times: the paper does not say how many.",
    memory: MEGA_BYTES,
    scale: 1,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[
    Reason {
        of: &[Part {
            tables: &["free in blocks after each round"],
            rows: &["8 KiB"],
            systems: &["none"],
        }],
        why: "How many of its pages the sparse program renews in a round the paper does not say. Here it is each of them once, after which all blocks but a few have one; where it is one in 64 or fewer, about as much is kept as in the paper.",
        known: &[Known::Run(&[
            Number::Cell("the same with none", "8 KiB", "1/256"),
            Number::Cell("the same with none", "8 KiB", "1/64"),
            Number::Cell("the same with none", "8 KiB", "1"),
        ])],
    },
    Reason {
        of: &[Part {
            tables: &["free in blocks after each round"],
            rows: &["32 MiB", "64 MiB", "128 MiB"],
            systems: &["none"],
        }],
        why: "Neither program needs 5 % of what is free, and here nobody else takes that. The rest is kept since renewals come between two objects: between large ones many come in a row, and each gets the frame that the one before gave back, so that few blocks are spoiled. Where fewer pages are renewed, fewer come in a row.",
        known: &[Known::Run(&[
            Number::Cell("free in blocks after each round", "2 MiB", "none"),
            Number::Cell("the same with none", "128 MiB", "1/16"),
            Number::Cell("the same with none", "128 MiB", "1/4"),
            Number::Cell("the same with none", "128 MiB", "1"),
            Number::Cell("the same with none", "128 MiB", "4"),
        ])],
    },
];

/// The place of what the paper's figure shows: a kernel that compacts only where an allocation needs a block.
const LINUX: usize = 0;
/// Section 3.4: 10.9 GB are free at the start and 8.3 GB after the first round; none from 32 MB on.
const FREE: f64 = 10.9;
const AFTER_THE_FIRST: f64 = 8.3 / FREE;
const NONE_FROM: u64 = 32 << 20;
/// What else uses memory, the kernel among it, and does not move.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
const IN_USE: u64 = MEGA_BYTES - (FREE * (1_u64 << 30) as f64) as u64;

/// Times that each page is renewed in a round, for all systems.
const ONCE: f64 = 1.0;
/// The same for the paper's Linux alone.
const TIMES: [(f64, &str); 6] = [
    (1.0 / 256.0, "1/256"),
    (1.0 / 64.0, "1/64"),
    (1.0 / 16.0, "1/16"),
    (0.25, "1/4"),
    (ONCE, "1"),
    (4.0, "4"),
];

const SMALLEST_OBJECT: u64 = 8 << 10;
const LARGEST_OBJECT: u64 = 128 << 20;
const PERIODS_WHILE_ALLOCATING: u64 = 6;

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened = Vec::new();
    let mut kept = Vec::new();
    let mut moved = Vec::new();
    for system in COMPACTIONS {
        (setting.progress)(system.name);
        let mut bed = booted(system, setting)?;
        kept.push(rounds(&mut bed, ONCE, setting)?);
        moved.push(bed.compacted().migrated);
        happened.push(bed.happened());
    }
    let mut by_times = Vec::new();
    for (times, name) in TIMES {
        (setting.progress)(&format!("{name} renewals of each page"));
        let mut bed = booted(COMPACTIONS[LINUX], setting)?;
        by_times.push(rounds(&mut bed, times, setting)?);
    }
    let systems = names(&COMPACTIONS);
    let rows = by_object(&kept, of_the_paper);
    let times = TIMES.map(|(_, name)| name.to_owned()).to_vec();
    Ok(Findings {
        memory_bytes: setting.scale.bytes(MEGA_BYTES),
        tables: vec![
            Table::new(
                "free in blocks after each round, of what was at the start",
                Unit::Share,
                systems.clone(),
                rows,
            )
            .by_course(),
            Table::new(
                "pages moved in all rounds",
                Unit::Count,
                systems,
                vec![Row::ours("moved", cells(moved))],
            ),
            Table::new(
                "the same with none, by how often each page is renewed in a round",
                Unit::Share,
                times,
                by_object(&by_times, |_, _| None),
            )
            .by_course()
            .uncounted(),
        ],
        happened,
    })
}

/// A machine of which programs can have so much as was free in the paper. What the kernel keeps free for itself counts as in use: it
/// is half a percent of the paper's memory, and a twentieth of a small machine's.
fn booted(system: System, setting: &Setting<'_>) -> Result<Testbed, Error> {
    let memory_bytes = setting.scale.bytes(MEGA_BYTES);
    let hardware = hardware::mega_notebook();
    let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
    let kept = bed.machine.kernel().memory().kept_frames() * BASE_PAGE_SIZE;
    bed.boot(setting.scale.bytes(IN_USE).saturating_sub(kept));
    Ok(bed)
}

/// What is kept after the round with such objects, in the paper.
fn of_the_paper(round: usize, object: u64) -> Option<f64> {
    if round == 0 {
        Some(AFTER_THE_FIRST)
    } else if object >= NONE_FROM {
        Some(0.0)
    } else {
        None
    }
}

/// A row for each size of objects, given what is kept after each round in each column, and in the paper's place.
fn by_object(kept: &[Vec<f64>], of_the_paper: impl Fn(usize, u64) -> Option<f64>) -> Vec<Row> {
    let rows = objects().enumerate().map(|(round, object)| {
        let ours = kept.iter().map(|of| of.get(round).copied()).collect();
        let mut paper = vec![None; kept.len()];
        paper[LINUX] = of_the_paper(round, object);
        Row::beside(bytes::format(object), ours, paper)
    });
    rows.collect()
}

fn objects() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(SMALLEST_OBJECT), |size| Some(size * 2))
        .take_while(|&size| size <= LARGEST_OBJECT)
}

/// What is free in blocks after each round, as a share of what was before. Each page is renewed so many times in a round.
fn rounds(bed: &mut Testbed, times: f64, setting: &Setting<'_>) -> Result<Vec<f64>, Error> {
    let before = bed.free_blocks();
    let mut sparse = Sparse::start(bed, setting.scale.bytes(420 << 20), setting.seed)?;
    let contents = Pages::map(bed, setting.scale.bytes(10 << 30));
    let mut kept = Vec::new();
    for object in objects() {
        allocate(bed, &contents, &mut sparse, times, object)?;
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

/// Touches all objects, one after the other, with the sparse program at work meanwhile: it renews as many pages as it has, so many `times`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn allocate(
    bed: &mut Testbed,
    objects: &Pages,
    sparse: &mut Sparse,
    times: f64,
    object: u64,
) -> Result<(), Error> {
    let renewals = sparse.pages.count as f64 * times;
    let every = ((objects.count as f64 / renewals) as u64).max(1);
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
