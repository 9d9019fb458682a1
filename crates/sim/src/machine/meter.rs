//! The touch meter of the simulated machine: it looks as the live one does (`crates/linux/src/touches`), by
//! [`mega_core::worth::Sampling`], at the simulated Accessed bits.
//!
//! What it looks at is base pages only: a gain is that of promotions. Looking flushes no TLB here, and so costs the program
//! nothing.

use std::time::Duration;

use mega_core::worth::{Batch, Effort, Look, Reading, RegionTouches, Sampling, Touches, touches};
use mega_core::{Region, RegionObservation};

use super::SimulatedMachine;
use crate::address_space::Bits;
use crate::kernel::Pid;

/// A unit that is looked at: its index, its region, and the bits that were set before.
type Unit = (usize, Region, Bits);

/// The regions of a process that base pages map.
type Regions = [RegionObservation];

impl SimulatedMachine {
    /// How often a process touches its base pages. `None` where no core runs it, and where no time passed: it has none.
    pub(super) fn touches(&mut self, pid: Pid, effort: Effort) -> Option<Touches> {
        self.catch_up();
        self.running(pid)?.core?;
        let (regions, cycles) = self.kernel.peek(pid);
        let entries: Vec<u16> = regions.iter().map(|region| region.mapped).collect();
        let mut sampling = Sampling::new(&entries, &effort, effort.seed);
        self.spend(cycles);
        self.catch_up();
        // To find what can be looked at takes longer than `at_most` from 26 GiB on: the time counts from here, as on a live machine.
        let (started, used_before) = (self.now, self.worked(pid));
        let end = started + self.cycles(effort.at_most);
        let before = self.begin_watching(pid, &regions);
        while self.now < end && !effort.is_met(&sampling) {
            self.round(pid, &regions, &mut sampling, effort.share, end);
        }
        self.end_watching(pid, before);
        let passed = self.kernel.costs().time(self.now - started);
        if passed.is_zero() {
            return None;
        }
        let used = self.worked(pid).saturating_sub(used_before);
        let cpu_share = used.as_secs_f64() / passed.as_secs_f64();
        let per_cpu = touches::per_cpu_second(cpu_share, true);
        let sampled = sampling.units().into_iter();
        let sampled = sampled.map(|(unit, rate, weight)| RegionTouches {
            region: regions[unit].region,
            mapped: regions[unit].mapped,
            per_cpu_second: rate * per_cpu,
            weight,
        });
        // Mappings have no names here that anybody would ask for.
        let mappings = Vec::new();
        let sampled = sampled.collect();
        Some(Touches::told(
            &sampling, None, cpu_share, per_cpu, mappings, sampled,
        ))
    }

    /// From now on each touch of the process is made. Returns the bits that are set, where only a part of the touches set any.
    fn begin_watching(&mut self, pid: Pid, regions: &Regions) -> Vec<(Region, Bits)> {
        self.watched = Some(pid);
        let is_part = self
            .running(pid)
            .is_some_and(|running| running.stands_for > 1);
        let regions = regions.iter().filter(|_| is_part);
        let set = regions.map(|seen| (seen.region, self.kernel.accessed(pid, seen.region).0));
        set.collect()
    }

    /// Who observes next finds those bits: what was touched meanwhile would be many times as much as is touched at other times.
    fn end_watching(&mut self, pid: Pid, before: Vec<(Region, Bits)>) {
        self.watched = None;
        for (region, bits) in before {
            self.kernel.take_accessed(pid, region);
            self.kernel.add_accessed(pid, region, &bits);
        }
    }

    fn round(
        &mut self,
        pid: Pid,
        regions: &Regions,
        sampling: &mut Sampling,
        share: f64,
        end: u64,
    ) {
        for batch in sampling.next_round() {
            if self.now >= end {
                // A round that the time did not suffice for does not count.
                return;
            }
            let before = self.manager;
            for (unit, look) in self.batch(pid, regions, &batch) {
                sampling.record(unit, &look);
            }
            let used = self.kernel.costs().time(self.manager - before);
            self.pause(used.mul_f64(1.0 / share).saturating_sub(batch.wait));
        }
        sampling.end_round();
    }

    /// Clears the bits of some units, and reads them three times. What was set before is set again in the end, for whoever
    /// observes next.
    fn batch(&mut self, pid: Pid, regions: &Regions, batch: &Batch) -> Vec<(usize, Look)> {
        let mut units: Vec<Unit> = Vec::with_capacity(batch.units.len());
        for &unit in &batch.units {
            let region = regions[unit].region;
            let (before, cycles) = self.kernel.take_accessed(pid, region);
            self.spend(cycles);
            units.extend(before.map(|before| (unit, region, before)));
        }
        let cleared = self.kernel.costs().time(self.now);
        let first = self.read(pid, &units);
        self.pause(batch.wait / 2);
        let middle = self.read(pid, &units);
        self.pause(batch.wait - batch.wait / 2);
        let last = self.read(pid, &units);
        let mut looks = Vec::with_capacity(units.len());
        for (place, &(unit, region, before)) in units.iter().enumerate() {
            self.kernel.add_accessed(pid, region, &before);
            looks.push((
                unit,
                Look {
                    entries: regions[unit].mapped,
                    cleared,
                    first: first[place],
                    middle: middle[place],
                    last: last[place],
                },
            ));
        }
        looks
    }

    /// What of each unit was touched by now.
    fn read(&mut self, pid: Pid, units: &[Unit]) -> Vec<Reading> {
        self.catch_up();
        let (at, used) = (self.kernel.costs().time(self.now), self.worked(pid));
        let mut readings = Vec::with_capacity(units.len());
        let mut took = 0;
        for (_, region, _) in units {
            let (bits, cycles) = self.kernel.accessed(pid, *region);
            took += cycles;
            readings.push(Reading {
                at,
                used,
                touched: bits.count(),
                lines: bits.lines(),
            });
        }
        self.spend(took);
        readings
    }

    fn pause(&mut self, time: Duration) {
        self.now += self.cycles(time);
        self.catch_up();
    }
}
