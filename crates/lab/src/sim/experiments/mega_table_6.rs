//! MEGA table 6: visits in steps of 32 KiB, the paper's worst case for MEGA.

use std::time::Duration;

use mega_sim::translation::{HASWELL, Mmu, Walk};

use super::{MEGA_BYTES, MEGA_KERNEL, names};
use crate::error::Error;
use crate::live::metric::{Better, Unit};
use crate::sim::experiment::{Experiment, Setting};
use crate::sim::findings::{Findings, Row, Table};
use crate::sim::hardware;
use crate::sim::numbers::{number, share};
use crate::sim::programs::{Resident, STEP};
use crate::sim::system::{ADAPTIVE, BASE, INGENS, MEGA, System, THP};
use crate::sim::testbed::Testbed;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mega-table-6",
    title: "visits in steps of 32 KiB, the paper's worst case for MEGA",
    source: "MEGA, table 6",
    about: "A program fills 6 GB and visits it in steps of 32 KiB. After two minutes, what a visit costs on a simulated Haswell, with the pages that map it then.",
    memory: MEGA_BYTES,
    scale: 1,
    run,
};

const SYSTEMS: [System; 5] = [BASE, THP, INGENS, MEGA, ADAPTIVE];
const INGENS_PLACE: usize = 2;
/// Visits of the paper: 10 runs over 6 GB, 8 bytes further after each sweep.
const PAPER_VISITS: f64 = 10.0 * 6.0 * 1024.0 * 1024.0 * 1024.0 / 8.0;
/// Table 6: 158.8 s and 324.1 s; here for each visit, in ns.
const PAPER: [Option<f64>; 5] = [
    None,
    None,
    Some(158.8e9 / PAPER_VISITS),
    Some(324.1e9 / PAPER_VISITS),
    None,
];
/// Sweeps before those that count, and those.
const WARM_UP: u64 = 2;
const MEASURED: u64 = 4;
/// The paper moves on by a word after each sweep.
const WORD: u64 = 8;

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
        bed.run_for(Duration::from_secs(120));
        let mapped = bed.mapped(pid);
        huge.push(Some(share(mapped.huge, mapped.resident())));
        let mut mmu = Mmu::new(&HASWELL, Walk::Native);
        let kernel = bed.machine.kernel_mut();
        let start = kernel.process(pid).space.areas()[0].start;
        for sweep in 0..WARM_UP + MEASURED {
            if sweep == WARM_UP {
                mmu.reset_counts();
            }
            for visit in 0..bytes / STEP {
                let address = start + visit * STEP + sweep * WORD;
                let touched = kernel.touch(pid, address);
                let touched = touched.map_err(|fault| Error::Failed(fault.to_string()))?;
                mmu.touch(address, touched.page_size);
            }
        }
        let counts = mmu.counts();
        let cycles = number(counts.cycles) / number(counts.touches);
        visits.push(Some(cycles * 1e9 / number(hardware.costs.hertz)));
        walks.push(Some(share(counts.translation, counts.cycles)));
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
                "of it in translation",
                Unit::Share,
                Row::ours("translation", walks),
            ),
            table("memory in huge pages", Unit::Share, Row::ours("huge", huge)),
        ],
        happened,
    })
}
