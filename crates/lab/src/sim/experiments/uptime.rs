//! Fragmentation over two weeks of uptime with daily load, on servers that are used to different degrees.
//!
//! Nothing of it is measured on a fleet: what services do is an assumption, the same for each system. What it asks is whether memory
//! managed so stays usable for huge pages.

use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};
use mega_sim::kernel::Pid;
use mega_sim::physical::{Frame, Pages};

use super::names;
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::random::{Random, below, mix};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Happened, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::Service;
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP};
use crate::sim::testbed::Testbed;

const MACHINE: u64 = 64 << 30;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "uptime",
    title: "free blocks and huge pages over two weeks of uptime with daily load",
    source: "beyond the papers; the fleet of Contiguitas, ISCA 2023",
    about: "Four servers, whose services use 50 to 80 % of memory by day and half of that at night, for 14 days. A service renews a twentieth of its memory each hour and is started anew every four days. The kernel allocates pages that cannot move, of which a few stay for days, and reads files, which fill what is free. An hour is 30 seconds of the simulated machine. A service goes over all that it has six times in an hour, and over a tenth of it, its hot part, twenty times a second. What of memory is in free blocks or huge pages, and of the services' memory in huge pages, on average over each day, and the part of all hours at whose end a server had not one free block; the fleet's number is that of its servers at one time. And what translation took of the services' time.",
    memory: MACHINE,
    scale: 64,
    reasons: &[],
    run,
};

const SYSTEMS: [System; 6] = [BASE, THP, INGENS, HAWKEYE, MEGA, ADAPTIVE];
/// A fleet runs Linux with huge pages.
const THP_PLACE: usize = 1;
/// Of the fleet's servers, those without one free block.
const FLEET: f64 = 0.23;

/// What services use by day on each server, in percent of its memory.
const USED: [u64; 4] = [50, 60, 70, 80];
const SERVICES: u64 = 4;
const DAYS: u64 = 14;
/// On a machine with less memory than this nothing is found that would hold elsewhere: a day shows that it works.
const SMALLEST: u64 = 1 << 30;
const HOURS: u64 = 24;
/// Hours after which a service is started anew: one of them each day.
const LIFE: u64 = SERVICES * HOURS;
/// An hour here.
const HOUR: Duration = Duration::from_secs(30);
/// What the kernel does, it does in so many parts of an hour.
const PARTS: u32 = 6;
/// The kernel uses one part in so many from the start: 2 GB of 64.
const KERNEL: u64 = 32;
/// One page in so many is allocated by the kernel each hour, and of these one in [`KEPT`] stays for days; the others are freed in the
/// next part of the hour.
const ALLOCATED: u32 = 400;
const KEPT: usize = 16;
/// Hours that a page stays which stays: three days.
const STAYS: usize = 72;
/// One page in so many is read of files each hour; files are as large as memory.
const READ: u32 = 10;

/// A server in a day: sums over what was seen at the end of each hour.
#[derive(Clone, Copy, Default)]
struct Day {
    free_blocks: u64,
    huge: u64,
    mapped: u64,
    /// Hours at whose end no block was free.
    without: u64,
}

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let mut happened: Vec<Happened> = Vec::new();
    // By system, then by server.
    let mut courses: Vec<Vec<Vec<Day>>> = Vec::new();
    let mut in_translation = Vec::new();
    for system in SYSTEMS {
        let mut servers = Vec::new();
        let mut seconds = 0.0;
        for used in USED {
            (setting.progress)(&format!("{}, {used} % used", system.name));
            let mut server = Server::new(system, used, setting)?;
            servers.push(server.days());
            seconds += server.in_translation().as_secs_f64();
            super::add(&mut happened, server.bed.happened());
        }
        courses.push(servers);
        in_translation.push(Some(seconds));
    }
    let mut tables = tables(&courses, number(setting.scale.bytes(MACHINE)));
    tables.push(
        Table::new(
            "time that the services of all servers spent in translation",
            Unit::Seconds,
            names(&SYSTEMS),
            vec![Row::ours("in all days", in_translation)],
        )
        .better(Better::Lower),
    );
    Ok(Findings {
        memory_bytes: setting.scale.bytes(MACHINE),
        tables,
        happened,
    })
}

/// Of servers that have so much memory each.
fn tables(courses: &[Vec<Vec<Day>>], memory: f64) -> Vec<Table> {
    let systems = names(&SYSTEMS);
    let by_day = |title, unit, value: &dyn Fn(&[Day]) -> f64| {
        let days = courses
            .first()
            .and_then(|servers| servers.first())
            .map_or(0, Vec::len);
        let rows = (0..days).map(|day| {
            let of = |servers: &Vec<Vec<Day>>| {
                let days: Vec<Day> = servers.iter().map(|days| days[day]).collect();
                Some(value(&days))
            };
            Row::ours(format!("day {}", day + 1), courses.iter().map(of).collect())
        });
        Table::new(title, unit, systems.clone(), rows.collect()).by_course()
    };
    let sum = |days: &[Day], of: fn(&Day) -> u64| days.iter().map(of).sum::<u64>();
    let without = courses.iter().map(|servers| {
        let days = servers.iter().flatten();
        let without = days.clone().map(|day| day.without);
        Some(share(without.sum(), days.count() as u64 * HOURS))
    });
    let mut fleet = vec![None; SYSTEMS.len()];
    fleet[THP_PLACE] = Some(FLEET);
    let memory = memory * number(USED.len() as u64 * HOURS);
    let in_huge = |day: &Day| day.huge / HUGE_PAGE_SIZE;
    vec![
        by_day(
            "memory that is in free blocks or in huge pages",
            Unit::Share,
            &|days| {
                let blocks = sum(days, |day| day.free_blocks) + sum(days, in_huge);
                number(blocks * HUGE_PAGE_SIZE) / memory
            },
        )
        .better(Better::Higher),
        by_day(
            "part of the services' memory in huge pages",
            Unit::Share,
            &|days| share(sum(days, |day| day.huge), sum(days, |day| day.mapped)),
        )
        .better(Better::Higher),
        by_day("free blocks of all servers", Unit::Count, &|days| {
            number(sum(days, |day| day.free_blocks)) / number(HOURS)
        }),
        Table::new(
            "hours at whose end a server had not one free block",
            Unit::Share,
            systems,
            vec![Row::beside("of all", without.collect(), fleet)],
        )
        .better(Better::Lower),
    ]
}

/// A server and what its kernel has in hand.
struct Server {
    bed: Testbed,
    /// Its services: those that run, and those that have ended.
    services: Vec<Pid>,
    /// What each service has at the day's peak.
    peak: u64,
    /// Pages of its memory, and of its files.
    pages: u32,
    random: Random,
    /// To be freed in the next part of an hour.
    short: Vec<Frame>,
    /// Those that stay longer.
    kept: Vec<Frame>,
    seed: u64,
}

impl Server {
    fn new(system: System, used: u64, setting: &Setting<'_>) -> Result<Self, Error> {
        let memory = setting.scale.bytes(MACHINE);
        let hardware = hardware::trident_server();
        let mut bed = Testbed::new(system, &[memory], setting.scale, hardware)?;
        bed.boot(memory / KERNEL);
        let seed = mix(setting.seed ^ used << 32);
        Ok(Server {
            bed,
            services: Vec::new(),
            peak: memory / 100 * used / SERVICES,
            pages: u32::try_from(memory / BASE_PAGE_SIZE).unwrap_or(u32::MAX),
            random: Random::new(seed),
            short: Vec::new(),
            kept: Vec::new(),
            seed,
        })
    }

    /// Its days.
    fn days(&mut self) -> Vec<Day> {
        let mut days: Vec<Day> = Vec::new();
        let count = if u64::from(self.pages) * BASE_PAGE_SIZE < SMALLEST {
            1
        } else {
            DAYS
        };
        for hour in 0..count * HOURS {
            self.keep_services(hour);
            for _ in 0..PARTS {
                self.bed.run_for(HOUR / PARTS);
                self.work_of_the_kernel();
            }
            if hour.is_multiple_of(HOURS) {
                days.push(Day::default());
            }
            if let Some(day) = days.last_mut() {
                self.look(day);
            }
        }
        days
    }

    /// Starts those that are missing: the first ones so that one of them ends each day.
    fn keep_services(&mut self, hour: u64) {
        while (self.running().count() as u64) < SERVICES {
            let place = self.services.len() as u64 + 1;
            let hours = match place {
                first if first <= SERVICES => first * HOURS,
                _ => LIFE,
            };
            let seed = self.seed ^ place;
            let service = Service::new(self.peak, hour, hours, HOUR, seed);
            self.services.push(self.bed.start(service));
        }
    }

    fn running(&self) -> impl Iterator<Item = Pid> {
        let services = self.services.iter().copied();
        services.filter(|pid| self.bed.machine.ended(*pid).is_none())
    }

    /// A part of an hour's.
    fn work_of_the_kernel(&mut self) {
        let kernel = self.bed.machine.kernel_mut();
        for frame in self.short.drain(..) {
            kernel.free_own(frame);
        }
        for _ in 0..self.pages / READ / PARTS {
            let page = below(self.random.word(), self.pages as usize);
            kernel.read_file(u32::try_from(page).unwrap_or(0), 0);
        }
        let going = self.kept.len() / STAYS / PARTS as usize;
        for _ in 0..going {
            let place = below(self.random.word(), self.kept.len());
            kernel.free_own(self.kept.swap_remove(place));
        }
        for _ in 0..self.pages / ALLOCATED / PARTS {
            let Some(frame) = kernel.allocate_own(Pages::Unmovable(0), 0) else {
                return;
            };
            if below(self.random.word(), KEPT) == 0 {
                self.kept.push(frame);
            } else {
                self.short.push(frame);
            }
        }
    }

    /// What translation has taken of its services' time.
    fn in_translation(&self) -> Duration {
        let machine = &self.bed.machine;
        let counts = self.services.iter().filter_map(|pid| machine.counts(*pid));
        let cycles = counts.map(|counts| counts.translation).sum();
        machine.kernel().costs().time(cycles)
    }

    /// What is there at the end of an hour.
    fn look(&self, day: &mut Day) {
        let mapped = self.running().map(|pid| self.bed.mapped(pid));
        let (huge, base) = mapped.fold((0, 0), |(huge, base), mapped| {
            (huge + mapped.huge, base + mapped.base)
        });
        let free_blocks = self.bed.free_blocks();
        day.free_blocks += free_blocks;
        day.huge += huge;
        day.mapped += huge + base;
        day.without += u64::from(free_blocks == 0);
    }
}
