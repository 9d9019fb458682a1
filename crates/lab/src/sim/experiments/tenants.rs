//! Tenants of different kinds on one machine whose memory is short and fragmented: who gets the huge pages, and who waits for whom.

use std::time::Duration;

use mega_core::{HUGE_PAGE_SIZE, Machine as _};
use mega_sim::kernel::Pid;

use super::names;
use super::trident_programs::Memory;
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::share;
use crate::sim::programs::{Churn, Operations, Pattern, Resident};
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

const MACHINE: u64 = 16 << 30;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tenants",
    title: "four tenants on one machine whose memory is short and fragmented",
    source: "beyond the papers",
    about: "Together they use 14 of 16 GiB: a cache (5.5 GiB, read by Zipf's law with YCSB's exponent; 60 million requests of 300 ns beside their touches), a graph (4 GiB, a breadth-first search over 120 million edges of 100 ns beside their touches), one that fills 3 GiB and does nothing more, and one that allocates 1.5 GiB, goes over it and frees it, until it has had 45 GiB. At a scale they have less memory and do as much. Before, Trident's fragmenter has read a file larger than memory. Each also runs alone on such a machine, under the same system. Who has huge pages once all are done; how many times as long each takes as alone, and how far apart these are: 1 is fair.",
    memory: MACHINE,
    scale: 8,
    reasons: &[],
    run,
};

/// Trident has the patched kernel; the others need none.
const SYSTEMS: [System; 7] = [BASE, THP, INGENS, HAWKEYE, MEGA, TRIDENT, ADAPTIVE];
/// What the churning one allocates, and what the others do: so much that a run takes a quarter of a minute at least, since policies
/// look every five seconds.
const CHURNED: u64 = 45 << 30;
const REQUESTS: u64 = 60_000_000;
const EDGES: u64 = 120_000_000;
/// On a machine with less memory than this nothing is found that would hold elsewhere: one part in so many shows that it works.
const SMALLEST: u64 = 256 << 20;
const PART: u64 = 4096;
/// A run that takes longer stands still.
const LIMIT: Duration = Duration::from_secs(3600);
/// How exactly the end is waited for.
const STEP: Duration = Duration::from_millis(500);
/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// What a tenant is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tenant {
    Cache,
    Graph,
    Idle,
    Churn,
}

impl Tenant {
    const ALL: [Tenant; 4] = [Tenant::Cache, Tenant::Graph, Tenant::Idle, Tenant::Churn];
    /// Those that come to an end.
    const BUSY: [Tenant; 3] = [Tenant::Cache, Tenant::Graph, Tenant::Churn];

    const fn name(self) -> &'static str {
        match self {
            Tenant::Cache => "cache",
            Tenant::Graph => "graph",
            Tenant::Idle => "idle",
            Tenant::Churn => "churn",
        }
    }

    fn start(self, bed: &mut Testbed, setting: &Setting<'_>) -> Pid {
        let bytes = |paper| setting.scale.bytes(paper);
        let cycles = |time| hardware::trident_server().costs.cycles(time);
        let amount = |whole| {
            let is_small = bytes(MACHINE) < SMALLEST;
            if is_small { whole / PART } else { whole }
        };
        let operations = |count, nanoseconds| {
            let work = cycles(Duration::from_nanos(nanoseconds));
            (amount(count), work)
        };
        match self {
            Tenant::Cache => bed.start(Operations::new(
                bytes(11 << 29),
                HUGE_PAGE_SIZE,
                Pattern::KeyValues,
                operations(REQUESTS, 300),
                setting.seed,
            )),
            Tenant::Graph => bed.start(Operations::new(
                bytes(4 << 30),
                u64::MAX / 2,
                Pattern::Search,
                operations(EDGES, 100),
                setting.seed,
            )),
            Tenant::Idle => {
                let bytes = bytes(3 << 30);
                bed.start(Resident::new(bytes, bytes, FOREVER))
            }
            Tenant::Churn => {
                let bytes = bytes(3 << 29);
                let rounds = u32::try_from(amount(CHURNED) / bytes).unwrap_or(u32::MAX);
                bed.start(Churn::new(bytes, rounds.max(1)))
            }
        }
    }
}

/// What became of a tenant.
struct Seen {
    /// Seconds that its work took; `None` of one that never ends.
    seconds: Option<f64>,
    /// Bytes that it had in larger pages when the last one was done, or when it exited.
    large: u64,
    /// Bytes that it had.
    resident: u64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    (setting.progress)("fragmenting memory");
    let memory = Memory::fragmented_of(MACHINE, setting)?;
    let mut happened: Vec<Happened> = Vec::new();
    // By system, then by tenant.
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for system in SYSTEMS {
        (setting.progress)(&format!("{}, together", system.name));
        let (seen, what) = one(&Tenant::ALL, system, &memory, setting)?;
        happened.push(what);
        together.push(seen);
        let mut each = Vec::new();
        for tenant in Tenant::BUSY {
            (setting.progress)(&format!("{}, {} alone", system.name, tenant.name()));
            let (seen, _) = one(&[tenant], system, &memory, setting)?;
            each.extend(seen);
        }
        alone.push(each);
    }
    Ok(Findings {
        memory_bytes: setting.scale.bytes(MACHINE),
        tables: tables(&together, &alone),
        happened,
    })
}

/// Of what each tenant saw under each system, together and alone.
fn tables(together: &[Vec<Seen>], alone: &[Vec<Seen>]) -> Vec<Table> {
    let place = |tenant| {
        Tenant::ALL
            .iter()
            .position(|one| *one == tenant)
            .unwrap_or(0)
    };
    let slower = |system: usize, busy: usize| {
        let with_others = together[system][place(Tenant::BUSY[busy])].seconds?;
        Some(with_others / alone[system][busy].seconds?)
    };
    let systems = || 0..together.len();
    let busy = |value: &dyn Fn(usize, usize) -> Option<f64>| -> Vec<Row> {
        let rows = Tenant::BUSY.iter().enumerate();
        rows.map(|(busy, tenant)| {
            let ours = systems().map(|system| value(system, busy)).collect();
            Row::ours(tenant.name(), ours)
        })
        .collect()
    };
    let each = |value: &dyn Fn(&Seen, &[Seen]) -> f64| -> Vec<Row> {
        let rows = Tenant::ALL.iter().enumerate();
        rows.map(|(tenant, name)| {
            let of = |seen: &Vec<Seen>| Some(value(&seen[tenant], seen));
            Row::ours(name.name(), together.iter().map(of).collect())
        })
        .collect()
    };
    let apart = systems().map(|system| {
        let ratios: Vec<f64> = (0..Tenant::BUSY.len())
            .filter_map(|busy| slower(system, busy))
            .collect();
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some(most / ratios.iter().copied().reduce(f64::min)?)
    });
    let table = |title: &str, unit, rows| Table::new(title, unit, names(&SYSTEMS), rows);
    vec![
        table(
            "run time beside the others",
            Unit::Seconds,
            busy(&|system, busy| together[system][place(Tenant::BUSY[busy])].seconds),
        )
        .against(0)
        .better(Better::Lower),
        table(
            "run time beside the others, times that alone",
            Unit::Count,
            busy(&slower),
        )
        .better(Better::Lower),
        table(
            "the largest of these, times the smallest",
            Unit::Count,
            vec![Row::ours("of three", apart.collect())],
        )
        .better(Better::Lower),
        table(
            "part of its memory in huge and giant pages",
            Unit::Share,
            each(&|seen, _| share(seen.large, seen.resident)),
        ),
        table(
            "part of all huge and giant pages",
            Unit::Share,
            each(&|seen, all| share(seen.large, all.iter().map(|seen| seen.large).sum())),
        ),
    ]
}

/// Some tenants together, until those that have an end have come to it.
fn one(
    tenants: &[Tenant],
    system: System,
    memory: &Memory,
    setting: &Setting<'_>,
) -> Result<(Vec<Seen>, Happened), Error> {
    let mut bed = memory.bed(system, hardware::trident_server(), setting)?;
    let began = bed.machine.now();
    let pids: Vec<Pid> = tenants
        .iter()
        .map(|tenant| tenant.start(&mut bed, setting))
        .collect();
    let busy = || {
        pids.iter()
            .zip(tenants)
            .filter(|(_, tenant)| **tenant != Tenant::Idle)
    };
    // What a tenant that exits had is what it had when it was looked at last.
    let mut large = vec![(0, 0); pids.len()];
    let have_ended = bed.run_until(LIMIT, STEP, |bed| {
        for (pid, large) in pids.iter().zip(&mut large) {
            let mapped = bed.mapped(*pid);
            if mapped.resident() > 0 {
                *large = (mapped.huge + mapped.giant, mapped.resident());
            }
        }
        busy().all(|(pid, _)| bed.machine.ended(*pid).is_some())
    });
    if !have_ended {
        return Err(Error::Failed(format!(
            "simulating tenants under {}: they do not come to an end",
            system.name
        )));
    }
    let mut seen = Vec::new();
    for ((pid, tenant), (large, resident)) in pids.iter().zip(tenants).zip(large) {
        bed.without_fault(*pid, &format!("the tenant {}", tenant.name()))?;
        let ended = bed.machine.ended(*pid);
        let mapped = bed.mapped(*pid);
        let now = (mapped.huge + mapped.giant, mapped.resident());
        let (large, resident) = if now.1 > 0 { now } else { (large, resident) };
        seen.push(Seen {
            seconds: ended.map(|ended| (ended.at - began).as_secs_f64()),
            large,
            resident,
        });
    }
    Ok((seen, bed.happened()))
}
