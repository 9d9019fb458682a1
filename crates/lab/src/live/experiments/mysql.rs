//! `mysql`: `sysbench` reads from a real MariaDB.

use crate::error::Error;
use crate::live::experiment::{Experiment, PaperFigure, Rounds};
use crate::live::goal::{Bound, Goal};
use crate::live::metric::{Better, HUGE, MANAGER_CPU, Metric, RESIDENT, Sample, Unit};
use crate::live::mode::Mode;
use crate::live::run::Run;
use crate::live::server::mariadb::{CLIENT, INSTALL, MARIADBD, MariaDb, ThpDisable};
use crate::live::server::sysbench::{SYSBENCH, read_settled};
use crate::resident;

const TRANSACTIONS: Metric = Metric::new(
    "transactions_per_second",
    "transactions per second",
    Unit::PerSecond,
    Better::Higher,
);
const MIN: Metric = Metric::latency("min_ns", "shortest latency");
const AVERAGE: Metric = Metric::latency("average_ns", "average latency");
const P95: Metric = Metric::latency("p95_ns", "95 % of latencies below");
const MAX: Metric = Metric::latency("max_ns", "longest latency");

pub(super) const MYSQL: Experiment = Experiment {
    name: "mysql",
    title: "MariaDB answering sysbench",
    about: "A fresh MariaDB with a buffer pool of three quarters of the size gets one table, of a row for every 1500 \
            bytes of the size, and sysbench reads it by oltp_read_only with 8 threads; for MEGA it had 30 million rows. \
            sysbench measures whole seconds. Debian's MariaDB (since 10.11.7) switches huge pages off for itself by \
            prctl once its buffers are allocated: from then on neither khugepaged nor a manager can promote any, so \
            that only thp, which has given some before, has huge pages at all.",
    paper: Some(PaperFigure {
        source: "MEGA, table 8",
        systems: &["MEGA", "Ingens", "Linux base", "Linux huge"],
        rows: &[
            ("Min", &["0.76µs", "0.68µs", "0.74µs", "0.85µs"]),
            ("Average", &["1.44µs", "1.71µs", "1.63µs", "1.32µs"]),
            ("Max", &["54.01µs", "108.12µs", "11.66µs", "64.94µs"]),
            ("95th percentile", &["2.18µs", "3.62µs", "3.07µs", "1.76µs"]),
            (
                "Transactions per sec",
                &["5556.29", "4661.36", "4895.21", "6056.84"],
            ),
        ],
    }),
    programs: &[MARIADBD, INSTALL, CLIENT, SYSBENCH],
    metrics: &[
        TRANSACTIONS,
        MIN,
        AVERAGE,
        P95,
        MAX,
        RESIDENT,
        HUGE,
        MANAGER_CPU,
    ],
    // What a program denies itself it cannot be given; it is not to lose by being managed.
    goals: &[Goal::ratio(
        TRANSACTIONS.id,
        &Mode::Base,
        Bound::AtLeast(0.95),
    )],
    modes: super::server_modes,
    // The server itself, without any data, has some 150 MiB.
    most_resident: 2,
    rounds: Rounds::WholeRuns(run),
    by_defaults: false,
};

#[allow(clippy::cast_precision_loss)]
fn run(run: &Run<'_>) -> Result<Sample, Error> {
    let (database, table) = MariaDb::start_filled(run, run.size, ThpDisable::Works)?;
    let report = read_settled(run, &database, table.rows, 95)?;
    let resident = resident::of(database.server.pid())?;
    database.check(run, &table)?;
    database.server.stop()?;
    Ok(Sample::default()
        .with(TRANSACTIONS, report.transactions_per_second)
        .with(MIN, report.min)
        .with(AVERAGE, report.average)
        .with(P95, report.percentile)
        .with(MAX, report.max)
        .with(RESIDENT, resident.resident_bytes as f64)
        .with(HUGE, resident.huge_bytes as f64)
        .with(MANAGER_CPU, run.manager_cpu_share()?))
}
