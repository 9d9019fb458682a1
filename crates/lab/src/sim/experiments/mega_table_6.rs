//! MEGA table 6: visits in steps of 32 KiB, the paper's worst case for MEGA.

use std::time::Duration;

use super::{MEGA_BYTES, MEGA_KERNEL, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::Resident;
use crate::sim::system::{ADAPTIVE, BASE, HAWKEYE, INGENS, MEGA, System, THP, TRIDENT};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-table-6",
    title: "visits in steps of 32 KiB, the paper's worst case for MEGA",
    source: "MEGA, table 6",
    about: "A program fills 6 GB and visits it in steps of 32 KiB. What a visit costs on a simulated Haswell in the second of two minutes, with what the program stands still for meanwhile.",
    memory: MEGA_BYTES,
    scale: 1,
    reasons: &[],
    run,
};

const SYSTEMS: [System; 7] = [BASE, THP, INGENS, MEGA, ADAPTIVE, HAWKEYE, TRIDENT];
const INGENS_PLACE: usize = 2;
/// Visits of the paper: 10 runs over 6 GB, 8 bytes further after each sweep.
const PAPER_VISITS: f64 = 10.0 * 6.0 * 1024.0 * 1024.0 * 1024.0 / 8.0;
/// Table 6: 158.8 s and 324.1 s; here for each visit, in ns.
const PAPER: [Option<f64>; 7] = [
    None,
    None,
    Some(158.8e9 / PAPER_VISITS),
    Some(324.1e9 / PAPER_VISITS),
    None,
    None,
    None,
];
/// So long it runs before its visits count, and then as long again.
const MINUTE: Duration = Duration::from_secs(60);

fn run(setting: &Setting<'_>) -> Result<Findings, Error> {
    let memory_bytes = setting.scale.bytes(MEGA_BYTES);
    let bytes = setting.scale.bytes(6 << 30);
    let hardware = hardware::mega_notebook();
    let mut happened = Vec::new();
    let (mut visits, mut walks, mut huge) = (Vec::new(), Vec::new(), Vec::new());
    for system in SYSTEMS {
        (setting.progress)(system.name);
        let mut bed = Testbed::new(system, &[memory_bytes], setting.scale, hardware)?;
        bed.boot(setting.scale.bytes(MEGA_KERNEL));
        let pid = bed.start(Resident::strides(bytes));
        let look = |bed: &Testbed| {
            let counts = bed.machine.counts(pid).unwrap_or_default();
            (counts, bed.machine.stood_still(pid))
        };
        bed.run_for(MINUTE);
        let (before, stood_before) = look(&bed);
        bed.run_for(MINUTE);
        let (after, stood) = look(&bed);
        let touches = after.touches - before.touches;
        if touches == 0 {
            let name = system.name;
            return Err(Error::Failed(format!(
                "simulating visits under {name}: it made none in a minute"
            )));
        }
        let mapped = bed.mapped(pid);
        huge.push(Some(share(mapped.huge, mapped.resident())));
        let cycles = after.cycles - before.cycles;
        let took = hardware.costs.time(cycles) + (stood - stood_before);
        visits.push(Some(took.as_secs_f64() * 1e9 / number(touches)));
        walks.push(Some(share(after.translation - before.translation, cycles)));
        happened.push(bed.happened());
    }
    let table = |title: &str, unit, row| Table::new(title, unit, names(&SYSTEMS), vec![row]);
    Ok(Findings {
        memory_bytes,
        tables: vec![
            table(
                "time of a visit",
                Unit::Nanoseconds,
                Row::beside("a visit", visits, PAPER.to_vec()),
            )
            .against(INGENS_PLACE)
            .better(Better::Lower),
            table(
                "cycles in translation",
                Unit::Share,
                Row::ours("translation", walks),
            )
            .better(Better::Lower),
            table("memory in huge pages", Unit::Share, Row::ours("huge", huge)),
        ],
        happened,
    })
}
