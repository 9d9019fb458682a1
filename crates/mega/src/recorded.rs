//! A recording that tests read: 100 looks, one a second, at a program that grows by a region at each look, and is all in huge
//! pages from the look number 50 on.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mega_core::compaction::{Emptied, MigrationCounts, Stopped, ToEmpty, Unit};
use mega_core::{
    Action, ActionKind, Cause, HUGE_PAGE_SIZE, MemoryObservation, Observation, Outcome, PageSize,
    ProcessId, ProcessObservation, Region, RegionObservation, RegionRef,
};
use mega_record::{Acted, Compacted, FreeList, Header, Look, News, Writer};

/// How many looks it has.
pub(crate) const LOOKS: u64 = 100;
/// The look from which on huge pages map all.
pub(crate) const HUGE_FROM: u64 = 50;
/// The program.
pub(crate) const PROCESS: ProcessId = ProcessId {
    pid: 4711,
    start_time: 9,
};
/// Its first address.
const START: u64 = 1 << 40;

/// Writes it.
pub(crate) fn write(path: &Path) {
    let header = Header {
        recorder: "0.1.0".to_owned(),
        kernel: "6.12".to_owned(),
        tracker: "bpf".to_owned(),
        subject: "a <program>".to_owned(),
        began: 1_795_500_000,
        interval_ms: 1000,
        ..Header::default()
    };
    let file = std::fs::File::create(path).expect("created");
    let mut writer = Writer::new(file, &header).expect("begun");
    for number in 0..LOOKS {
        writer.write(&look(number)).expect("written");
    }
    writer.finish().expect("finished");
}

fn look(number: u64) -> Look {
    let page_size = match number {
        0..HUGE_FROM => PageSize::Base,
        _ => PageSize::Huge,
    };
    let region = |index: u64| RegionObservation {
        region: Region::containing(START + index * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed: 128,
        page_size,
        zero_filled: None,
        swapped: 0,
    };
    let mut news = News::default();
    if number == 0 {
        news.names = BTreeMap::from([(PROCESS, "growing".to_owned())]);
        let end = START + LOOKS * HUGE_PAGE_SIZE;
        news.mappings = BTreeMap::from([(PROCESS, std::iter::once(START..end).collect())]);
    }
    Look {
        at: Duration::from_secs(number),
        cpu: Duration::from_millis(1),
        missed: 0,
        observation: Observation {
            interval: Duration::from_secs(1),
            processes: vec![ProcessObservation {
                process: PROCESS,
                cpu_time: None,
                regions: (0..=number).map(region).collect(),
                accesses_known: true,
                node: None,
                cgroup: None,
            }],
            memory: MemoryObservation {
                total: 1 << 34,
                available: 1 << 33,
                free: 1 << 33,
                contiguity: 1 << 32,
                nodes: Vec::new(),
            },
            idle_cpus: None,
            giant_pages: false,
            free_zero: false,
            counted: BTreeMap::new(),
            glances: Vec::new(),
        },
        free_lists: vec![FreeList {
            node: 0,
            areas: vec![number; 11],
        }],
        news,
        actions: match number + 1 {
            HUGE_FROM => (0..=number).map(promoted).collect(),
            _ => Vec::new(),
        },
        compacted: match number + 1 {
            HUGE_FROM => [Stopped::Emptied, Stopped::Busy].map(emptied).to_vec(),
            _ => Vec::new(),
        },
        ..Look::default()
    }
}

/// A block that half of a block's pages were moved out of.
fn emptied(stopped: Stopped) -> Compacted {
    Compacted {
        at: Duration::from_secs(HUGE_FROM - 1),
        emptied: Emptied {
            target: ToEmpty {
                unit: Unit::Block,
                first_pfn: 512 * 4096,
                pages: 256,
                empties: true,
            },
            stopped,
            counts: MigrationCounts {
                scanned: 512,
                isolated: 256,
                migrated: 256,
                failed: 0,
            },
            took: Duration::from_micros(300),
        },
    }
}

/// The promotion of a region; that of the first failed.
fn promoted(index: u64) -> Acted {
    let region = Region::containing(START + index * HUGE_PAGE_SIZE);
    Acted {
        at: Duration::from_secs(HUGE_FROM - 1),
        action: Action {
            kind: ActionKind::Promote,
            target: RegionRef {
                process: PROCESS,
                region,
            },
        },
        outcome: match index {
            0 => Outcome::Failed(Cause::Busy),
            _ => Outcome::Done {
                resident_before: HUGE_PAGE_SIZE,
                resident_after: HUGE_PAGE_SIZE,
            },
        },
    }
}
