//! What the page of a recording shows, added up look by look in bounded memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mega_core::ProcessId;
use mega_record::overview::heat::{HeatMap, Resolution};
use mega_record::overview::{ActionCounts, CompactionCounts, Overview, ProcessOverview};
use mega_record::{Header, Look, Usable};
use serde::Serialize;

use crate::report::{HostPage, Observed, VERSION};

/// Points of each value over time, at most.
const POINTS: usize = 240;
/// Processes that have a heat map: the largest.
const MAPS: usize = 4;

/// What `mega report FILE --json` prints. Sizes are in bytes, times in seconds since the recording began.
#[derive(Debug, Serialize)]
pub(in crate::command::report) struct RecordedReport {
    pub(super) version: u32,
    pub(super) file: PathBuf,
    pub(super) header: Header,
    /// By which pages the host mapped what was recorded in its guest; `null` where it was no guest, or the recording does not say.
    pub(super) host_page: Option<HostPage>,
    pub(super) looks: u64,
    pub(super) missed: u64,
    pub(super) seconds: f64,
    /// CPU time of the looks.
    pub(super) cpu_seconds: f64,
    /// How much of it was usable, in words.
    pub(super) usable: String,
    /// Who else used Accessed bits or changed page sizes.
    pub(super) others: Vec<String>,
    /// What a manager did, where one recorded itself.
    pub(super) actions: ActionCounts,
    /// What its compaction did.
    pub(super) compaction: CompactionCounts,
    /// The largest first.
    pub(super) processes: Vec<ProcessOverview>,
    /// All processes together, over time.
    pub(super) points: Vec<PointReport>,
    /// Free areas of all nodes by order, from 4 KiB on.
    pub(super) free_lists: FreeListsReport,
    /// Of the largest processes.
    pub(super) heat: Vec<HeatMap>,
}

/// Means over some looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct PointReport {
    /// When the first of the looks was, and when the next point begins.
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) mapped: u64,
    pub(super) huge: u64,
    pub(super) giant: u64,
    /// `null` where it is not known of every process.
    pub(super) accessed: Option<u64>,
    pub(super) free: u64,
    pub(super) contiguity: u64,
}

/// The free lists at the first look and at the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct FreeListsReport {
    pub(super) first: Vec<u64>,
    pub(super) last: Vec<u64>,
}

/// Sums over the looks of one point.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    looks: u64,
    from: f64,
    mapped: u64,
    huge: u64,
    giant: u64,
    accessed: u64,
    is_blind: bool,
    free: u64,
    contiguity: u64,
}

/// A page in the making.
pub(super) struct Gathered {
    overview: Overview,
    header: Header,
    usable: Usable,
    cpu: Duration,
    points: Vec<Sums>,
    free_lists: FreeListsReport,
    heat: Vec<(ProcessId, HeatMap)>,
}

impl Gathered {
    pub(super) fn new(overview: Overview, header: Header, usable: Usable) -> Self {
        let largest = overview.by_size().into_iter().take(MAPS);
        let heat = largest.filter_map(|process| {
            let map = overview.heat_map(process, usable.until, Resolution::TEXT)?;
            Some((process, map))
        });
        Gathered {
            heat: heat.collect(),
            overview,
            header,
            usable,
            cpu: Duration::ZERO,
            points: vec![Sums::default(); POINTS],
            free_lists: FreeListsReport::default(),
        }
    }

    /// Adds the next look.
    pub(super) fn add(&mut self, look: &Look) {
        self.cpu += look.cpu;
        let place = look.at.as_nanos() * POINTS as u128 / (self.usable.until.as_nanos() + 1);
        let place = usize::try_from(place).unwrap_or(POINTS).min(POINTS - 1);
        if let Some(point) = self.points.get_mut(place) {
            point.add(look);
        }
        let areas = look.free_areas();
        if self.free_lists.first.is_empty() {
            self.free_lists.first.clone_from(&areas);
        }
        self.free_lists.last = areas;
        for (process, heat) in &mut self.heat {
            let actions = look.actions.iter();
            actions
                .filter(|acted| acted.action.target.process == *process)
                .for_each(|acted| heat.add_action(acted));
            let compacted = look.compacted.iter();
            compacted.for_each(|compacted| heat.add_compacted(compacted));
            let mut seen = look.observation.processes.iter();
            heat.add(look.at, seen.find(|seen| seen.process == *process));
        }
    }

    pub(super) fn report(mut self, file: &Path) -> RecordedReport {
        let order = self.overview.by_size();
        let processes = order
            .into_iter()
            .filter_map(|process| Some(self.overview.processes.remove(&process)?.overview));
        let processes = processes.collect();
        let seconds = self.usable.until.as_secs_f64();
        self.points.retain(|point| point.looks > 0);
        let ends = self.points.iter().skip(1).map(|point| point.from);
        let ends = ends.chain([seconds]);
        let points = self.points.iter().zip(ends);
        RecordedReport {
            version: VERSION,
            file: file.to_owned(),
            host_page: HostPage::of_recording(&self.header),
            looks: self.usable.looks,
            missed: self.overview.missed,
            seconds,
            cpu_seconds: self.cpu.as_secs_f64(),
            usable: self.usable.to_string(),
            others: self.overview.others.into_iter().collect(),
            actions: self.overview.actions,
            compaction: self.overview.compaction,
            processes,
            points: points.map(|(point, to)| point.mean(to)).collect(),
            free_lists: self.free_lists,
            heat: self.heat.into_iter().map(|(_, heat)| heat).collect(),
            header: self.header,
        }
    }
}

impl Sums {
    fn add(&mut self, look: &Look) {
        if self.looks == 0 {
            self.from = look.at.as_secs_f64();
        }
        self.looks += 1;
        self.free += look.observation.memory.free;
        self.contiguity += look.observation.memory.contiguity;
        for seen in &look.observation.processes {
            let seen = Observed::from(seen);
            self.mapped += seen.mapped;
            self.huge += seen.huge;
            self.giant += seen.giant;
            self.is_blind |= seen.accessed.is_none();
            self.accessed += seen.accessed.unwrap_or(0);
        }
    }

    fn mean(&self, to: f64) -> PointReport {
        let mean = |sum: u64| sum.checked_div(self.looks).unwrap_or(0);
        PointReport {
            from: self.from,
            to,
            mapped: mean(self.mapped),
            huge: mean(self.huge),
            giant: mean(self.giant),
            accessed: (!self.is_blind).then(|| mean(self.accessed)),
            free: mean(self.free),
            contiguity: mean(self.contiguity),
        }
    }
}
