//! A program of the simulated machine is recorded there, and its recording does the same on another one.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::{
    BASE_PAGE_SIZE, HUGE_PAGE_SIZE, Machine, PageSize, ProcessId, Region, RegionObservation,
};
use mega_record::programs::{BlindMemory, RecordedProgram, Start, Survey, share};
use mega_record::{Header, Look, Reader, Writer};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::physical::Layout;
use mega_sim::translation::{SKYLAKE_SP, Walk};
use mega_sim::{Costs, Kernel, Memory, Program, Settings, SimulatedMachine, Work};

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;
/// It is looked so long before what comes after a look begins.
const BEFORE: Duration = Duration::from_millis(5);
/// Pages that are used of a region that is used sparsely.
const SPARSE: u64 = 64;

fn machine() -> SimulatedMachine {
    let layout = Layout::one_node(128 * MIB).unwrap();
    let costs = Costs::trident_server();
    let mut machine = SimulatedMachine::new(Kernel::new(&layout, Settings::default(), costs), 4);
    machine.set_processor(SKYLAKE_SP, Walk::Native);
    machine
}

/// Ten regions: four are used whole again and again, two were used once and are given back after ten passes, two are used sparsely, and after six passes two more are
/// used whole. It goes over them three times a second.
#[derive(Default)]
struct Known {
    start: Option<u64>,
    passes: u64,
}

impl Program for Known {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let start = *self
            .start
            .get_or_insert_with(|| memory.map(10 * HUGE_PAGE_SIZE, Advice::None));
        let mut pages = |region: u64, pages: u64| {
            let first = start + region * HUGE_PAGE_SIZE;
            (0..pages).try_for_each(|page| memory.touch(first + page * BASE_PAGE_SIZE).map(|_| ()))
        };
        for region in 0..4 {
            pages(region, 512)?;
        }
        for region in 6..8 {
            pages(region, SPARSE)?;
        }
        if self.passes == 0 {
            pages(4, 512)?;
            pages(5, 512)?;
        }
        if self.passes >= 6 {
            pages(8, 512)?;
            pages(9, 512)?;
        }
        if self.passes == 10 {
            memory.discard(start + 4 * HUGE_PAGE_SIZE, 2 * HUGE_PAGE_SIZE);
        }
        self.passes += 1;
        Ok(Work::Rests(SECOND / 3))
    }
}

/// What is seen of a process, by region.
type Seen = BTreeMap<Region, (u16, u16, PageSize)>;

fn seen(regions: &[RegionObservation]) -> Seen {
    let regions = regions.iter();
    regions
        .map(|seen| (seen.region, (seen.mapped, seen.accessed, seen.page_size)))
        .collect()
}

/// A look each second, as a file.
fn record(seconds: u64) -> Vec<u8> {
    let mut machine = machine();
    machine.start(Box::new(Known::default()), 0);
    machine.rest(SECOND / 10);
    let began = machine.now();
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for second in 0..seconds {
        let due = began + SECOND * u32::try_from(second).unwrap();
        machine.rest(due.saturating_sub(machine.now()));
        let at = machine.now() - began;
        let observation = machine.observe().unwrap();
        let look = Look {
            at,
            observation,
            ..Look::default()
        };
        writer.write(&look).unwrap();
    }
    writer.finish().unwrap().0
}

/// What is seen of a recording's programs at the times of its looks, that of the first process first.
fn play(files: &[&[u8]]) -> Vec<Vec<Seen>> {
    let mut machine = machine();
    let start = Start::default();
    let mut pids = Vec::new();
    let mut times = Vec::new();
    for file in files {
        let survey = Survey::of(Reader::new(*file).unwrap());
        times = Reader::new(*file).unwrap().map(|look| look.at).collect();
        let owned = std::io::Cursor::new(file.to_vec());
        let tape = share(&survey, Reader::new(owned).unwrap());
        for (process, known) in &survey.processes {
            let core = (&SKYLAKE_SP, Walk::Native);
            let (program, _) = RecordedProgram::new(&tape, *process, &start, core, 1);
            pids.push(machine.start(Box::new(program), 0));
            if known.is_partly_blind {
                let blind = BlindMemory::new(&tape, *process, &start, SKYLAKE_SP.hertz);
                let pid = machine.start(Box::new(blind), 0);
                machine.leave_unmanaged(pid);
            }
        }
    }
    while start.began().is_none() {
        machine.rest(SECOND / 1000);
    }
    let began = machine.kernel().costs().time(start.began().unwrap());
    let mut all = vec![Vec::new(); pids.len()];
    for at in times {
        machine.rest((began + at).saturating_sub(machine.now() + BEFORE));
        let observation = machine.observe().unwrap();
        for (pid, all) in pids.iter().zip(&mut all) {
            let id = machine.kernel().process(*pid).id;
            let mut found = observation.processes.iter();
            let regions = found.find(|seen| seen.process == id);
            all.push(
                regions
                    .map(|process| seen(&process.regions))
                    .unwrap_or_default(),
            );
        }
    }
    all
}

#[test]
fn a_recording_of_the_simulated_machine_does_the_same_again_alone_and_two_at_once() {
    let file = record(8);
    let recorded: Vec<Seen> = Reader::new(file.as_slice())
        .unwrap()
        .map(|look| seen(&look.observation.processes[0].regions))
        .collect();
    assert_eq!(recorded[1].len(), 8, "{:?}", recorded[1]);
    assert_eq!(recorded[7].len(), 8, "{:?}", recorded[7]);
    assert_ne!(recorded[1], recorded[7]);
    for files in [&[file.as_slice()][..], &[file.as_slice(), file.as_slice()]] {
        for played in play(files) {
            // What the first look says of accesses is not known, and here it comes when some of what follows is done.
            for (look, (played, recorded)) in played.iter().zip(&recorded).enumerate().skip(2) {
                assert_eq!(played, recorded, "look {look}");
            }
        }
    }
}

/// A region that a huge page maps at some looks: nobody sees it then, and its memory is in use.
#[test]
fn what_a_huge_page_mapped_is_not_seen_until_base_pages_map_it() {
    let process = ProcessId {
        pid: 3,
        start_time: 1,
    };
    let region = |page_size| RegionObservation {
        region: Region::containing(1 << 30),
        mapped: 512,
        accessed: 512,
        page_size,
        zero_filled: None,
        swapped: 0,
    };
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let sizes = [
        PageSize::Huge,
        PageSize::Huge,
        PageSize::Base,
        PageSize::Base,
        PageSize::Huge,
        PageSize::Huge,
    ];
    for (second, size) in (0..).zip(sizes) {
        let mut look = Look {
            at: SECOND * second,
            ..Look::default()
        };
        look.observation.processes = vec![mega_core::ProcessObservation {
            process,
            cpu_time: None,
            regions: vec![region(size)],
            accesses_known: true,
            node: None,
            cgroup: None,
        }];
        writer.write(&look).unwrap();
    }
    let file = writer.finish().unwrap().0;
    let played = play(&[&file]);
    let base = seen(&[region(PageSize::Base)]);
    let nothing = Seen::new();
    assert_eq!(
        played[0],
        [&nothing, &nothing, &base, &base, &nothing, &nothing].map(Clone::clone)
    );
}
