//! What the machine says that huge pages would gain a program, held against what they gain it: the prediction of
//! `mega worth` from the simulated Accessed bits and a calibration of the simulated core, and the time that the program takes
//! with base pages and with huge ones.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::time::Duration;

use mega_core::gain::Gain;
use mega_core::{BASE_PAGE_SIZE, Machine as _, PageSize};
use mega_sim::address_space::Advice;
use mega_sim::kernel::{Fault, Thp};
use mega_sim::physical::Layout;
use mega_sim::translation::{SKYLAKE_SP, Walk};
use mega_sim::{Costs, Kernel, Memory, Program, Settings, SimulatedMachine, Work};

/// By what part of it the share that is saved may lie beside what is predicted: the meter stops where it knows the rate to 0.2,
/// and how far neighbours are touched together it knows roughly.
const TOLERANCE: f64 = 0.25;
const BYTES: u64 = 64 << 20;

/// In which order pages are touched.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Anywhere.
    Random,
    /// Eight neighbours after each other, then eight elsewhere.
    Neighbours,
}

/// A program that fills its memory and then touches pages of it, with so many cycles of other work after each touch.
struct Touching {
    order: Order,
    work: u64,
    /// How many touches each stands for.
    stands_for: u64,
    start: Option<u64>,
    next: u64,
}

impl Touching {
    fn new(order: Order, work: u64) -> Self {
        Touching {
            order,
            work,
            stands_for: 1,
            start: None,
            next: 0,
        }
    }

    /// The page and the line in it of a touch.
    fn place(&self, number: u64) -> (u64, u64) {
        let pages = BYTES / BASE_PAGE_SIZE;
        let anywhere = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        match self.order {
            Order::Random => {
                let place = anywhere(number);
                (place % pages, place >> 58)
            }
            Order::Neighbours => {
                let place = anywhere(number / 8);
                let page = place % (pages / 8) * 8 + number % 8;
                (page, ((place >> 58) + number % 8 * 9) % 64)
            }
        }
    }
}

impl Program for Touching {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some(start) = self.start else {
            let start = memory.map(BYTES, Advice::None);
            for page in 0..BYTES / BASE_PAGE_SIZE {
                memory.touch(start + page * BASE_PAGE_SIZE)?;
            }
            self.start = Some(start);
            return Ok(Work::GoesOn);
        };
        for _ in 0..64 {
            let (page, line) = self.place(self.next);
            memory.touch(start + page * BASE_PAGE_SIZE + line * 64)?;
            memory.compute(self.work);
            self.next += 1;
        }
        memory.stand_for(self.stands_for);
        Ok(Work::GoesOn)
    }
}

/// A machine with that program, whose faults take base or huge pages; the program has filled its memory and warmed its core.
fn started(
    order: Order,
    work: u64,
    walk: Walk,
    thp: Thp,
) -> (SimulatedMachine, mega_sim::kernel::Pid) {
    start(Touching::new(order, work), walk, thp)
}

fn start(program: Touching, walk: Walk, thp: Thp) -> (SimulatedMachine, mega_sim::kernel::Pid) {
    start_at(Costs::trident_server(), program, walk, thp)
}

fn start_at(
    costs: Costs,
    program: Touching,
    walk: Walk,
    thp: Thp,
) -> (SimulatedMachine, mega_sim::kernel::Pid) {
    let layout = Layout::one_node(256 << 20).unwrap();
    let settings = Settings {
        thp,
        ..Settings::default()
    };
    let kernel = Kernel::new(&layout, settings, costs);
    let mut machine = SimulatedMachine::new(kernel, 4);
    machine.set_processor(SKYLAKE_SP, walk);
    let pid = machine.start(Box::new(program), 0);
    machine.rest(Duration::from_millis(60));
    (machine, pid)
}

/// Cycles that a touch takes.
fn cycles_of_a_touch(order: Order, work: u64, walk: Walk, thp: Thp) -> f64 {
    let (mut machine, pid) = started(order, work, walk, thp);
    let before = machine.counts(pid).unwrap();
    machine.rest(Duration::from_millis(15));
    let after = machine.counts(pid).unwrap();
    let touches = after.touches - before.touches;
    (after.cycles - before.cycles) as f64 / touches as f64 + work as f64
}

fn gain(machine: &mut SimulatedMachine, pid: mega_sim::kernel::Pid) -> Gain {
    machine.calibrate();
    let process = machine.kernel().process(pid).id;
    machine.gain(process).unwrap()
}

#[test]
fn what_is_predicted_is_what_huge_pages_save() {
    let nested = Walk::Nested(PageSize::Base);
    for (order, work, walk) in [
        (Order::Random, 0, Walk::Native),
        (Order::Random, 0, nested),
        (Order::Random, 1000, nested),
        (Order::Neighbours, 0, nested),
        (Order::Neighbours, 300, nested),
    ] {
        let [base, huge] =
            [Thp::Never, Thp::Always].map(|thp| cycles_of_a_touch(order, work, walk, thp));
        let saved = 1.0 - huge / base;
        let (mut machine, pid) = started(order, work, walk, Thp::Never);
        let predicted = gain(&mut machine, pid);
        let share = predicted.saved_share;
        assert!(
            (share.value - saved).abs() <= TOLERANCE * saved,
            "{order:?} with {work} cycles, {walk:?}: {saved:.3} saved, {share:?} predicted"
        );
        assert!(
            predicted.cpus > 0.9 && predicted.cpus < 1.1,
            "{predicted:?}"
        );
    }
}

/// Where one touch stands for others, fewer Accessed bits are set in a time, and as much is gained.
#[test]
fn touches_that_stand_for_others_gain_as_much() {
    let gain_of = |stands_for| {
        let program = Touching {
            stands_for,
            ..Touching::new(Order::Random, 1000)
        };
        let (mut machine, pid) = start(program, Walk::Native, Thp::Never);
        gain(&mut machine, pid).saved_share.value
    };
    let (one, many) = (gain_of(1), gain_of(256));
    assert!(
        (many - one).abs() <= TOLERANCE * one,
        "{one} where each stands for itself, {many}"
    );
}

/// How many pages a process has mapped, and how many of them the machine sees accessed since it looked last.
fn mapped_and_accessed(machine: &mut SimulatedMachine) -> (u32, u32) {
    let observation = machine.observe().unwrap();
    let regions = &observation.processes[0].regions;
    regions.iter().fold((0, 0), |(mapped, accessed), region| {
        (
            mapped + u32::from(region.mapped),
            accessed + u32::from(region.accessed),
        )
    })
}

#[test]
fn measuring_leaves_the_accessed_bits_to_who_observes_next() {
    let (mut machine, pid) = started(Order::Random, 0, Walk::Native, Thp::Never);
    machine.observe().unwrap();
    machine.rest(Duration::from_millis(500));
    gain(&mut machine, pid);
    let (mapped, accessed) = mapped_and_accessed(&mut machine);
    assert_eq!(mapped, accessed, "all is touched many times in that time");
}

/// The meter sees each touch. Who observes next sees as many as at other times.
#[test]
fn measuring_leaves_a_part_of_the_touches_a_part() {
    let accessed = |measures: bool| {
        let program = Touching {
            stands_for: 256,
            ..Touching::new(Order::Random, 1000)
        };
        let (mut machine, pid) = start(program, Walk::Native, Thp::Never);
        machine.observe().unwrap();
        machine.rest(Duration::from_millis(500));
        if measures {
            gain(&mut machine, pid);
        }
        let (mapped, accessed) = mapped_and_accessed(&mut machine);
        assert!(accessed < mapped / 4, "{accessed} of {mapped}");
        accessed
    };
    let (without, with) = (accessed(false), accessed(true));
    assert!(
        with >= without && with - without < without / 8,
        "{with}, {without}"
    );
}

/// In a moment nearly all pages would be touched, and a small part of their bits is set.
#[test]
fn there_is_no_glance_where_touches_stand_for_others() {
    for (stands_for, can) in [(1, true), (256, false)] {
        let program = Touching {
            stands_for,
            ..Touching::new(Order::Random, 1000)
        };
        let (machine, _) = start(program, Walk::Native, Thp::Never);
        assert_eq!(machine.can_glance(), can, "{stands_for}");
    }
}

/// To find all pages of much memory takes longer than is looked at them.
#[test]
fn what_takes_long_to_find_is_looked_at() {
    let costs = Costs::trident_server();
    let slow = Costs {
        look_page: costs.cycles(Duration::from_micros(20)),
        ..costs
    };
    let program = Touching::new(Order::Random, 0);
    let (mut machine, pid) = start_at(slow, program, Walk::Native, Thp::Never);
    let gain = gain(&mut machine, pid);
    assert!(gain.cpus > 0.9, "it never rests: {gain:?}");
}

#[test]
fn what_was_not_calibrated_measures_nothing() {
    let layout = Layout::one_node(64 << 20).unwrap();
    let kernel = Kernel::new(&layout, Settings::default(), Costs::trident_server());
    let mut machine = SimulatedMachine::new(kernel, 4);
    machine.calibrate();
    assert!(!machine.measures() && machine.promotion_seconds().is_none());
    machine.set_processor(SKYLAKE_SP, Walk::Native);
    machine.calibrate();
    assert!(machine.measures() && machine.promotion_seconds().is_some());
    let idle = machine.kernel_mut().spawn(0);
    let idle = machine.kernel().process(idle).id;
    assert_eq!(machine.gain(idle), None, "no core runs it");
}
