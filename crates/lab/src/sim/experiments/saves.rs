//! A server that forks to save its data while it is written to, as Redis does.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;

use super::{MEGA_BYTES, MEGA_KERNEL, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::number;
use crate::sim::programs::{SavingLoad, SavingServer, Told, Written};
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "saves",
    title: "a server that forks to save its data while it is written to",
    source: "beyond the papers",
    about: "A server of the kind of Redis has 6 GiB in values of 4 KiB on a machine of 16 GiB, and answers 50,000 requests a second, at 10 us each beside the touch; one in five writes. A minute after it has stored all values, and again after 90 seconds, it forks, and the child reads all of it at 200 MB/s and exits. Writes go anywhere, or nine times in ten to a tenth of the values, which lie among the others or side by side. What forks and writes take, how much memory is copied, how much more is in use at the worst moment of a save than before it, and how much of the server's memory is in huge pages. With the scale, requests and the child become slower, so that a save lasts as long and copies as large a part.",
    memory: MEGA_BYTES,
    scale: 4,
    reasons: &[],
    run,
};

const SYSTEMS: [System; 6] = [BASE, THP, INGENS, HAWKEYE, MEGA, ADAPTIVE];

const CASES: [(&str, Written); 3] = [
    ("writes anywhere", Written::Anywhere),
    ("to values among others", Written::Scattered),
    ("to values side by side", Written::Together),
];

const VALUES: u64 = (6 << 30) / BASE_PAGE_SIZE;
/// Half of the 100,000 or so that Redis answers without pipelining (its documentation, "Redis benchmark").
const EVERY: Duration = Duration::from_micros(20);
const REQUEST: Duration = Duration::from_micros(10);
const WRITES: usize = 5;
/// A value at 200 MB/s.
const SAVE: Duration = Duration::from_nanos(20_480);
const SAVES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(150)];
const END: Duration = Duration::from_secs(240);
/// A run that takes longer stands still.
const LIMIT: Duration = Duration::from_secs(3600);

/// How it went under a system.
struct Course {
    told: Told,
    /// Bytes copied because of a write to what was shared.
    copied: u64,
    happened: Happened,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    let mut courses = Vec::new();
    for (case, written) in CASES {
        let mut row = Vec::new();
        for system in SYSTEMS {
            (setting.progress)(&format!("{case}, {}", system.name));
            let course = course(system, written, setting)?;
            super::add(&mut happened, course.happened.clone());
            row.push(course);
        }
        courses.push((case, row));
    }
    Ok(Findings {
        memory_bytes: setting.scale.bytes(MEGA_BYTES),
        tables: tables(&courses),
        happened,
    })
}

/// What is told of a course; `None` where it did not come to that.
type Number<'a> = &'a dyn Fn(&Course) -> Option<f64>;

fn tables(courses: &[(&str, Vec<Course>)]) -> Vec<Table> {
    let row = |case: &str, of: &[Course], what: &str, number: Number<'_>| {
        let name = match what {
            "" => case.to_owned(),
            what => format!("{case}, {what}"),
        };
        Row::ours(name, of.iter().map(number).collect())
    };
    let rows = |what: &[(&str, Number<'_>)]| {
        let of = courses
            .iter()
            .flat_map(|(case, of)| what.iter().map(|(name, value)| row(case, of, name, *value)));
        of.collect::<Vec<_>>()
    };
    let costs = hardware::mega_notebook().costs;
    let nanoseconds = |cycles: u64| costs.time(cycles).as_secs_f64() * 1e9;
    let forks = |course: &Course| {
        let sum: u64 = course.told.forks.iter().sum();
        let count = course.told.forks.len() as u64;
        (count > 0).then(|| nanoseconds(sum / count.max(1)))
    };
    let write = |saves: usize, per_mille: u64| {
        move |course: &Course| {
            let writes = &course.told.writes[saves];
            (writes.count() > 0).then(|| nanoseconds(writes.per_mille(per_mille)))
        }
    };
    let huge = |place: usize| move |course: &Course| course.told.huge.get(place).copied();
    let table = |title: &str, unit, rows| Table::new(title, unit, names(&SYSTEMS), rows).against(0);
    vec![
        table("time of a fork", Unit::Nanoseconds, rows(&[("", &forks)])).better(Better::Lower),
        table(
            "time to the answer to a write",
            Unit::Nanoseconds,
            rows(&[
                ("99.9 % between saves", &write(0, 999)),
                ("99 % during a save", &write(1, 990)),
                ("99.9 % during a save", &write(1, 999)),
                ("the longest during a save", &write(1, 1000)),
            ]),
        )
        .better(Better::Lower),
        table(
            "memory copied because it was written to, for each save",
            Unit::Bytes,
            rows(&[("", &|course: &Course| {
                Some(number(course.copied) / number(SAVES.len() as u64))
            })]),
        )
        .better(Better::Lower),
        table(
            "memory in use during a save beyond what was before it, at most",
            Unit::Bytes,
            rows(&[("", &|course: &Course| Some(number(course.told.added)))]),
        )
        .better(Better::Lower),
        table(
            "part of the server's memory in huge pages",
            Unit::Share,
            rows(&[
                ("before the first save", &huge(0)),
                ("when that has ended", &huge(1)),
                ("before the second", &huge(2)),
                ("in the end", &huge(4)),
            ]),
        )
        .better(Better::Higher),
    ]
}

fn course(system: System, written: Written, setting: &Setting<'_>) -> Result<Course, Error> {
    let hardware = hardware::mega_notebook();
    let memory = setting.scale.bytes(MEGA_BYTES);
    let mut bed = Testbed::new(system, &[memory], setting.scale, hardware)?;
    bed.boot(setting.scale.bytes(MEGA_KERNEL));
    let values = setting.scale.count(VALUES);
    // The same part of all values is written to, and saved, in the same time.
    let slower = |time: Duration| hardware.costs.cycles(time) * VALUES / values;
    let (server, told) = SavingServer::new(SavingLoad {
        values,
        every: slower(EVERY),
        request: hardware.costs.cycles(REQUEST),
        writes: WRITES,
        written,
        saves: SAVES.map(|at| hardware.costs.cycles(at)).to_vec(),
        end: hardware.costs.cycles(END),
        save: slower(SAVE),
        seed: setting.seed,
    });
    bed.start(server);
    if !bed.run_to_the_end(LIMIT) {
        return Err(Error::Failed(format!(
            "simulating saves under {}: they do not come to an end",
            system.name
        )));
    }
    let copied = bed.machine.kernel().counters().copied_on_write * BASE_PAGE_SIZE;
    Ok(Course {
        told: told.take(),
        copied,
        happened: bed.happened(),
    })
}
