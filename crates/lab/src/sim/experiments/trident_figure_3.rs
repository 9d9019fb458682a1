//! Trident figure 3: how much of what programs allocate giant pages can map, and huge pages alone.
//!
//! Nobody has a trace of the paper's programs. What they allocate follows from their code and their data: Graph500's reference code
//! (2.1, `omp-csr`) with 2^27 vertices and 16 edges for each, and LIBLINEAR (`train.c`, `linear.cpp`, `-s 6`, which keeps the data a second
//! time by columns) with kdd2012. Both come within 5 % of the paper's sizes. Each array is a mapping of
//! malloc's: as large as the array and a page. The kernel (4.17, as the paper's) puts it below the others, or into the highest gap that it
//! fits.

use mega_core::{BASE_PAGE_SIZE, PageSize};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Pid;
use mega_sim::physical::Layout;
use mega_sim::{Kernel, Settings};

use super::TRIDENT_NODE;
use crate::error::Error;
use crate::live::metric::Unit;
use crate::random::{Random, below};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::kdd2012::{FEATURES, INSTANCES, NODE, VALUES};
use crate::sim::reason::{Known, Number, Part, Reason};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "trident-figure-3",
    title: "memory of programs that giant pages can map, and that huge pages alone can",
    source: "Trident, figure 3",
    about: "Two programs allocate arrays of the sizes that their code and data give: Graph500's reference code with 2^27 vertices, and LIBLINEAR with kdd2012. No policy is at work: what counts is how the arrays lie in the address space of Linux 4.17, on average over 64 places of the first. The figure has no numbers in print; the paper's here are those of its table 3: what Trident mapped by giant and by huge pages in memory that is not fragmented, of what the program has.",
    memory: TRIDENT_NODE,
    scale: 1,
    reasons: REASONS,
    run,
};

const REASONS: &[Reason] = &[Reason {
    of: &[Part {
        tables: &["parts that"],
        rows: &["Graph500"],
        systems: &["only huge"],
    }],
    why: "The paper's Graph500 has 63.5 GB, 60 of them in giant pages; here it has 60 GiB. The arrays lie side by side, so only what is before the first whole gigabyte and behind the last cannot be mapped by giant pages, which is one gigabyte together. Of which arrays the paper's other gigabytes are is not in the paper.",
    known: &[
        Known::Unknown(
            "arrays of 2^27 vertices with 16 edges each, and of 2^26 with 30, as the published scripts ask for, by hand: the ends are as long.",
        ),
        Known::Run(&[
            Number::Cell("Graph500: allocated", "next search", "allocated"),
            Number::Cell("Graph500: allocated", "next search", "giant"),
        ]),
    ],
}];

/// Places of the first mapping that are tried.
const PLACES: u64 = 64;
/// Where mappings begin, and by how many pages the kernel moves that down at random (`mmap_rnd_bits`: 28 bits).
const TOP: u64 = 0x7fff_ffff_f000;
const RANDOM_PAGES: usize = 1 << 28;

#[derive(Clone, Copy)]
enum Do {
    /// Maps an array of a name and so many bytes.
    Map(&'static str, u64),
    Unmap(&'static str),
}

use Do::{Map, Unmap};

struct Program {
    name: &'static str,
    /// What it does one after the other, by name.
    steps: &'static [(&'static str, &'static [Do])],
    /// Of what it has, the parts in giant and in huge pages (table 3).
    paper: [f64; 2],
}

const VERTICES: u64 = 1 << 27;
const EDGES: u64 = 16 * VERTICES;

const PROGRAMS: [Program; 2] = [
    Program {
        name: "Graph500",
        steps: &[
            // Two vertices of 48 bits (`packed_edge`).
            ("edges made", &[Map("edges", 12 * EDGES)]),
            (
                "graph made",
                &[
                    Map("rows", 16 * VERTICES + 16),
                    // Each edge twice, as 64-bit numbers.
                    Map("columns", 16 * EDGES),
                ],
            ),
            (
                "searching",
                &[Map("parents", 8 * VERTICES), Map("queue", 8 * VERTICES)],
            ),
            (
                "checking",
                &[
                    Unmap("queue"),
                    Map("seen", 8 * VERTICES),
                    Map("levels", 8 * VERTICES),
                ],
            ),
            (
                "next search",
                &[
                    Unmap("levels"),
                    Unmap("seen"),
                    Unmap("parents"),
                    Map("parents", 8 * VERTICES),
                    Map("queue", 8 * VERTICES),
                ],
            ),
        ],
        paper: [60.0 / 63.5, 3.35 / 63.5],
    },
    Program {
        name: "SVM",
        steps: &[
            (
                "data read",
                &[
                    Map("labels", 8 * INSTANCES),
                    Map("instances", 8 * INSTANCES),
                    // One more for each instance, which ends it.
                    Map("values", NODE * (VALUES + INSTANCES)),
                ],
            ),
            (
                "sorted by class",
                &[
                    Map("order", 4 * INSTANCES),
                    Map("classes", 4 * INSTANCES),
                    Map("sorted", 8 * INSTANCES),
                    Unmap("classes"),
                    Map("part", 8 * INSTANCES),
                    Map("part's labels", 8 * INSTANCES),
                    Map("weights", 8 * FEATURES),
                ],
            ),
            (
                "transposed",
                &[
                    Map("column starts", 8 * (FEATURES + 1)),
                    Map("columns' labels", 8 * INSTANCES),
                    Map("columns", 8 * FEATURES),
                    Map("columns' values", NODE * (VALUES + FEATURES)),
                    Unmap("column starts"),
                ],
            ),
            (
                "solving",
                &[
                    Map("index", 4 * FEATURES),
                    Map("signs", INSTANCES),
                    Map("Hdiag", 8 * FEATURES),
                    Map("Grad", 8 * FEATURES),
                    Map("wpd", 8 * FEATURES),
                    Map("xjneg_sum", 8 * FEATURES),
                    Map("xTd", 8 * INSTANCES),
                    Map("exp_wTx", 8 * INSTANCES),
                    Map("exp_wTx_new", 8 * INSTANCES),
                    Map("tau", 8 * INSTANCES),
                    Map("D", 8 * INSTANCES),
                ],
            ),
        ],
        paper: [65.0 / 68.5, 3.5 / 68.5],
    },
];

/// Bytes of a program after a step.
#[derive(Clone, Copy, Default)]
struct Mappable {
    all: u64,
    giant: u64,
    huge: u64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut tables = Vec::new();
    let mut ends = Vec::new();
    for program in &PROGRAMS {
        (setting.progress)(program.name);
        let mut sums = vec![Mappable::default(); program.steps.len()];
        let mut random = Random::new(setting.seed);
        for _ in 0..PLACES {
            let first = TOP - below(random.word(), RANDOM_PAGES) as u64 * BASE_PAGE_SIZE;
            for (sum, seen) in sums.iter_mut().zip(course(program, first, setting)?) {
                sum.all += seen.all;
                sum.giant += seen.giant;
                sum.huge += seen.huge;
            }
        }
        let mean = |sum: u64| Some(number(sum / PLACES));
        let rows = program.steps.iter().zip(&sums).map(|((step, _), sum)| {
            Row::ours(*step, vec![mean(sum.all), mean(sum.huge), mean(sum.giant)])
        });
        tables.push(Table::new(
            format!(
                "{}: allocated, and what pages of a size can map",
                program.name
            ),
            Unit::Bytes,
            columns(["allocated", "huge", "giant"]),
            rows.collect(),
        ));
        let end = sums.last().copied().unwrap_or_default();
        ends.push(Row::beside(
            program.name,
            vec![
                Some(share(end.giant, end.all)),
                Some(share(end.huge - end.giant, end.all)),
            ],
            program.paper.map(Some).to_vec(),
        ));
    }
    tables.push(Table::new(
        "parts that pages of a size can map in the end",
        Unit::Share,
        columns(["giant", "only huge"]),
        ends,
    ));
    Ok(Findings {
        memory_bytes: setting.scale.bytes(TRIDENT_NODE),
        tables,
        happened: Vec::new(),
    })
}

fn columns<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// What is mappable after each step, with the first mapping below an address.
fn course(program: &Program, first: u64, setting: &Setting<'_>) -> Result<Vec<Mappable>, Error> {
    let mut space = Space::new(first)?;
    let mut course = Vec::new();
    for (_, acts) in program.steps {
        for act in *acts {
            match *act {
                Map(name, bytes) => space.map(name, bytes / setting.scale.parts()),
                Unmap(name) => space.unmap(name),
            }
        }
        course.push(space.mappable());
    }
    Ok(course)
}

/// The addresses of a process, of whose memory nothing is touched.
struct Space {
    kernel: Kernel,
    pid: Pid,
    first: u64,
    arrays: Vec<(&'static str, u64, u64)>,
}

impl Space {
    fn new(first: u64) -> Result<Self, Error> {
        let layout = Layout::one_node(64 << 20)
            .map_err(|error| Error::Failed(format!("simulating a small machine: {error}")))?;
        let costs = hardware::trident_server().costs;
        let mut kernel = Kernel::new(&layout, Settings::default(), costs);
        let pid = kernel.spawn(0);
        Ok(Space {
            kernel,
            pid,
            first,
            arrays: Vec::new(),
        })
    }

    fn map(&mut self, name: &'static str, bytes: u64) {
        // malloc's own number of the size stands before the array.
        let bytes = (bytes + 16).next_multiple_of(BASE_PAGE_SIZE);
        let end = self.highest_gap(bytes);
        let addresses = end - bytes..end;
        self.arrays.push((name, addresses.start, bytes));
        self.kernel.map_at(self.pid, addresses, Advice::None);
    }

    /// The end of the highest gap for so many bytes (`vm_unmapped_area`, top down).
    fn highest_gap(&self, bytes: u64) -> u64 {
        let areas = self.kernel.process(self.pid).space.areas();
        let mut end = self.first;
        for area in areas.iter().rev() {
            if end - area.end >= bytes {
                break;
            }
            end = area.start;
        }
        end
    }

    fn unmap(&mut self, name: &str) {
        if let Some(place) = self.arrays.iter().position(|(known, ..)| *known == name) {
            let (_, start, bytes) = self.arrays.swap_remove(place);
            self.kernel.unmap(self.pid, start, bytes);
        }
    }

    fn mappable(&self) -> Mappable {
        let areas = self.kernel.process(self.pid).space.areas().iter();
        areas.fold(Mappable::default(), |sum, area| Mappable {
            all: sum.all + (area.end - area.start),
            giant: sum.giant + area.mappable(PageSize::Giant),
            huge: sum.huge + area.mappable(PageSize::Huge),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::programs::kdd2012;

    const PAGE: u64 = BASE_PAGE_SIZE;

    #[test]
    fn arrays_lie_below_each_other_and_fill_gaps() {
        let mut space = Space::new(TOP).unwrap();
        let bytes = |pages| pages * PAGE - 16;
        space.map("a", bytes(3));
        space.map("b", bytes(5));
        space.map("c", bytes(2));
        assert_eq!(space.mappable().all, 10 * PAGE);
        space.unmap("b");
        space.map("d", bytes(4));
        space.map("e", bytes(2));
        let starts: Vec<u64> = space.arrays.iter().map(|(_, start, _)| *start).collect();
        let places: Vec<u64> = starts.iter().map(|start| (TOP - start) / PAGE).collect();
        // a, c, d in b's place, and e below all.
        assert_eq!(places, [3, 10, 7, 12]);
    }

    #[test]
    fn svm_ends_with_what_it_has_while_it_descends() {
        let [_, svm] = &PROGRAMS;
        let mut arrays = Vec::new();
        for act in svm.steps.iter().flat_map(|(_, acts)| *acts) {
            match *act {
                Map(name, bytes) => arrays.push((name, bytes)),
                Unmap(name) => arrays.retain(|(known, _)| *known != name),
            }
        }
        let bytes = [INSTANCES, FEATURES, VALUES];
        let expected = kdd2012::ARRAYS.map(|(name, each)| {
            let parts = each.iter().zip(bytes).map(|(each, count)| each * count);
            (name, parts.sum())
        });
        assert_eq!(arrays, expected);
    }

    #[test]
    fn what_the_programs_have_is_about_what_the_paper_says() {
        let has = |program: &Program| {
            let mut space = Space::new(TOP).unwrap();
            let acts = program.steps.iter().flat_map(|(_, acts)| *acts);
            let mut most = 0;
            for act in acts {
                match *act {
                    Map(name, bytes) => space.map(name, bytes),
                    Unmap(name) => space.unmap(name),
                }
                most = most.max(space.mappable().all);
            }
            number(most) / number(1 << 30)
        };
        for (program, paper) in PROGRAMS.iter().zip([63.5, 67.9]) {
            let ratio = has(program) / paper;
            assert!((0.95..1.05).contains(&ratio), "{}: {ratio}", program.name);
        }
    }
}
