//! A service whose memory follows the load of the day: it gets memory for its load, gives back what it needs no more, and renews a
//! part of it each hour, as caches and requests do.
//!
//! It keeps its memory as an allocator does, in one range of addresses: new objects take the lowest that are free, and what is freed
//! lies anywhere. What lies lowest is its hot part, which it uses much more often than the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_sim::address_space::Advice;
use mega_sim::kernel::Fault;
use mega_sim::{Memory, Program, Work};

use super::Pass;
use super::busy::{BETWEEN, HOT};
use crate::random::{Random, below};

/// What it allocates and frees together.
const OBJECT: u64 = 64 << 10;
/// One object in so many is renewed each hour.
const RENEWED: usize = 20;
/// Hours of a day.
const DAY: u64 = 24;
/// How often it goes over all that it has in an hour.
const PASSES: u32 = 6;

/// The program. It exits after its hours.
pub(in super::super) struct Service {
    /// Objects that it has at the day's peak.
    most: usize,
    /// How long an hour is on the simulated machine.
    hour_takes: Duration,
    hour: u64,
    last_hour: u64,
    random: Random,
    start: Option<u64>,
    used: Vec<u64>,
    free: BTreeSet<u64>,
    /// Objects that are to be filled now, the next one last.
    to_fill: Vec<u64>,
    pass: Option<Pass>,
    /// Passes of this hour that are left.
    passes: u32,
    /// Over the hot part, and how often it is gone over before the next pass over all.
    hot: Option<Pass>,
    hot_passes: u32,
}

impl Service {
    /// It has so many bytes at the day's peak. It starts at an hour since the machine did, and runs for so many.
    pub(in super::super) fn new(
        peak: u64,
        start: u64,
        hours: u64,
        hour_takes: Duration,
        seed: u64,
    ) -> Self {
        let most = usize::try_from(peak / OBJECT).unwrap_or(usize::MAX).max(1);
        Service {
            most,
            hour_takes,
            hour: start,
            last_hour: start + hours,
            random: Random::new(seed),
            start: None,
            used: Vec::new(),
            free: (0..most as u64).collect(),
            to_fill: Vec::new(),
            pass: None,
            passes: 0,
            hot: None,
            hot_passes: 0,
        }
    }

    /// Objects that its load needs at an hour: from a half at night to all of them by day, and as evenly between them.
    fn needed(&self) -> usize {
        let half_day = DAY / 2;
        let from_night = (self.hour % DAY).min(DAY - self.hour % DAY);
        let more = self.most / 2 * usize::try_from(from_night).unwrap_or(0);
        let by_day = usize::try_from(half_day).unwrap_or(1);
        (self.most / 2 + more / by_day).max(1)
    }

    /// Frees what the hour needs no more, and chooses what is filled.
    fn plan(&mut self, memory: &mut Memory<'_>, start: u64) {
        let needed = self.needed();
        let renewed = self.used.len() / RENEWED;
        let keep = needed.min(self.used.len() - renewed);
        while self.used.len() > keep {
            let place = below(self.random.word(), self.used.len());
            let object = self.used.swap_remove(place);
            memory.discard(start + object * OBJECT, OBJECT);
            self.free.insert(object);
        }
        while self.used.len() < needed
            && let Some(object) = self.free.pop_first()
        {
            self.used.push(object);
            self.to_fill.push(object);
        }
    }

    fn fill(memory: &mut Memory<'_>, start: u64, object: u64) -> Result<(), Fault> {
        let first = start + object * OBJECT;
        for page in 0..OBJECT / BASE_PAGE_SIZE {
            memory.touch(first + page * BASE_PAGE_SIZE)?;
        }
        Ok(())
    }

    /// Once over all that it has below an object.
    fn over(&self, start: u64, end: u64) -> Pass {
        let mut objects = self.used.clone();
        objects.retain(|object| *object < end);
        objects.sort_unstable();
        Pass::new(
            objects
                .iter()
                .map(|object| (start + object * OBJECT, OBJECT)),
        )
    }

    /// How often it goes over its hot part between two passes over all.
    fn between(&self) -> u32 {
        let often = (self.hour_takes / PASSES).as_nanos() / BETWEEN.as_nanos();
        u32::try_from(often).unwrap_or(u32::MAX).max(1)
    }
}

impl Program for Service {
    fn work(&mut self, memory: &mut Memory<'_>) -> Result<Work, Fault> {
        let start = *self
            .start
            .get_or_insert_with(|| memory.map(self.most as u64 * OBJECT, Advice::None));
        if let Some(object) = self.to_fill.pop() {
            Self::fill(memory, start, object)?;
            return Ok(Work::GoesOn);
        }
        if let Some(hot) = &mut self.hot
            && self.hot_passes > 0
        {
            if !hot.go_on(memory)? {
                return Ok(Work::GoesOn);
            }
            self.hot_passes -= 1;
            return Ok(Work::Rests(BETWEEN));
        }
        if self.passes == 0 && self.pass.is_some() {
            self.pass = None;
            self.hour += 1;
            if self.hour >= self.last_hour {
                return Ok(Work::Exits);
            }
        }
        if let Some(pass) = &mut self.pass {
            if pass.go_on(memory)? {
                self.passes -= 1;
                self.hot_passes = self.between();
            }
            return Ok(Work::GoesOn);
        }
        self.plan(memory, start);
        self.pass = Some(self.over(start, u64::MAX));
        self.hot = Some(self.over(start, self.most as u64 / HOT));
        self.passes = PASSES;
        Ok(Work::GoesOn)
    }
}
