//! The touch meter's estimates against simulated programs that touch memory in a known way.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers of pages"
)]

use std::time::Duration;

use mega_core::worth::{Effort, Look, Reading, Reuse, Sampling};

const PAGES: u64 = 512;

/// A way to touch memory, at a rate in touches a second of CPU time.
#[derive(Clone, Debug)]
enum Part {
    /// At random, all over these regions.
    Random {
        regions: std::ops::Range<u64>,
        rate: f64,
    },
    /// At random, all over one region in so many.
    Pieces { one_in: u64, rate: f64 },
    /// At random, every eighth page of all regions.
    Few { rate: f64 },
    /// Every so many pages, in order, over all regions.
    Front { step: u64, rate: f64 },
}

/// A program over some regions, which uses a share of a CPU.
#[derive(Clone, Debug)]
struct Program {
    regions: u64,
    parts: Vec<Part>,
    cpu_share: f64,
}

/// What stands for chance.
struct Chance(u64);

impl Chance {
    fn below_one(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Program {
    fn rate(&self) -> f64 {
        let rates = self.parts.iter().map(|part| match part {
            Part::Random { rate, .. }
            | Part::Pieces { rate, .. }
            | Part::Few { rate }
            | Part::Front { rate, .. } => rate,
        });
        rates.sum()
    }

    /// Marks the pages of a region that are touched between two times, in CPU time.
    fn touch(&self, region: u64, from: f64, to: f64, pages: &mut [bool], chance: &mut Chance) {
        for part in &self.parts {
            match part {
                Part::Random { regions, rate } if regions.contains(&region) => {
                    let each = rate / ((regions.end - regions.start) * PAGES) as f64;
                    let touched = 1.0 - (-each * (to - from)).exp();
                    for page in pages.iter_mut() {
                        *page |= chance.below_one() < touched;
                    }
                }
                Part::Random { .. } => {}
                Part::Pieces { one_in, rate } => {
                    let each = rate / (self.regions.div_ceil(*one_in) * PAGES) as f64;
                    let touched = 1.0 - (-each * (to - from)).exp();
                    if region.is_multiple_of(*one_in) {
                        for page in pages.iter_mut() {
                            *page |= chance.below_one() < touched;
                        }
                    }
                }
                Part::Few { rate } => {
                    let each = rate / (self.regions * PAGES / 8) as f64;
                    let touched = 1.0 - (-each * (to - from)).exp();
                    for page in pages.iter_mut().step_by(8) {
                        *page |= chance.below_one() < touched;
                    }
                }
                Part::Front { step, rate } => {
                    for touch in (from * rate).ceil() as u64..(to * rate).ceil() as u64 {
                        let page = touch * step % (self.regions * PAGES);
                        if page / PAGES == region {
                            pages[(page % PAGES) as usize] = true;
                        }
                    }
                }
            }
        }
    }

    /// A look that begins at a time and lasts for a wait. Its first reading comes a little after the bits were cleared.
    fn look(&self, region: u64, at: f64, wait: f64, chance: &mut Chance) -> Look {
        let mut pages = vec![false; PAGES as usize];
        let reading = |seconds: f64, pages: &[bool]| Reading {
            at: Duration::from_secs_f64(seconds),
            used: Duration::from_secs_f64(seconds * self.cpu_share),
            touched: pages.iter().filter(|touched| **touched).count() as u16,
            lines: pages.chunks(8).filter(|line| line.contains(&true)).count() as u16,
        };
        let used = |seconds: f64| seconds * self.cpu_share;
        let cleared = at - 0.1e-3 - (wait / 4.0).min(0.3e-3);
        self.touch(region, used(cleared), used(at), &mut pages, chance);
        let first = reading(at, &pages);
        let half = at + wait / 2.0;
        self.touch(region, used(at), used(half), &mut pages, chance);
        let middle = reading(half, &pages);
        self.touch(region, used(half), used(at + wait), &mut pages, chance);
        Look {
            entries: PAGES as u16,
            cleared: Duration::from_secs_f64(cleared),
            first,
            middle,
            last: reading(at + wait, &pages),
        }
    }

    /// Measures it in so many rounds.
    fn measured(&self, rounds: usize, seed: u64) -> Sampling {
        self.measured_with(&Effort::default(), rounds, seed)
    }

    fn measured_with(&self, effort: &Effort, rounds: usize, seed: u64) -> Sampling {
        let entries = vec![PAGES as u16; self.regions as usize];
        let mut sampling = Sampling::new(&entries, effort, seed);
        let mut chance = Chance(seed | 1);
        let mut now = 1.0;
        for _ in 0..rounds {
            for batch in sampling.next_round() {
                now += 0.005 * chance.below_one();
                let wait = batch.wait.as_secs_f64();
                for unit in batch.units {
                    let look = self.look(unit as u64, now, wait, &mut chance);
                    sampling.record(unit, &look);
                }
                now += wait;
            }
            sampling.end_round();
        }
        sampling
    }
}

fn random(regions: std::ops::Range<u64>, rate: f64) -> Part {
    Part::Random { regions, rate }
}

fn front(step: u64, rate: f64) -> Part {
    Part::Front { step, rate }
}

/// Programs of many kinds.
fn programs() -> Vec<Program> {
    let program = |regions, parts, cpu_share| Program {
        regions,
        parts,
        cpu_share,
    };
    vec![
        program(600, vec![random(0..600, 30e6)], 1.0),
        program(600, vec![random(0..600, 30e6)], 0.2),
        program(600, vec![random(0..600, 2e6)], 2.0),
        program(300, vec![random(0..300, 0.2e6)], 1.0),
        program(32, vec![random(0..32, 20e6)], 1.0),
        program(3, vec![random(0..3, 0.5e6)], 1.0),
        program(400, vec![random(0..40, 10e6)], 1.0),
        program(400, vec![random(100..400, 5e6), random(0..50, 15e6)], 1.0),
        program(200, vec![front(2, 6e6)], 1.0),
        program(200, vec![front(8, 3e6)], 1.0),
        program(1024, vec![front(1, 60e6)], 1.0),
        program(2048, vec![front(8, 60e6)], 1.0),
        program(1024, vec![front(8, 62e6)], 1.0),
        program(1024, vec![front(8, 62e6)], 0.3),
        program(512, vec![front(8, 62e6)], 1.0),
        program(500, vec![Part::Few { rate: 40e6 }], 1.0),
        program(500, vec![random(0..32, 100e6)], 1.0),
        program(200, vec![front(1, 4e6), random(0..200, 4e6)], 1.0),
    ]
}

#[test]
fn the_interval_holds_the_truth_of_most_measurements() {
    let (mut held, mut all) = (0, 0);
    for (number, program) in programs().iter().enumerate() {
        let (mut sum, mut here) = (0.0, 0);
        for seed in 1..=10 {
            let sampling = program.measured(30, seed * 7919);
            let found = sampling.rate().expect("enough rounds");
            let truth = program.rate();
            sum += found.value / truth;
            here += usize::from(found.holds(truth));
            all += 1;
            assert!(
                (0.5..2.0).contains(&(found.value / truth)),
                "program {number}: {found:?} for {truth}"
            );
        }
        held += here;
        let mean = sum / 10.0;
        assert!(
            (0.88..1.12).contains(&mean),
            "program {number}: {mean} of the truth in the mean"
        );
    }
    // 95 in 100 would hold it if there were no bias at all.
    assert!(held * 100 >= all * 85, "{held} of {all}");
}

#[test]
fn a_short_measurement_tells_something_of_every_program() {
    let effort = Effort::of_a_manager(1);
    for (number, program) in programs().iter().enumerate() {
        for seed in 1..=10 {
            let sampling = program.measured_with(&effort, 5, seed * 7919);
            let found = sampling.rate().expect("enough rounds");
            let truth = program.rate();
            assert!(
                found.high > truth / 2.0 && found.low < truth * 2.0,
                "program {number}: {found:?} for {truth}"
            );
        }
    }
}

#[test]
fn what_is_touched_together_and_how_much_is_told() {
    let scattered = programs()[0].measured(12, 5);
    assert!(
        scattered.pages_per_line() < 1.2,
        "{}",
        scattered.pages_per_line()
    );
    let working_set = scattered.working_set() / (600 * PAGES) as f64;
    assert!((0.8..1.05).contains(&working_set), "{working_set}");
    let stream = Program {
        regions: 100,
        parts: vec![front(1, 5e6)],
        cpu_share: 1.0,
    };
    let stream = stream.measured(40, 5);
    assert!(stream.pages_per_line() > 6.0, "{}", stream.pages_per_line());
    // One tenth of the memory has all touches.
    let few = programs()[6].measured(20, 5).working_set() / (400 * PAGES) as f64;
    assert!((0.08..0.13).contains(&few), "{few}");
    // It does not matter where.
    let pieces = Program {
        regions: 600,
        parts: vec![Part::Pieces {
            one_in: 6,
            rate: 30e6,
        }],
        cpu_share: 1.0,
    };
    let pieces = pieces.measured(20, 5).working_set() / (600 * PAGES) as f64;
    assert!((0.12..0.3).contains(&pieces), "{pieces}");
}

#[test]
fn touches_that_follow_each_other_in_a_region_are_told_from_others() {
    let visit = |part: &Part, seed| {
        let program = Program {
            regions: 600,
            parts: vec![part.clone()],
            cpu_share: 1.0,
        };
        program.measured(20, seed).touches_per_visit()
    };
    for seed in 1..=10 {
        let seed = seed * 7919;
        let scattered = visit(&random(0..600, 30e6), seed);
        assert!(scattered < 1.4, "{scattered}");
        // In the regions that are touched at all they are scattered, too.
        let pieces = Part::Pieces {
            one_in: 6,
            rate: 30e6,
        };
        let pieces = visit(&pieces, seed);
        assert!(pieces < 2.0, "{pieces}");
        // 64 pages of each region in turn.
        let stride = visit(&front(8, 6e6), seed);
        assert!((15.0..70.0).contains(&stride), "{stride}");
    }
}

/// Half of all touches go to a sixteenth of the memory, which comes back soon; all else comes in between two touches of the rest.
#[test]
fn what_is_touched_in_between_is_told_of_hot_and_cold_memory() {
    let parts = vec![random(100..140, 10e6), random(0..640, 10e6)];
    let program = Program {
        regions: 640,
        parts,
        cpu_share: 1.0,
    };
    let sampling = program.measured(40, 5);
    let reuse = sampling.reuse(1);
    let all: f64 = reuse.iter().map(|reuse| reuse.share).sum();
    assert!((all - 1.0).abs() < 1e-9);
    let memory = (640 * PAGES) as f64;
    let [hot, cold] = [0.0..0.4, 0.4..2.0].map(|sizes| {
        let size = |reuse: &Reuse| reuse.working_set as f64 / memory;
        let of = reuse.iter().filter(|reuse| sizes.contains(&size(reuse)));
        of.fold((0.0, 0.0), |(sum, sizes), reuse| {
            (sum + reuse.share, sizes + reuse.share * size(reuse))
        })
    });
    // 17/32 and 15/32 of the touches.
    assert!((0.4..0.65).contains(&hot.0), "{reuse:?}");
    assert!((0.1..0.25).contains(&(hot.1 / hot.0)), "{reuse:?}");
    assert!((0.8..1.2).contains(&(cold.1 / cold.0)), "{reuse:?}");
}

#[test]
fn the_units_looked_at_stand_for_all() {
    let program = &programs()[7];
    let units = program.measured(10, 3).units();
    let all: f64 = units.iter().map(|(_, _, weight)| weight).sum();
    assert!((all - 400.0).abs() < 1e-6);
    let rate: f64 = units.iter().map(|(_, rate, weight)| rate * weight).sum();
    assert!((0.6..1.5).contains(&(rate / program.rate())), "{rate}");
}

#[test]
fn nothing_touched_is_nothing_but_not_for_sure() {
    let idle = Program {
        regions: 10,
        parts: Vec::new(),
        cpu_share: 1.0,
    };
    let found = idle.measured(8, 1).rate().expect("enough rounds");
    assert_eq!(found.value, 0.0);
    assert!(found.high > 0.0);
    assert_eq!(
        Sampling::new(&[], &Effort::default(), 1)
            .rate()
            .expect("known")
            .high,
        0.0
    );
}
