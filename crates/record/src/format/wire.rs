//! Looks as they are written: neighbouring regions that are alike become one run.

use std::ops::Range;
use std::time::Duration;

use mega_core::worth::Estimate;
use mega_core::{
    CgroupMemory, Gain, Glance, HUGE_PAGE_SIZE, MemoryObservation, NodeMemory, Observation,
    PAGES_PER_REGION, PageSize, ProcessId, ProcessObservation, Region, RegionObservation,
};
use serde::{Deserialize, Serialize};

use crate::look::{FreeList, Look, News, TouchRate};

/// The most regions that one look may have: 32 TiB. Without a bound, a run of a few bytes could fill all memory.
const MOST_REGIONS: u64 = 1 << 24;

/// Why a look cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a look makes no sense: {0}")]
pub(crate) struct Nonsense(pub(crate) &'static str);

/// How many looks a whole recording has.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireEnd {
    pub(crate) looks: u64,
}

/// A look of version 1. One of version 2 has its actions behind it, one of version 3 its calls behind those, one of version 5
/// what compaction did behind these, one of version 6 the CPU time of its processes, in their order, behind that, and one of version 7 what
/// was accessed in a moment at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireLook {
    at: Duration,
    cpu: Duration,
    missed: u32,
    interval: Duration,
    processes: Vec<WireProcess>,
    memory: WireMemory,
    idle_cpus: Option<f64>,
    giant_pages: bool,
    free_zero: bool,
    free_lists: Vec<FreeList>,
    news: WireNews,
}

#[derive(Serialize, Deserialize)]
struct WireProcess {
    process: ProcessId,
    accesses_known: bool,
    node: Option<u32>,
    /// Limit and what is available.
    cgroup: Option<(u64, u64)>,
    runs: Vec<Run>,
}

/// What a process accessed in a moment.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireGlance {
    process: ProcessId,
    length: Duration,
    worked: Option<Duration>,
    runs: Vec<Run>,
}

/// Regions side by side that are alike.
#[derive(Serialize, Deserialize)]
struct Run {
    /// Regions since the end of the last run, or since address 0.
    gap: u64,
    /// How many regions it has.
    count: u64,
    mapped: u16,
    accessed: u16,
    swapped: u16,
    /// 0 for base, 1 for huge, 2 for giant.
    size: u8,
    zero_filled: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct WireMemory {
    total: u64,
    available: u64,
    free: u64,
    contiguity: u64,
    /// Number, free, contiguity.
    nodes: Vec<(u32, u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct WireNews {
    names: Vec<(ProcessId, String)>,
    mappings: Vec<(ProcessId, Vec<Range<u64>>)>,
    touches: Vec<(ProcessId, WireTouches)>,
    others: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct WireTouches {
    per_cpu_second: f64,
    cpus: f64,
    working_set: u64,
    gain: Option<WireGain>,
}

#[derive(Serialize, Deserialize)]
struct WireGain {
    saved_share: Estimate,
    cpus: f64,
    cost_cpu_seconds: f64,
    payback_seconds: Option<f64>,
}

impl From<&Look> for WireLook {
    fn from(look: &Look) -> Self {
        let seen = &look.observation;
        let memory = &seen.memory;
        let nodes = memory.nodes.iter();
        WireLook {
            at: look.at,
            cpu: look.cpu,
            missed: look.missed,
            interval: seen.interval,
            processes: seen.processes.iter().map(WireProcess::from).collect(),
            memory: WireMemory {
                total: memory.total,
                available: memory.available,
                free: memory.free,
                contiguity: memory.contiguity,
                nodes: nodes
                    .map(|node| (node.node, node.free, node.contiguity))
                    .collect(),
            },
            idle_cpus: seen.idle_cpus,
            giant_pages: seen.giant_pages,
            free_zero: seen.free_zero,
            free_lists: look.free_lists.clone(),
            news: WireNews::from(&look.news),
        }
    }
}

impl TryFrom<WireLook> for Look {
    type Error = Nonsense;

    fn try_from(wire: WireLook) -> Result<Self, Nonsense> {
        let mut regions = 0;
        let processes = wire
            .processes
            .into_iter()
            .map(|process| process.unpacked(&mut regions))
            .collect::<Result<Vec<_>, _>>()?;
        if !processes.is_sorted_by(|one, next| one.process < next.process) {
            return Err(Nonsense("its processes are not in order"));
        }
        let nodes = wire.memory.nodes.into_iter();
        Ok(Look {
            at: wire.at,
            cpu: wire.cpu,
            missed: wire.missed,
            observation: Observation {
                interval: wire.interval,
                processes,
                memory: MemoryObservation {
                    total: wire.memory.total,
                    available: wire.memory.available,
                    free: wire.memory.free,
                    contiguity: wire.memory.contiguity,
                    nodes: nodes
                        .map(|(node, free, contiguity)| NodeMemory {
                            node,
                            free,
                            contiguity,
                        })
                        .collect(),
                },
                idle_cpus: wire.idle_cpus,
                giant_pages: wire.giant_pages,
                free_zero: wire.free_zero,
                counted: std::collections::BTreeMap::new(),
                glances: Vec::new(),
            },
            free_lists: wire.free_lists,
            news: wire.news.into(),
            actions: Vec::new(),
            compacted: Vec::new(),
            calls: Vec::new(),
            calls_lost: 0,
        })
    }
}

impl From<&ProcessObservation> for WireProcess {
    fn from(seen: &ProcessObservation) -> Self {
        WireProcess {
            process: seen.process,
            accesses_known: seen.accesses_known,
            node: seen.node,
            cgroup: seen.cgroup.map(|cgroup| (cgroup.limit, cgroup.available)),
            runs: packed(&seen.regions),
        }
    }
}

impl WireProcess {
    /// Counts its regions into `regions`.
    fn unpacked(self, regions: &mut u64) -> Result<ProcessObservation, Nonsense> {
        Ok(ProcessObservation {
            process: self.process,
            cpu_time: None,
            regions: unpacked(&self.runs, regions)?,
            accesses_known: self.accesses_known,
            node: self.node,
            cgroup: self
                .cgroup
                .map(|(limit, available)| CgroupMemory { limit, available }),
        })
    }
}

impl From<&Glance> for WireGlance {
    fn from(glance: &Glance) -> Self {
        WireGlance {
            process: glance.process,
            length: glance.length,
            worked: glance.worked,
            runs: packed(&glance.regions),
        }
    }
}

/// The glances of a look, in the order of their processes.
pub(crate) fn glances(wire: Vec<WireGlance>) -> Result<Vec<Glance>, Nonsense> {
    let mut regions = 0;
    let glances = wire.into_iter().map(|glance| {
        Ok(Glance {
            process: glance.process,
            length: glance.length,
            worked: glance.worked,
            regions: unpacked(&glance.runs, &mut regions)?,
        })
    });
    let glances = glances.collect::<Result<Vec<_>, Nonsense>>()?;
    if !glances.is_sorted_by(|one, next| one.process < next.process) {
        return Err(Nonsense("its glances are not in order"));
    }
    Ok(glances)
}

fn packed(regions: &[RegionObservation]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = 0;
    for seen in regions {
        let index = seen.region.start() / HUGE_PAGE_SIZE;
        let run = Run {
            gap: index.saturating_sub(end),
            count: 1,
            mapped: seen.mapped,
            accessed: seen.accessed,
            swapped: seen.swapped,
            size: code(seen.page_size),
            zero_filled: seen.zero_filled,
        };
        end = index + 1;
        match runs.last_mut() {
            Some(last) if run.gap == 0 && last.is_like(&run) => last.count += 1,
            _ => runs.push(run),
        }
    }
    runs
}

fn unpacked(runs: &[Run], regions: &mut u64) -> Result<Vec<RegionObservation>, Nonsense> {
    let mut seen = Vec::new();
    let mut index = 0_u64;
    for run in runs {
        *regions = regions.saturating_add(run.count);
        if *regions > MOST_REGIONS {
            return Err(Nonsense("it has more regions than there can be"));
        }
        let first = index.saturating_add(run.gap);
        index = first.saturating_add(run.count);
        if index > u64::MAX / HUGE_PAGE_SIZE {
            return Err(Nonsense("a region lies beyond all addresses"));
        }
        let alike = run.region()?;
        seen.extend((first..index).map(|index| RegionObservation {
            region: Region::containing(index * HUGE_PAGE_SIZE),
            ..alike
        }));
    }
    Ok(seen)
}

impl Run {
    fn is_like(&self, other: &Run) -> bool {
        let key = |run: &Run| {
            (
                run.mapped,
                run.accessed,
                run.swapped,
                run.size,
                run.zero_filled,
            )
        };
        key(self) == key(other)
    }

    /// One of its regions, at no address yet.
    fn region(&self) -> Result<RegionObservation, Nonsense> {
        let is_sound = (1..=PAGES_PER_REGION).contains(&self.mapped)
            && self.accessed <= self.mapped
            && self.swapped <= PAGES_PER_REGION - self.mapped
            && self.zero_filled.is_none_or(|pages| pages <= self.mapped);
        if !is_sound {
            return Err(Nonsense("a region has more pages than it can have"));
        }
        Ok(RegionObservation {
            region: Region::containing(0),
            mapped: self.mapped,
            accessed: self.accessed,
            page_size: size_of(self.size).ok_or(Nonsense("a page is of no known size"))?,
            zero_filled: self.zero_filled,
            swapped: self.swapped,
        })
    }
}

const fn code(size: PageSize) -> u8 {
    match size {
        PageSize::Base => 0,
        PageSize::Huge => 1,
        PageSize::Giant => 2,
    }
}

fn size_of(code: u8) -> Option<PageSize> {
    [PageSize::Base, PageSize::Huge, PageSize::Giant]
        .get(usize::from(code))
        .copied()
}

impl From<&News> for WireNews {
    fn from(news: &News) -> Self {
        let touches = news.touches.iter();
        WireNews {
            names: news.names.clone().into_iter().collect(),
            mappings: news.mappings.clone().into_iter().collect(),
            touches: touches
                .map(|(process, touches)| (*process, WireTouches::from(touches)))
                .collect(),
            others: news.others.clone(),
        }
    }
}

impl From<WireNews> for News {
    fn from(wire: WireNews) -> Self {
        let touches = wire.touches.into_iter();
        News {
            names: wire.names.into_iter().collect(),
            mappings: wire.mappings.into_iter().collect(),
            touches: touches
                .map(|(process, touches)| (process, touches.into()))
                .collect(),
            others: wire.others,
        }
    }
}

impl From<&TouchRate> for WireTouches {
    fn from(rate: &TouchRate) -> Self {
        WireTouches {
            per_cpu_second: rate.per_cpu_second,
            cpus: rate.cpus,
            working_set: rate.working_set,
            gain: rate.gain.map(|gain| WireGain {
                saved_share: gain.saved_share,
                cpus: gain.cpus,
                cost_cpu_seconds: gain.cost_cpu_seconds,
                payback_seconds: gain.payback_seconds,
            }),
        }
    }
}

impl From<WireTouches> for TouchRate {
    fn from(wire: WireTouches) -> Self {
        TouchRate {
            per_cpu_second: wire.per_cpu_second,
            cpus: wire.cpus,
            working_set: wire.working_set,
            gain: wire.gain.map(|gain| Gain {
                saved_share: gain.saved_share,
                cpus: gain.cpus,
                cost_cpu_seconds: gain.cost_cpu_seconds,
                payback_seconds: gain.payback_seconds,
                // The format has no place for it.
                saved_by_giant_share: None,
                working_set: wire.working_set,
            }),
        }
    }
}
