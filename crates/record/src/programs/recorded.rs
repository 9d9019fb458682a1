//! A process of a recording as a program.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, ProcessId, Region, RegionObservation};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::translation::{Mmu, Processor, Walk};
use mega_sim::{Memory, Program, Work};

use super::start::{POLL, Start, cycles, rest_until};
use super::tape::{Step, Tape};
use super::touching::{Accessed, Told, Touching, Work as ToDo};
use crate::look::Look;
use crate::pages::{Pages, without};

/// What was done between two looks is spread over so many parts of the time at most, of so long at least.
const MOST_SLICES: u64 = 500;
const SLICES_PER_SECOND: u64 = 500;
/// Pages that are taken before others have their turn.
const AT_ONCE: u16 = 64;

/// The program. It exits where the process was gone before the recording ended, and keeps its memory otherwise.
pub struct RecordedProgram<L> {
    tape: Rc<RefCell<Tape<L>>>,
    process: ProcessId,
    start: Start,
    hertz: u64,
    seed: u64,
    touching: Touching,
    told: Rc<RefCell<Told>>,
    /// The regions that it has, as they were at the last look.
    recorded: BTreeMap<Region, RegionObservation>,
    /// What it is at.
    interval: Option<Interval>,
    /// A look that was taken before the recordings began.
    ahead: Option<Rc<Step>>,
    /// How late it was with what came last, in cycles.
    late: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    /// It takes what it had at the first look.
    Filling,
    Waiting,
    Running,
}

/// What is done between two looks.
struct Interval {
    step: Rc<Step>,
    /// When it begins and how long it is, in cycles.
    from: u64,
    length: u64,
    /// In how many parts it is, and which is next.
    slices: u64,
    slice: u64,
    /// By the slice that they are due in.
    tasks: Vec<(u64, Task)>,
    task: usize,
    call: usize,
    to_do: ToDo,
}

/// What is done to a region.
struct Task {
    accessed: Accessed,
    /// Pages that come.
    new: Range<u16>,
    zeros: Range<u16>,
}

impl<L: Iterator<Item = Look>> RecordedProgram<L> {
    /// A process of a recording, on a machine with that processor, and where it tells what came of it. The seed says which of the pages that
    /// were accessed are touched most.
    pub fn new(
        tape: &Rc<RefCell<Tape<L>>>,
        process: ProcessId,
        start: &Start,
        (processor, walk): (&Processor, Walk),
        seed: u64,
    ) -> (Self, Rc<RefCell<Told>>) {
        start.wait_for_one_more();
        let told = Rc::new(RefCell::new(Told::default()));
        let by_base = Mmu::new(processor, walk);
        let program = RecordedProgram {
            tape: Rc::clone(tape),
            process,
            start: start.clone(),
            hertz: processor.hertz,
            seed,
            touching: Touching::new(by_base, processor.hertz, seed, &told),
            told: Rc::clone(&told),
            recorded: BTreeMap::new(),
            interval: None,
            ahead: None,
            late: 0,
            stage: Stage::New,
        };
        (program, told)
    }

    /// Begins with what a look says, `began` being when the recordings did. Gives back what is gone by then.
    fn begin(&mut self, memory: &mut Memory<'_>, step: Rc<Step>, began: u64) {
        if let Some(rate) = step.rate {
            self.touching.set_rate(rate);
        }
        if let Some(mappings) = &step.mappings {
            remap(memory, mappings);
        }
        let from = began.saturating_add(cycles(step.since, self.hertz));
        let length = cycles(step.at.saturating_sub(step.since), self.hertz);
        let slices = u128::from(length) * u128::from(SLICES_PER_SECOND) / u128::from(self.hertz);
        let slices = u64::try_from(slices)
            .unwrap_or(u64::MAX)
            .clamp(1, MOST_SLICES);
        let mut interval = Interval {
            from,
            length,
            slices,
            slice: 0,
            tasks: Vec::new(),
            task: 0,
            call: 0,
            to_do: ToDo::default(),
            step,
        };
        self.plan(memory, &mut interval);
        self.interval = Some(interval);
    }

    fn plan(&mut self, memory: &mut Memory<'_>, interval: &mut Interval) {
        let step = Rc::clone(&interval.step);
        let Some(regions) = &step.regions else {
            return;
        };
        let lost = self.lost(interval);
        let mut before = std::mem::take(&mut self.recorded);
        let count = regions.len() as u64;
        for (number, seen) in (0..).zip(regions) {
            let lost = lost.get(&seen.region).copied();
            // What is lost on the way goes with the call, and what is there at the look came after it.
            let old = before.remove(&seen.region).filter(|_| lost.is_none());
            let task = task(memory, &step, old.as_ref(), seen);
            if task.accessed.count() > 0 || !task.new.is_empty() || !task.zeros.is_empty() {
                let earliest = lost.unwrap_or(0);
                let due = earliest + number * (interval.slices - earliest) / count.max(1);
                interval.tasks.push((due, task));
            }
            self.recorded.insert(seen.region, *seen);
        }
        for region in before
            .into_keys()
            .filter(|region| !lost.contains_key(region))
        {
            memory.discard(region.start(), HUGE_PAGE_SIZE);
        }
        interval.tasks.sort_by_key(|(due, _)| *due);
        let accessed = interval.tasks.iter().map(|(_, task)| task.accessed);
        interval.to_do = self.touching.plan(accessed, interval.length, self.seed);
    }

    /// The regions that the process gives up whole on the way, and in which slice for the last time.
    fn lost(&self, interval: &Interval) -> BTreeMap<Region, u64> {
        let mut lost = BTreeMap::new();
        for call in &interval.step.calls {
            let Some(range) = call.kind.range() else {
                continue;
            };
            let slice = self.slice_of(interval, call.at);
            let there = self.recorded.keys();
            for region in there.filter(|region| is_within(**region, range)) {
                lost.insert(*region, slice);
            }
        }
        lost
    }

    /// In which slice a time of the recording is.
    fn slice_of(&self, interval: &Interval, at: std::time::Duration) -> u64 {
        let into = u128::from(cycles(at.saturating_sub(interval.step.since), self.hertz));
        let slice = into * u128::from(interval.slices) / u128::from(interval.length.max(1));
        u64::try_from(slice)
            .unwrap_or(u64::MAX)
            .min(interval.slices - 1)
    }

    /// Does some more of an interval. Whether it is through.
    fn go_on(
        &mut self,
        memory: &mut Memory<'_>,
        interval: &mut Interval,
    ) -> Result<Option<Work>, Fault> {
        while let Some(call) = interval.step.calls.get(interval.call) {
            if self.slice_of(interval, call.at) > interval.slice {
                break;
            }
            interval.call += 1;
            if let Some(range) = call.kind.range() {
                lose(memory, range);
                return Ok(Some(Work::GoesOn));
            }
        }
        if let Some((due, task)) = interval.tasks.get_mut(interval.task)
            && *due <= interval.slice
        {
            if self.do_some(memory, task, &mut interval.to_do)? {
                interval.task += 1;
            }
            return Ok(Some(Work::GoesOn));
        }
        let slices = u128::from(interval.slices);
        let part = |of: u64| {
            let part = u128::from(of) * u128::from(interval.slice + 1) / slices;
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        if interval.to_do.done < part(interval.to_do.cycles) {
            self.touching.go_on(memory, &mut interval.to_do)?;
            return Ok(Some(Work::GoesOn));
        }
        let next = interval.from.saturating_add(part(interval.length));
        interval.slice += 1;
        if interval.slice < interval.slices {
            return Ok(Some(rest_until(memory, next, self.hertz)));
        }
        Ok(None)
    }

    /// Does some of what a region needs; whether that was all.
    fn do_some(
        &mut self,
        memory: &mut Memory<'_>,
        task: &mut Task,
        to_do: &mut ToDo,
    ) -> Result<bool, Fault> {
        let place = |page: u16| task.accessed.start + u64::from(page) * BASE_PAGE_SIZE;
        if !task.new.is_empty() {
            let until = task.new.start.saturating_add(AT_ONCE).min(task.new.end);
            for page in task.new.start..until {
                memory.touch(place(page))?;
            }
            task.new.start = until;
            return Ok(false);
        }
        let left = to_do.cycles.saturating_sub(to_do.done);
        let pages = task.accessed.first.into();
        to_do.done += self
            .touching
            .row(memory, task.accessed.start, pages, left)?;
        for page in task.zeros.clone() {
            memory.write_zeros(place(page));
        }
        Ok(true)
    }

    /// It is through with all that was recorded.
    fn end(&self) {
        self.told.borrow_mut().late = Some(self.late);
    }
}

/// What a region needs to become what it is at a look.
fn task(
    memory: &mut Memory<'_>,
    step: &Step,
    old: Option<&RegionObservation>,
    seen: &RegionObservation,
) -> Task {
    let start = seen.region.start();
    let pages = Pages::of(old, seen);
    if memory
        .kernel()
        .process(memory.pid())
        .space
        .area_of(start)
        .is_none()
    {
        // A mapping that the recording does not have, as one that has just come.
        let whole = start..seen.region.end();
        for missing in without(std::slice::from_ref(&whole), &areas(memory)) {
            memory.map_at(missing, Advice::None);
        }
    }
    if !pages.gone.is_empty() {
        let bytes = pages.gone.len() as u64 * BASE_PAGE_SIZE;
        memory.discard(start + u64::from(pages.gone.start) * BASE_PAGE_SIZE, bytes);
    }
    let accessed = if step.accesses_known {
        seen.accessed.min(seen.mapped)
    } else {
        0
    };
    // Pages that come are accessed before any other.
    let new = accessed.min(pages.new.end - pages.new.start);
    Task {
        accessed: Accessed {
            start,
            first: accessed - new,
            new: (pages.new.start, new),
        },
        new: pages.new,
        zeros: pages.zeros,
    }
}

/// Takes over where memory can be mapped.
fn remap(memory: &mut Memory<'_>, mappings: &[Range<u64>]) {
    let old = areas(memory);
    for gone in without(&old, mappings) {
        memory.unmap(gone.start, gone.end - gone.start);
    }
    for new in without(mappings, &old) {
        memory.map_at(new, Advice::None);
    }
}

fn areas(memory: &Memory<'_>) -> Vec<Range<u64>> {
    let areas = memory.kernel().process(memory.pid()).space.areas().iter();
    areas.map(|area| area.start..area.end).collect()
}

/// Loses the regions that lie in a range whole.
fn lose(memory: &mut Memory<'_>, range: &Range<u64>) {
    let first = range.start.next_multiple_of(HUGE_PAGE_SIZE);
    let end = range.end / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
    if first < end {
        memory.discard(first, end - first);
    }
}

fn is_within(region: Region, range: &Range<u64>) -> bool {
    range.start <= region.start() && region.end() <= range.end
}

impl<L: Iterator<Item = Look>> Program for RecordedProgram<L> {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        if let Some(mut interval) = self.interval.take() {
            if let Some(work) = self.go_on(memory, &mut interval)? {
                self.interval = Some(interval);
                return Ok(work);
            }
            let due = interval.from.saturating_add(interval.length);
            if self.stage == Stage::Filling {
                self.stage = Stage::Waiting;
                self.told.borrow_mut().filling = memory.now();
                self.start.ready(memory.now());
                return Ok(Work::GoesOn);
            }
            self.late = memory.now().saturating_sub(due);
            if interval.step.is_last {
                self.end();
                return Ok(Work::Exits);
            }
            return Ok(rest_until(memory, due, self.hertz));
        }
        if self.stage == Stage::New {
            let first = self.tape.borrow_mut().next(self.process);
            match first {
                Some(first) if first.begins => {
                    self.stage = Stage::Filling;
                    self.begin(memory, first, 0);
                }
                other => {
                    self.ahead = other;
                    self.stage = Stage::Waiting;
                    self.start.ready(memory.now());
                }
            }
            return Ok(Work::GoesOn);
        }
        let Some(began) = self.start.began() else {
            return Ok(Work::Rests(POLL));
        };
        self.stage = Stage::Running;
        let ahead = self.ahead.take();
        let Some(step) = ahead.or_else(|| self.tape.borrow_mut().next(self.process)) else {
            self.end();
            return Ok(Work::Finished);
        };
        let from = began.saturating_add(cycles(step.since, self.hertz));
        if from > memory.now() {
            self.ahead = Some(step);
            return Ok(rest_until(memory, from, self.hertz));
        }
        self.begin(memory, step, began);
        Ok(Work::GoesOn)
    }
}
