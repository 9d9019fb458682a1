//! A program that fills its memory and then does operations over it, one right after the other.

use std::cell::RefCell;
use std::rc::Rc;

use mega_sim::kernel::Fault;
use mega_sim::latencies::Latencies;
use mega_sim::{Memory, Program, Work};

use super::{Accesses, Filling, Pattern};

/// Operations before others have their turn.
const TOGETHER: u64 = 16;

/// What came of it. Times are in cycles.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Done {
    /// When all was filled.
    pub(in super::super) filled_at: Option<u64>,
    /// Operations done.
    pub(in super::super) operations: u64,
    /// From the end of one operation to that of the next: with its faults, and what the program stood still for meanwhile.
    pub(in super::super) latencies: Latencies,
}

/// The program. It keeps its memory when it is done.
pub(in super::super) struct Operations {
    bytes: u64,
    filling: Filling,
    pattern: Pattern,
    seed: u64,
    /// Cycles that an operation takes beside its touches.
    cycles: u64,
    left: u64,
    /// How many operations each stands for.
    stands_for: u64,
    /// Once all is filled: the operations, and the first address of the memory.
    at_work: Option<(Accesses, u64)>,
    /// When the last operation was done.
    last: u64,
    done: Option<Rc<RefCell<Done>>>,
}

impl Operations {
    /// It has so many bytes, by pieces of `piece` bytes.
    pub(in super::super) fn new(
        bytes: u64,
        piece: u64,
        pattern: Pattern,
        (count, cycles): (u64, u64),
        seed: u64,
    ) -> Self {
        Operations {
            bytes,
            filling: Filling::new(bytes, piece),
            pattern,
            seed,
            cycles,
            left: count,
            stands_for: 1,
            at_work: None,
            last: 0,
            done: None,
        }
    }

    /// The same with first pieces of other sizes.
    pub(in super::super) fn beginning_with(self, first: &[u64]) -> Self {
        let filling = self.filling.beginning_with(first);
        Operations { filling, ..self }
    }

    /// The same where each operation that is done stands for so many, 1 or more.
    pub(in super::super) fn standing_for(self, stands_for: u64) -> Self {
        Operations { stands_for, ..self }
    }

    /// The same, and where it tells what came of it.
    pub(in super::super) fn telling(mut self) -> (Self, Rc<RefCell<Done>>) {
        let done = Rc::new(RefCell::new(Done::default()));
        self.done = Some(Rc::clone(&done));
        (self, done)
    }

    /// Operations were done that took so long, each standing for so many, the first of them after the program `stood` still.
    fn tell(&self, took: &[u64], stands_for: u64, stood: u64) {
        let Some(done) = &self.done else {
            return;
        };
        let done = &mut *done.borrow_mut();
        done.operations += took.len() as u64 * stands_for;
        for (place, &cycles) in took.iter().enumerate() {
            // Of those that the first one stands for, one alone had to wait.
            let late = u64::from(place == 0 && stood > 0);
            done.latencies.record_many(cycles, stands_for - late);
            done.latencies.record_many(cycles + stood, late);
        }
    }
}

impl Program for Operations {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let Some((accesses, start)) = &mut self.at_work else {
            if self.filling.go_on(memory)? {
                // Pieces follow each other downwards, but for those of whole huge pages, which are aligned.
                let pieces: Vec<u64> = self.filling.pieces().map(|(start, _)| start).collect();
                let first = pieces.iter().min().copied().unwrap_or(0);
                let arrays: Vec<u64> = pieces.iter().map(|start| start - first).collect();
                let accesses = self.pattern.over(self.bytes, &arrays, self.seed);
                self.at_work = Some((accesses, first));
                self.last = memory.now();
                if let Some(done) = &self.done {
                    done.borrow_mut().filled_at = Some(self.last);
                }
            }
            return Ok(Work::GoesOn);
        };
        let stood = memory.now() - self.last;
        let count = TOGETHER.min(self.left);
        let mut took = Vec::new();
        for _ in 0..count {
            let before = memory.now();
            for offset in accesses.next() {
                memory.touch(*start + offset)?;
            }
            memory.compute(self.cycles);
            took.push(memory.now() - before);
        }
        self.left -= count;
        let stands_for = memory.stand_for(self.stands_for);
        self.last = memory.now();
        self.tell(&took, stands_for, stood);
        Ok(if self.left == 0 {
            Work::Finished
        } else {
            Work::GoesOn
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sim::hardware;
    use crate::sim::programs::kdd2012;
    use crate::sim::scale::Scale;
    use crate::sim::system::{BASE, INGENS, System};
    use crate::sim::testbed::Testbed;

    const BYTES: u64 = 16 << 20;

    /// What is done in some seconds.
    fn done(system: System, stands_for: u64) -> (Done, u64) {
        let hardware = hardware::trident_server();
        let mut bed = Testbed::new(system, &[64 << 20], Scale::new(1), hardware).unwrap();
        let endless = (u64::MAX, 100_000);
        let program = Operations::new(BYTES, BYTES, Pattern::Gups, endless, 1);
        let (program, done) = program.standing_for(stands_for).telling();
        let pid = bed.start(program);
        bed.run_for(Duration::from_secs(7));
        let stood = hardware.costs.cycles(bed.machine.stood_still(pid));
        let done = done.borrow().clone();
        (done, stood)
    }

    #[test]
    fn operations_that_stand_for_others_are_as_many_and_take_as_long() {
        let [(each, _), (some, _)] = [1, 8].map(|stands_for| done(BASE, stands_for));
        let ratio = some.operations as f64 / each.operations as f64;
        assert!((0.98..1.02).contains(&ratio), "{ratio}");
        for (one, other) in [(500, 500), (990, 990)] {
            let [one, other] = [
                each.latencies.per_mille(one),
                some.latencies.per_mille(other),
            ];
            assert!(one.abs_diff(other) * 20 <= one, "{one} {other}");
        }
        for done in [each, some] {
            assert!(done.filled_at.is_some());
            assert_eq!(done.latencies.count(), done.operations);
        }
    }

    /// They have gaps between them where they are aligned.
    #[test]
    fn a_program_with_arrays_touches_nothing_beside_them() {
        let bytes = 160 << 20;
        let mut bed = Testbed::new(
            BASE,
            &[512 << 20],
            Scale::new(1),
            hardware::trident_server(),
        )
        .unwrap();
        let program = Operations::new(bytes, 4096, Pattern::Descent, (u64::MAX, 0), 1);
        let arrays = kdd2012::arrays(bytes);
        assert!(arrays.iter().any(|size| *size < 2 << 20) && arrays[0] > 2 << 20);
        let program = program.beginning_with(&arrays).standing_for(64);
        let (program, done) = program.telling();
        let pid = bed.start(program);
        bed.run_for(Duration::from_secs(5));
        bed.without_fault(pid, "the program").unwrap();
        assert!(done.borrow().operations > 0);
    }

    /// What a program stands still for is in the latency of an operation.
    #[test]
    fn whoever_waits_for_a_promotion_waits_longer() {
        let (done, stood) = done(INGENS, 8);
        assert!(stood > 0);
        let longest = done.latencies.per_mille(1000);
        assert!(longest > 300_000, "{longest} cycles, {stood} stood still");
    }
}
