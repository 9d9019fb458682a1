//! Which units of a process's memory the touch meter looks at, for how long, and what all looks together tell.
//!
//! The units lie in address order and are cut into strata of equal size. Every round looks at some units of each stratum,
//! chosen at random, more where more is touched, so that each round by itself tells the rate of the whole process. From how
//! far the rounds lie apart follows how sure their mean is. The first rounds only teach how long to wait, and where to look
//! more often.
//!
//! The wait of a stratum is so long that a part of its pages is touched: shorter where many are, longer where few are. Where
//! only some of its pages are touched at all, these are soon touched all; that shows in that few come to them in the second
//! half of the wait, and then the wait is far shorter.

use std::ops::Range;
use std::time::Duration;

use crate::mix::mix;

use super::look::{Look, Part, Told};
use super::reuse::{self, Class, Looks, Reuse, Units};
use super::rounds::{self, Round};
use super::{Effort, Estimate};

/// Strata at most. Each is looked at in each round.
const STRATA: usize = 8;
/// Looks in a round beyond one for each stratum.
const MORE_LOOKS: usize = 8;
/// Rounds that only teach, where enough others follow.
const LESSONS: usize = 3;
/// The share of a unit's entries that should be touched at the end of a look.
const TOUCHED: f64 = 0.2;
/// The wait of the first round.
const FIRST_WAIT: f64 = 1e-3;
/// The shortest wait, in seconds: clearing and reading take as long.
const SHORTEST_WAIT: f64 = 0.05e-3;
/// The longest wait, in seconds.
const LONGEST_WAIT: f64 = 20e-3;
/// The waits of this many rounds fit the time that there is, one after the other: the lessons, and as many as make a mean.
const ROUNDS_IN_TIME: f64 = 10.0;
/// Touches in a wait, in the mean, of each entry that is touched at all, where those are few.
const TOUCHES_OF_FEW: f64 = 0.15;
/// Touched entries that make a look one that tells whether those touched at all are few.
const ENOUGH_TO_SAY: f64 = 6.0;
/// How many standard deviations fewer must come in the second half than in the first: many rounds are asked.
const SURE_OF_FEW: f64 = 5.0;
/// Where the share of entries that are touched at all turns out to be less than this part of what it was taken for, earlier looks lasted
/// too long.
const FAR_FEWER: f64 = 0.5;
/// The least variance, from look to look, of the share of touched entries that come in the second half of the wait.
const LEAST_VARIANCE: f64 = 0.01;
/// Looks are alike if one lasts at most 2 to the power of this as long as the other.
const ALIKE: f64 = 1.0;
/// So many more looks that are filled in their first half than such as are in their second are chance, and so many times the root of
/// these.
const FILLED_BY_CHANCE: f64 = 1.5;
/// A look that saw more than this part of what is touched at all saw all of it.
const FULL: f64 = 0.9;
/// So many looks that saw all are no chance.
const LOOKS_THAT_SEE_ALL: u32 = 3;
/// A wait becomes at most this many times as long, or as short, from one round to the next.
const STEP: f64 = 8.0;
/// About how long it takes to clear one unit, in seconds. Clearing a batch takes as long as its wait at most, so that not
/// many pages are touched before the first reading.
const UNIT_COST: f64 = 0.06e-3;
/// The share of saturated looks beyond which the rate has no upper end but [`FASTEST`].
const SATURATED: f64 = 0.1;
/// Touches a second that no processor does on one CPU.
const FASTEST: f64 = 1e9;
/// Units in one batch at most.
const LARGEST_BATCH: usize = 16;
/// A batch holds at most one unit in this many, and at least one unit. A page that was cleared costs its program some 150 ns at
/// the next touch: the entry lies in the meter's cache, and the processor sets its bit. A program that makes a touch in 20 ns
/// would do visibly less while many of its pages are cleared.
const UNITS_FOR_ONE_IN_BATCH: usize = 512;

/// Units to clear one after the other, and then to read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Indices of the units.
    pub units: Vec<usize>,
    /// How long to wait between clearing and the last reading.
    pub wait: Duration,
}

/// The sampling of one kind of pages of one process.
#[derive(Clone, Debug)]
pub struct Sampling {
    strata: Vec<Stratum>,
    units: Vec<UnitSum>,
    random: SplitMix,
    /// In seconds.
    longest_wait: f64,
    /// What each round told of the whole: touches, and CPU time, each in a second. The first are lessons.
    rounds: Vec<Round>,
    /// Those of looks that lasted too long: there were so many touches at least.
    forgotten: Vec<Round>,
    lessons: usize,
    totals: Totals,
    /// The share of entries that are touched at all, as far as it is known to be less than all.
    active: f64,
    /// Of this round.
    halves: Halves,
}

/// How touched entries came in the two halves of waits.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    /// Looks at anything, and those that saw enough to say something.
    looks: f64,
    telling: f64,
    /// Over the telling: the shares that came in the second half, their squares, and the share of entries touched.
    shares: f64,
    squares: f64,
    touched: f64,
    /// The share of entries touched before the first half.
    before: f64,
}

/// What was seen of one unit.
#[derive(Clone, Copy, Debug, Default)]
struct UnitSum {
    entries: u16,
    touches: f64,
    used: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Of the looks that tell in how many cache lines: touches, and those lines.
    touches: f64,
    lines: f64,
    used: f64,
    /// Looks, of the rounds that count, that saw a touch.
    looks: f64,
    /// Of these, the saturated ones.
    saturated: f64,
}

#[derive(Clone, Debug)]
struct Stratum {
    units: Range<usize>,
    wait: f64,
    /// Of all looks: the sums of touches, of seconds, of rates and of their squares.
    looks: u32,
    touches: f64,
    seconds: f64,
    rates: f64,
    squares: f64,
    /// Of the looks of this round.
    round_looks: u32,
    round_rates: f64,
    /// Looks that lasted about as long as the latest, one by one.
    each: Looks,
    /// How long these last, in seconds.
    each_wait: f64,
    /// CPU time a second.
    round_shares: f64,
    /// Looks since the wait was shortened, and those of them that saw all that is ever touched.
    seen: u32,
    full: u32,
    /// Looks that were filled in their first half, and in their second.
    filled_in: [u32; 2],
    /// The longest wait that is worth while, in seconds.
    longest_wait: f64,
    /// Of all looks: those that ended with their first reading, and those in which most was touched only after it.
    at_first: u32,
    filled: u32,
}

impl Sampling {
    /// The sampling of units with these `entries`, in address order, for that effort. `seed` decides what chance would.
    #[must_use]
    pub fn new(entries: &[u16], effort: &Effort, seed: u64) -> Self {
        let count = STRATA.min(entries.len());
        let edge = |index: usize| index * entries.len() / count.max(1);
        let strata = (0..count).map(|index| Stratum::new(edge(index)..edge(index + 1)));
        let unit = |entries: &u16| UnitSum {
            entries: *entries,
            ..UnitSum::default()
        };
        Sampling {
            strata: strata.collect(),
            units: entries.iter().map(unit).collect(),
            random: SplitMix(seed),
            longest_wait: longest_wait(effort.at_most),
            rounds: Vec::new(),
            forgotten: Vec::new(),
            lessons: LESSONS,
            totals: Totals::default(),
            active: 1.0,
            halves: Halves::default(),
        }
    }

    /// The looks of the next round, in the order in which to do them.
    pub fn next_round(&mut self) -> Vec<Batch> {
        let mut chosen: Vec<(f64, usize)> = Vec::new();
        for index in 0..self.strata.len() {
            let looks = 1 + self.more_looks(index);
            let Stratum { units, wait, .. } = &self.strata[index];
            let (units, wait) = (units.clone(), *wait);
            chosen.extend(self.random.choose(units, looks).map(|unit| (wait, unit)));
        }
        self.random.shuffle(&mut chosen);
        chosen.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut batches = Vec::new();
        let mut rest = chosen.as_slice();
        while let Some((wait, _)) = rest.first() {
            let (batch, later) = rest.split_at(batch_size(rest, self.units.len()));
            batches.push(Batch {
                units: batch.iter().map(|(_, unit)| *unit).collect(),
                wait: Duration::from_secs_f64(*wait),
            });
            rest = later;
        }
        self.random.shuffle(&mut batches);
        batches
    }

    /// Adds what a look at a unit told.
    pub fn record(&mut self, unit: usize, look: &Look) {
        let Some(told) = look.told(self.active) else {
            return;
        };
        let Some(stratum) = self
            .strata
            .iter_mut()
            .find(|stratum| stratum.units.contains(&unit))
        else {
            return;
        };
        if self.lessons == 0 && told.touches > 0.0 {
            self.totals.looks += 1.0;
            self.totals.saturated += f64::from(u8::from(told.is_saturated));
        }
        stratum.seen += 1;
        let all = self.active * f64::from(look.entries);
        stratum.full += u32::from(f64::from(look.last.touched) > FULL * all);
        if let Some(half) = told.filled {
            stratum.filled_in[half] += 1;
        }
        if !stratum.counts(&told, f64::from(look.entries)) {
            return;
        }
        let rate = told.touches / told.seconds;
        stratum.looks += 1;
        stratum.touches += told.touches;
        stratum.seconds += told.seconds;
        stratum.rates += rate;
        stratum.squares += rate * rate;
        stratum.round_looks += 1;
        stratum.round_rates += rate;
        let whole = Part {
            touches: told.touches,
            variance: told.touches,
            used: told.used,
        };
        stratum.look(told.parts, whole);
        if let Some(halves) = told.halves {
            self.halves.add(halves, look);
        }
        stratum.round_shares += told.used / told.seconds;
        self.units[unit].touches += told.touches;
        self.units[unit].used += told.used;
        if let Some(lines) = told.lines {
            self.totals.touches += told.touches;
            self.totals.lines += lines;
        }
        self.totals.used += told.used;
    }

    /// Ends a round: all its looks are recorded. Learns from it how long to wait, and counts it unless it was a lesson.
    pub fn end_round(&mut self) {
        self.rounds.push(self.round());
        self.lessons = self.lessons.saturating_sub(1);
        let active = std::mem::take(&mut self.halves).active().unwrap_or(1.0);
        if active < FAR_FEWER * self.active {
            self.forget();
        }
        self.active = self.active.min(active);
        let share = TOUCHED.min(TOUCHES_OF_FEW * self.active);
        for stratum in &mut self.strata {
            stratum.learn(&self.units, share, self.longest_wait);
        }
    }

    /// Forgets all looks: they lasted so long that they saw all that is ever touched, and so told too little. Then lessons begin again.
    fn forget(&mut self) {
        for stratum in &mut self.strata {
            *stratum = Stratum {
                wait: (stratum.wait / STEP).max(SHORTEST_WAIT),
                longest_wait: stratum.longest_wait,
                ..Stratum::new(stratum.units.clone())
            };
        }
        for unit in &mut self.units {
            *unit = UnitSum {
                entries: unit.entries,
                ..UnitSum::default()
            };
        }
        self.forgotten.append(&mut self.rounds);
        self.lessons = LESSONS;
        self.totals = Totals::default();
    }

    /// What this round told of the whole. The process ran now and then while it lasted; what it used while it touched
    /// most counts most.
    #[allow(clippy::cast_precision_loss, reason = "at most STRATA")]
    fn round(&self) -> Round {
        let all: f64 = self.strata.iter().map(Stratum::rate).sum();
        let (mut done, mut time, mut weights) = (0.0, 0.0, 0.0);
        for stratum in &self.strata {
            done += stratum.round_rate() * stratum.count();
            if stratum.round_looks > 0 {
                let weight = match all > 0.0 {
                    true => stratum.rate() / all,
                    false => 1.0 / self.strata.len() as f64,
                };
                time += weight * stratum.round_shares / f64::from(stratum.round_looks);
                weights += weight;
            }
        }
        Round {
            done,
            time: if weights > 0.0 { time / weights } else { 0.0 },
        }
    }

    /// Touches of all units together in a second of CPU time, or of time where looks did not know CPU time. `None` before
    /// there were enough rounds in which the process ran.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "units are counted in thousands")]
    pub fn rate(&self) -> Option<Estimate> {
        if self.units.is_empty() {
            return Some(Estimate::exact(0.0));
        }
        let taught = self.rounds.get(LESSONS..).unwrap_or_default();
        // Lessons are less sure; where hardly more was seen they say more than nothing.
        let Some(mean) = rounds::ratio(taught).or_else(|| rounds::ratio(&self.rounds)) else {
            let least = rounds::ratio(&[&self.forgotten[..], &self.rounds].concat())?;
            return Some(Estimate::within(least.value, least.low, FASTEST));
        };
        // Three touches may hide where none was seen (the rule of three).
        let hidden = 3.0 * self.units.len() as f64 / self.totals.used.max(f64::MIN_POSITIVE);
        let more = match self.totals.saturated > SATURATED * self.totals.looks {
            true => FASTEST,
            false => 0.0,
        };
        Some(Estimate::within(
            mean.value,
            mean.low,
            mean.high.max(hidden).max(more),
        ))
    }

    /// Touched entries in each touched cache line of eight, 1 to 8; 1 where none was touched or lines are not counted.
    #[must_use]
    pub fn pages_per_line(&self) -> f64 {
        if self.totals.lines <= 0.0 {
            return 1.0;
        }
        (self.totals.touches / self.totals.lines).clamp(1.0, 8.0)
    }

    /// How many touches of a unit follow each other before another unit is touched, 1 to 512: in the mean over visits.
    #[must_use]
    pub fn touches_per_visit(&self) -> f64 {
        reuse::per_visit(self.strata.iter().map(|stratum| &stratum.each))
    }

    /// Entries that are touched again and again: as many, all touched equally often, would be touched as unevenly as these
    /// are from unit to unit.
    #[must_use]
    pub fn working_set(&self) -> f64 {
        reuse::working_set(&self.classes())
    }

    /// What is touched between two touches of an entry of `size` bytes, the least first.
    #[must_use]
    pub fn reuse(&self, size: u64) -> Vec<Reuse> {
        reuse::reuse(&self.classes(), size)
    }

    fn classes(&self) -> Vec<Class> {
        let strata = self.strata.iter().filter(|stratum| stratum.count() > 0.0);
        let units: Vec<Units<'_>> = strata
            .map(|stratum| Units {
                looks: &stratum.each,
                count: stratum.count(),
                entries: (stratum.entries(&self.units) / stratum.count()).max(1.0),
            })
            .collect();
        reuse::classes(&units)
    }

    /// The units looked at while the process ran, each with its touches in the unit of time of [`Sampling::rate`] and how
    /// many units it stands for.
    #[must_use]
    pub fn units(&self) -> Vec<(usize, f64, f64)> {
        let mut units = Vec::new();
        for stratum in &self.strata {
            let seen = || {
                stratum
                    .units
                    .clone()
                    .filter(|unit| self.units[*unit].used > 0.0)
            };
            #[allow(clippy::cast_precision_loss, reason = "units are counted in thousands")]
            let weight = stratum.count() / seen().count().max(1) as f64;
            units.extend(seen().map(|unit| {
                let sum = &self.units[unit];
                (unit, sum.touches / sum.used, weight)
            }));
        }
        units
    }

    /// Looks at a stratum beyond one: more where it scatters more.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "between 0 and MORE_LOOKS"
    )]
    fn more_looks(&self, index: usize) -> usize {
        let all: f64 = self.strata.iter().map(Stratum::scatter).sum();
        let share = match all > 0.0 {
            true => self.strata[index].scatter() / all,
            false => 1.0 / self.strata.len() as f64,
        };
        (share * MORE_LOOKS as f64).round() as usize
    }
}

impl Halves {
    fn add(&mut self, [early, late]: [f64; 2], look: &Look) {
        let entries = f64::from(look.entries).max(1.0);
        self.looks += 1.0;
        let (before, seen) = (f64::from(look.first.touched), early + late);
        if before.max(seen) >= ENOUGH_TO_SAY {
            // Where all came before the first reading, hardly any come late.
            let share = late / seen.max(ENOUGH_TO_SAY);
            self.telling += 1.0;
            self.shares += share;
            self.squares += share * share;
            self.touched += seen / entries;
            self.before += before / entries;
        }
    }

    /// The share of entries that are touched at all, where it shows: where all looks agree that fewer come in the second half
    /// than chance has it. A stream is seen in some looks only, and in either half.
    fn active(self) -> Option<f64> {
        if self.telling < 0.8 * self.looks || self.telling < 4.0 {
            return None;
        }
        let share = self.shares / self.telling;
        let variance = (self.squares / self.telling - share * share).max(LEAST_VARIANCE);
        if share + SURE_OF_FEW * (variance / self.telling).sqrt() >= 0.5 {
            return None;
        }
        // Of entries all touched equally often at random, e^-x as many come in the second half, x touches of each in a half.
        let late = (share / (1.0 - share)).max(0.01);
        let touched_at_all = self.before + self.touched / (1.0 - late * late);
        Some((touched_at_all / self.telling).clamp(0.002, 1.0))
    }
}

impl Stratum {
    fn new(units: Range<usize>) -> Self {
        Stratum {
            units,
            wait: FIRST_WAIT,
            looks: 0,
            touches: 0.0,
            seconds: 0.0,
            rates: 0.0,
            squares: 0.0,
            round_looks: 0,
            round_rates: 0.0,
            each: Looks::default(),
            each_wait: FIRST_WAIT,
            round_shares: 0.0,
            seen: 0,
            full: 0,
            filled_in: [0; 2],
            longest_wait: LONGEST_WAIT,
            at_first: 0,
            filled: 0,
        }
    }

    /// Whether a look counts. A program that passes through memory touches most of a unit before the first reading of some
    /// looks, and after it in about as many others. The others tell of it already.
    fn counts(&mut self, told: &Told, entries: f64) -> bool {
        match told.halves {
            Some([early, late]) => {
                self.filled += u32::from(early + late > entries / 2.0);
                true
            }
            None => {
                self.at_first += 1;
                self.at_first > self.filled + 1
            }
        }
    }

    /// Keeps a look by itself. What comes together in one look may come one by one in another that lasted for much less.
    fn look(&mut self, halves: Option<[Part; 2]>, whole: Part) {
        if (self.wait / self.each_wait).log2().abs() > ALIKE {
            self.each = Looks::default();
            self.each_wait = self.wait;
        }
        self.each.record(halves, whole);
    }

    #[allow(clippy::cast_precision_loss, reason = "units are counted in thousands")]
    fn count(&self) -> f64 {
        self.units.len() as f64
    }

    /// Entries of all its units.
    fn entries(&self, units: &[UnitSum]) -> f64 {
        let units = units[self.units.clone()].iter();
        units.map(|unit| f64::from(unit.entries)).sum()
    }

    /// Touches a second of all its units.
    fn rate(&self) -> f64 {
        self.mean() * self.count()
    }

    /// Touches a second of one unit, in the mean of all looks.
    fn mean(&self) -> f64 {
        self.rates / f64::from(self.looks.max(1))
    }

    /// How much looks at it may add to what is not known of the whole.
    fn scatter(&self) -> f64 {
        (self.squares / f64::from(self.looks.max(1))).sqrt() * self.count()
    }

    /// Touches a second of one unit, as this round alone tells; as all looks tell where this round had none.
    fn round_rate(&self) -> f64 {
        match self.round_looks {
            0 => self.mean(),
            looks => self.round_rates / f64::from(looks),
        }
    }

    /// Takes the wait nearer to what leaves that share of entries touched, and begins a new round.
    fn learn(&mut self, units: &[UnitSum], share: f64, longest_wait: f64) {
        let is_too_long = self.wait > SHORTEST_WAIT && (self.sees_all() || self.fills_at_once());
        self.round_looks = 0;
        self.round_rates = 0.0;
        self.round_shares = 0.0;
        if is_too_long {
            self.shorten();
            return;
        }
        if self.seconds <= 0.0 {
            return;
        }
        let wanted = share * self.entries(units) / self.count().max(1.0);
        // Half a touch more, so that none at all does not mean for ever.
        let rate = (self.touches + 0.5) / self.seconds;
        self.wait = (wanted / rate)
            .clamp(self.wait / STEP, self.wait * STEP)
            .min(self.longest_wait)
            .clamp(SHORTEST_WAIT, longest_wait);
    }

    /// Whether units are touched so often that a look sees all of one touched in its first half. A program that passes through memory
    /// fills second halves as often, but for chance.
    fn fills_at_once(&self) -> bool {
        let [early, late] = self.filled_in.map(f64::from);
        early > late + FILLED_BY_CHANCE * (1.0 + late.sqrt())
    }

    /// Whether most looks see all that is ever touched: a program that passes through memory comes back within one, and what it touches
    /// again does not show.
    fn sees_all(&self) -> bool {
        self.full >= LOOKS_THAT_SEE_ALL && 2 * self.full > self.seen
    }

    /// Waits for less, and never again for so long. What such looks told is too little to tell how long.
    fn shorten(&mut self) {
        (self.touches, self.seconds) = (0.0, 0.0);
        (self.seen, self.full) = (0, 0);
        self.filled_in = [0; 2];
        self.longest_wait = self.wait / 2.0;
        self.wait = (self.wait / STEP).max(SHORTEST_WAIT);
    }
}

/// The longest wait of a sampling that may take so long, in seconds.
fn longest_wait(at_most: Duration) -> f64 {
    let looks = (STRATA + MORE_LOOKS) as f64;
    (at_most.as_secs_f64() / looks / ROUNDS_IN_TIME).clamp(SHORTEST_WAIT, LONGEST_WAIT)
}

/// How many of the first of `chosen`, which are in order of their waits, make one batch, of a process with so many units; at
/// least one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count"
)]
fn batch_size(chosen: &[(f64, usize)], units: usize) -> usize {
    let wait = chosen.first().map_or(0.0, |(wait, _)| *wait);
    let most = ((wait / UNIT_COST) as usize).min(units / UNITS_FOR_ONE_IN_BATCH);
    let alike = chosen
        .iter()
        .take_while(|(other, _)| *other <= wait * 1.5)
        .count();
    let mut distinct = Vec::new();
    chosen
        .iter()
        .take(alike.min(most.clamp(1, LARGEST_BATCH)))
        // The same unit a second time waits for another batch.
        .take_while(|(_, unit)| {
            let is_new = !distinct.contains(unit);
            distinct.push(*unit);
            is_new
        })
        .count()
        .max(1)
}

/// What stands for chance: Steele, Lea and Flood's splitmix64.
#[derive(Clone, Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    #[allow(clippy::cast_possible_truncation, reason = "below a usize")]
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// So many of `units`, none a second time before each was chosen once.
    fn choose(&mut self, units: Range<usize>, count: usize) -> impl Iterator<Item = usize> {
        let length = units.len();
        let mut all: Vec<usize> = units.collect();
        // As far as needed: the first `count` are in random order.
        for index in 0..count.min(length.saturating_sub(1)) {
            let other = index + self.below(length - index);
            all.swap(index, other);
        }
        (0..count).filter_map(move |index| all.get(index % length.max(1)).copied())
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.below(index + 1);
            items.swap(index, other);
        }
    }
}
