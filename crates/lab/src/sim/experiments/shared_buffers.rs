//! Shared memory, as a database's buffers, that many processes map: what its page tables take, and what larger pages change.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mega_sim::address_space::SharedId;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::names;
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::{Accesses, Pattern};
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

const MACHINE: u64 = 16 << 30;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shared-buffers",
    title: "shared memory that many processes map",
    source: "beyond the papers",
    about: "A database has 8 GiB of shared buffers on a machine with 16 GiB. Each of its processes maps them and answers requests for keys by Zipf's law with YCSB's exponent, one after the other for a minute; a request takes 20 us beside its touches (an assumption). Faults take base pages, as distributions have it (shmem_enabled is never); what a policy makes huge becomes huge for all. Page tables are counted as Linux has them: none for a region of shared memory that a huge page maps. Requests, what they take in translation, page tables, and the part of the mappings that is huge in the end. Of 16 requests one is done and the others take as long, so policies see the Accessed bits of a sixteenth.",
    memory: MACHINE,
    scale: 8,
    reasons: &[],
    run,
};

const SYSTEMS: [System; 7] = [BASE, THP, INGENS, HAWKEYE, MEGA, TRIDENT, ADAPTIVE];
const BUFFERS: u64 = 8 << 30;
/// Processes of the database.
const PROCESSES: [u64; 3] = [1, 4, 16];
const REQUEST: Duration = Duration::from_micros(20);
const TIME: Duration = Duration::from_secs(60);
/// As [`super::trident_programs`] has it.
const STANDS_FOR: u64 = 16;
/// Requests before others have their turn.
const TOGETHER: u64 = 16;

/// A process of the database.
struct Worker {
    buffers: SharedId,
    start: Option<u64>,
    requests: Accesses,
    cycles: u64,
    stands_for: u64,
    answered: Rc<Cell<u64>>,
}

impl Program for Worker {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let buffers = self.buffers;
        let start = *self.start.get_or_insert_with(|| memory.map_shared(buffers));
        for _ in 0..TOGETHER {
            for offset in self.requests.next() {
                memory.touch(start + offset)?;
            }
            memory.compute(self.cycles);
        }
        let stands_for = memory.stand_for(self.stands_for);
        self.answered
            .set(self.answered.get() + TOGETHER * stands_for);
        Ok(Work::GoesOn)
    }
}

/// What came of a run.
struct Run {
    requests: f64,
    translation: f64,
    tables: u64,
    huge: f64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    let mut runs = Vec::new();
    for processes in PROCESSES {
        let mut of_count = Vec::new();
        for system in SYSTEMS {
            (setting.progress)(&format!("{processes} processes, {}", system.name));
            let (run, what) = one(system, processes, setting)?;
            of_count.push(run);
            super::add(&mut happened, what);
        }
        runs.push(of_count);
    }
    let table = |title: &str, unit, value: &dyn Fn(&Run) -> f64| {
        let rows = PROCESSES.iter().zip(&runs).map(|(processes, runs)| {
            let ours = runs.iter().map(|run| Some(value(run))).collect();
            Row::ours(format!("{processes} processes"), ours)
        });
        Table::new(title, unit, names(&SYSTEMS), rows.collect()).against(0)
    };
    Ok(Findings {
        memory_bytes: setting.scale.bytes(MACHINE),
        tables: vec![
            table("requests a second, of all", Unit::PerSecond, &|run| {
                run.requests
            })
            .better(Better::Higher),
            table("cycles of touches in translation", Unit::Share, &|run| {
                run.translation
            })
            .better(Better::Lower),
            table("page tables", Unit::Bytes, &|run| number(run.tables)).better(Better::Lower),
            table("mappings by huge pages", Unit::Share, &|run| run.huge),
        ],
        happened,
    })
}

fn one(system: System, processes: u64, setting: &Setting<'_>) -> Result<(Run, Happened), Error> {
    let hardware = hardware::trident_server();
    let memory = setting.scale.bytes(MACHINE);
    let mut bed = Testbed::new(system, &[memory], setting.scale, hardware)?;
    let bytes = setting.scale.bytes(BUFFERS);
    let buffers = bed.machine.kernel_mut().share_memory(bytes);
    let answered = Rc::new(Cell::new(0));
    let pids: Vec<_> = (0..processes)
        .map(|number| {
            bed.start(Worker {
                buffers,
                start: None,
                requests: Pattern::KeyValues.over(bytes, &[], setting.seed + number),
                cycles: hardware.costs.cycles(REQUEST),
                stands_for: STANDS_FOR * setting.scale.parts(),
                answered: Rc::clone(&answered),
            })
        })
        .collect();
    bed.run_for(TIME);
    let (mut translation, mut cycles, mut tables, mut huge, mut resident) = (0, 0, 0, 0, 0);
    for &pid in &pids {
        bed.without_fault(pid, "a database")?;
        let counts = bed.machine.counts(pid).unwrap_or_default();
        translation += counts.translation;
        cycles += counts.cycles;
        let space = &bed.machine.kernel().process(pid).space;
        tables += space.tables_in_use() * mega_core::BASE_PAGE_SIZE;
        let mapped = space.mapped_bytes();
        huge += mapped.huge;
        resident += mapped.resident();
    }
    let run = Run {
        requests: number(answered.get()) / TIME.as_secs_f64(),
        translation: share(translation, cycles),
        tables,
        huge: share(huge, resident),
    };
    Ok((run, bed.happened()))
}
