//! One look at a unit of memory: its Accessed bits cleared and then read three times; and how many touches that tells of.
//!
//! A page that is touched twice between two readings shows once. How many touches there were follows from how the page
//! came to be touched, and the reading in the middle tells two ways apart:
//! - Touches that come at random hit some pages twice. Then fewer new pages appear in the second half of the time than in
//!   the first, by as much as chance says.
//! - A program that passes through memory in order touches each page once. It is somewhere in the unit in one half and not
//!   in the other, or goes on at the same pace.

use std::time::Duration;

/// Cache lines of eight entries in the page table of one region.
const LINES: u16 = 64;
/// How many standard deviations the reading in the middle may lie off what touches at random would make it.
const STILL_RANDOM: f64 = 4.0;

/// Where more than this share of the entries was touched, hardly any are left to tell how often: an earlier reading does. Where
/// that does not either, they are taken for a stream, of which that is usual.
const MOST_AT_RANDOM: f64 = 0.9;

/// Where more than this share was touched before the first reading, and nearly all before the second, it was no stream that
/// began then.
const SOME_AT_FIRST: f64 = 0.25;

/// Where more than this share of the entries was touched before the first reading, what comes after says little: then the
/// time from the clearing to the first reading is the look.
const MOST_AT_FIRST: f64 = 0.75;

/// Where more than this share was, all were: that tells only that there were at least so many touches.
const ALL_AT_FIRST: f64 = 0.97;

/// The part of a look's CPU time that half of it must have to tell something by itself.
const LEAST_PART: f64 = 0.1;

/// What one reading saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When, on any clock that all readings of a look share.
    pub at: Duration,
    /// CPU time that the process had used then, all its threads together; or the same as `at` where that is not known so
    /// exactly.
    pub used: Duration,
    /// Entries whose Accessed bit was set.
    pub touched: u16,
    /// Cache lines of eight entries that hold one of those; 0 where lines are not counted.
    pub lines: u16,
}

/// A look at one unit: a region that base pages map, or some neighbouring huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Entries that can be touched: pages mapped.
    pub entries: u16,
    /// When the bits were cleared, on the clock of the readings.
    pub cleared: Duration,
    /// Right after the bits were cleared: what was touched since then, or could not be cleared.
    pub first: Reading,
    /// About half-way.
    pub middle: Reading,
    /// At the end.
    pub last: Reading,
}

/// What a look tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Told {
    /// Touches while it lasted, of all entries.
    pub touches: f64,
    /// The same counted in cache lines of eight entries; `None` where lines are not counted, or all were touched.
    pub lines: Option<f64>,
    /// Entries that were found touched in the first half, and those that came to them in the second. `None` where the look
    /// ended with its first reading.
    pub halves: Option<[f64; 2]>,
    /// What each half tells by itself; `None` where one of them does not.
    pub parts: Option<[Part; 2]>,
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// CPU time that the process used meanwhile, in seconds.
    pub used: f64,
    /// Whether all was touched when the look began: there were so many touches at least, and nobody knows how many more.
    pub is_saturated: bool,
    /// The half in which nearly all was touched, 0 or 1, and hardly anything in the other; `None` where there is none.
    pub filled: Option<usize>,
}

/// What half a look tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Touches while it lasted, of all entries.
    pub touches: f64,
    /// By what square of that number it would be off if they came one by one at random.
    pub variance: f64,
    /// CPU time that the process used meanwhile, in seconds.
    pub used: f64,
}

impl Part {
    /// Touches in a second of CPU time.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.touches / self.used
    }
}

impl Look {
    /// What this look tells, where that share of the entries is touched at all as far as is known. `None` where it tells
    /// nothing: no time passed, or there is no entry.
    #[must_use]
    pub fn told(&self, active: f64) -> Option<Told> {
        let lasted = self.last.at.checked_sub(self.first.at)?;
        let mapped = f64::from(self.entries);
        if lasted.is_zero() || mapped <= 0.0 {
            return None;
        }
        let entries = self.touchable(mapped, active);
        let at_first = f64::from(self.first.touched).min(entries);
        if at_first > MOST_AT_FIRST * entries {
            return self.told_at_first(entries);
        }
        let fresh = entries - at_first;
        let early = f64::from(self.middle.touched.saturating_sub(self.first.touched)).min(fresh);
        let seen = f64::from(self.last.touched.saturating_sub(self.first.touched)).min(fresh);
        let many = MOST_AT_RANDOM * fresh;
        if seen > many && early > many && at_first > SOME_AT_FIRST * entries {
            return self.told_at_first(entries);
        }
        // Where the look took too long, so that nearly all was touched, its first half tells.
        let goes_on = 1.0 - (1.0 - early / fresh).powf(1.0 / self.part_early());
        let (end, found) = match seen > many && early <= many && goes_on > MOST_AT_FIRST {
            true => (&self.middle, early),
            false => (&self.last, seen),
        };
        let is_random = found <= many && self.is_random(seen, fresh);
        let halves = [early, seen - early];
        let in_each = match is_random {
            true => arrivals_in_each(halves, fresh, entries),
            false => halves.map(|touches| (touches, touches)),
        };
        // The entries that were touched before the first reading are touched as often as the others.
        let at_random = arrivals(found, fresh) * entries / fresh;
        let touches = if is_random { at_random } else { found };
        let lines = match found > many {
            // A stream passes through each once.
            true => self.lines_found(end),
            false if found > 0.0 => self.lines(end).map(|lines| lines * touches / at_random),
            false => Some(0.0),
        };
        Some(Told {
            touches,
            lines,
            halves: Some(halves),
            // What was touched already cannot be seen to be touched again.
            parts: self.parts(in_each).filter(|_| early <= many),
            seconds: end.at.saturating_sub(self.first.at).as_secs_f64(),
            used: end.used.saturating_sub(self.first.used).as_secs_f64(),
            is_saturated: false,
            filled: halves.iter().position(|touched| *touched > many),
        })
        .filter(|told| told.seconds > 0.0)
    }

    /// Arrivals at cache lines up to the reading `end`, had they come at random, as pages and lines must be counted alike to be compared: by
    /// chance alone touches at random share lines. `None` where lines are not counted, or all were touched.
    fn lines(&self, end: &Reading) -> Option<f64> {
        let all = f64::from(LINES.min(self.entries));
        let fresh = all - f64::from(self.first.lines);
        let found = self.lines_found(end)?;
        (found < fresh).then(|| arrivals(found, fresh) * all / fresh)
    }

    /// Cache lines found touched up to the reading `end` that were not at the first. `None` where they are not counted.
    fn lines_found(&self, end: &Reading) -> Option<f64> {
        let found = f64::from(end.lines.saturating_sub(self.first.lines));
        (end.lines > 0).then_some(found)
    }

    /// Entries that can be touched: the share that is touched at all, unless this look saw as many.
    fn touchable(&self, mapped: f64, active: f64) -> f64 {
        let touchable = active * mapped;
        if f64::from(self.last.touched) > MOST_AT_RANDOM * touchable {
            mapped
        } else {
            touchable
        }
    }

    /// What the time before the first reading tells. The process used as many CPUs in it as after.
    fn told_at_first(&self, entries: f64) -> Option<Told> {
        let seconds = self.first.at.checked_sub(self.cleared)?.as_secs_f64();
        let after = self.last.at.saturating_sub(self.first.at).as_secs_f64();
        let touched = f64::from(self.first.touched).min(entries);
        let is_saturated = touched > ALL_AT_FIRST * entries;
        (seconds > 0.0).then(|| Told {
            // A program that passes through memory touches all of it, each page once.
            touches: match is_saturated {
                true => touched,
                false => arrivals(touched, entries),
            },
            lines: None,
            halves: None,
            parts: None,
            seconds,
            used: seconds * self.used() / after,
            is_saturated,
            filled: None,
        })
    }

    /// Both halves with so many touches and that variance, where the process ran in both.
    fn parts(&self, found: [(f64, f64); 2]) -> Option<[Part; 2]> {
        let readings = [(self.first, self.middle), (self.middle, self.last)];
        let used = readings.map(|(from, to)| to.used.saturating_sub(from.used).as_secs_f64());
        let ran = used.iter().all(|used| *used > LEAST_PART * self.used());
        let part = |half: usize| Part {
            touches: found[half].0,
            variance: found[half].1,
            used: used[half],
        };
        ran.then(|| [part(0), part(1)])
    }

    /// CPU time that the process used from the first reading to the last, in seconds.
    fn used(&self) -> f64 {
        self.last.used.saturating_sub(self.first.used).as_secs_f64()
    }

    /// The part of that up to the reading in the middle, above 0 and at most 1.
    fn part_early(&self) -> f64 {
        let early = self.middle.used.saturating_sub(self.first.used);
        let part = early.as_secs_f64() / self.used().max(f64::MIN_POSITIVE);
        part.clamp(0.01, 1.0)
    }

    /// Whether the reading in the middle is as touches at random would have it, which made `seen` of `fresh` entries touched
    /// in all.
    fn is_random(&self, seen: f64, fresh: f64) -> bool {
        if seen <= 0.0 || self.used() <= 0.0 {
            return true;
        }
        let part = self.part_early();
        let early = f64::from(self.middle.touched.saturating_sub(self.first.touched));
        let share = seen / fresh;
        if share > MOST_AT_RANDOM {
            // Nothing is left that could come late.
            return true;
        }
        let chance = (1.0 - (1.0 - share).powf(part)) / share;
        let deviation = (chance * (1.0 - chance) * seen).max(0.0).sqrt();
        (early - chance * seen).abs() <= STILL_RANDOM * deviation + 1.0
    }
}

/// How many arrivals at random hit `seen` different ones of `all`. Where all are hit there is no upper limit; taken is what
/// half a one less tells.
fn arrivals(seen: f64, all: f64) -> f64 {
    if all <= 0.0 {
        return 0.0;
    }
    -(1.0 - (seen / all).min(almost_all(all))).ln() * all
}

/// How many arrivals at random there were at `all` in each of two halves, of which the first hit so many of those that were `fresh`, and
/// the second so many others; each with its variance.
fn arrivals_in_each([early, late]: [f64; 2], fresh: f64, all: f64) -> [(f64, f64); 2] {
    let arrivals = |seen: f64, of: f64| {
        let share = (seen / of).min(almost_all(of));
        let scale = all / of;
        let variance = of * share / (1.0 - share);
        (arrivals(seen, of) * scale, variance * scale * scale)
    };
    [
        arrivals(early, fresh),
        arrivals(late, (fresh - early).max(1.0)),
    ]
}

/// The largest share of `all` that still tells how often they were hit.
fn almost_all(all: f64) -> f64 {
    1.0 - 0.5 / all.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(first: u16, middle: u16, last: u16) -> Look {
        let reading = |micros, touched| Reading {
            at: Duration::from_micros(micros),
            used: Duration::from_micros(micros),
            touched,
            lines: 0,
        };
        Look {
            entries: 512,
            cleared: Duration::ZERO,
            first: reading(100, first),
            middle: reading(600, middle),
            last: reading(1100, last),
        }
    }

    fn touches(look: Look) -> f64 {
        look.told(1.0).unwrap().touches
    }

    #[test]
    fn touches_at_random_are_more_than_the_pages_they_hit() {
        // 512 ln 2 touches leave half of the pages alone, half as many leave 70.7 %.
        assert!((touches(look(0, 150, 256)) - 354.9).abs() < 0.1);
        assert!((touches(look(0, 0, 0))).abs() < 1e-9);
    }

    #[test]
    fn a_front_touches_each_page_once() {
        for middle in [0, 40, 256] {
            assert!((touches(look(0, middle, 256)) - 256.0).abs() < 1e-9);
        }
        assert!((touches(look(0, 512, 512)) - 512.0).abs() < 1e-9);
    }

    #[test]
    fn of_a_look_that_took_too_long_the_first_half_tells() {
        // 512 ln 4 touches leave a quarter alone.
        let told = look(0, 384, 490).told(1.0).unwrap();
        assert!((told.touches - 709.8).abs() < 0.1, "{told:?}");
        assert!((told.seconds - 0.5e-3).abs() < 1e-9);
        // It was no such one if much more came then than before.
        assert!((touches(look(0, 20, 512)) - 512.0).abs() < 1e-9);
    }

    #[test]
    fn where_few_are_touched_at_all_they_are_touched_more_often() {
        // Half of the 64 that are touched at all: 64 ln 2 touches.
        let told = look(0, 18, 32).told(0.125).unwrap();
        assert!((told.touches - 44.4).abs() < 0.1, "{told:?}");
        // This region has more than those.
        let told = look(0, 150, 256).told(0.125).unwrap();
        assert!((told.touches - 354.9).abs() < 0.1, "{told:?}");
    }

    #[test]
    fn what_was_touched_while_the_bits_were_cleared_is_touched_as_often_as_the_rest() {
        let told = touches(look(256, 256 + 75, 384));
        assert!((told - 354.9).abs() < 0.1, "{told}");
    }

    #[test]
    fn a_look_that_cannot_tell_says_so() {
        let nothing_mapped = Look {
            entries: 0,
            ..look(0, 0, 0)
        };
        assert_eq!(nothing_mapped.told(1.0), None);
        let mut at_once = look(0, 0, 1);
        at_once.last.at = at_once.first.at;
        assert_eq!(at_once.told(1.0), None);
    }

    #[test]
    fn where_nearly_all_was_touched_at_once_there_were_at_least_so_many() {
        let told = look(510, 512, 512).told(1.0).unwrap();
        assert!(told.is_saturated && told.touches >= 510.0, "{told:?}");
        assert!(!look(300, 400, 450).told(1.0).unwrap().is_saturated);
    }

    #[test]
    fn where_most_was_touched_at_once_the_time_before_the_first_reading_tells() {
        // 512 ln 8 touches in the 100 microseconds before leave an eighth alone.
        let told = look(448, 512, 512).told(1.0).unwrap();
        assert!(
            (told.touches - 1064.7).abs() < 0.1 && !told.is_saturated,
            "{told:?}"
        );
        assert!((told.seconds - 1e-4).abs() < 1e-9 && (told.used - 1e-4).abs() < 1e-9);
    }

    #[test]
    fn each_half_tells_by_itself_where_the_program_ran_in_both() {
        // 512 ln 2 touches leave half of the pages alone, as many again half of those.
        let told = look(0, 256, 384).told(1.0).unwrap();
        let parts = told.parts.unwrap();
        for part in parts {
            assert!((part.touches - 354.9).abs() < 0.1, "{parts:?}");
            assert!((part.rate() - 354.9 / 0.5e-3).abs() < 1e3, "{parts:?}");
        }
        let mut slept = look(0, 256, 256);
        slept.last.used = slept.middle.used;
        assert_eq!(slept.told(1.0).unwrap().parts, None);
        // Hardly any were left for its second half.
        let filled = look(0, 470, 490).told(1.0).unwrap();
        assert_eq!((filled.parts, filled.filled), (None, Some(0)));
        assert_eq!(look(0, 20, 512).told(1.0).unwrap().filled, Some(1));
    }

    #[test]
    fn lines_are_told_as_pages_are() {
        let mut scattered = look(0, 10, 20);
        scattered.middle.lines = 10;
        scattered.last.lines = 18;
        let per_line = |look: &Look| {
            let told = look.told(1.0).unwrap();
            told.touches / told.lines.unwrap()
        };
        assert!((per_line(&scattered) - 1.0).abs() < 0.1, "{scattered:?}");
        // By chance 150 touched pages of 512 lie in 60 of 64 lines; even if they all came in one half.
        for middle in [0, 80] {
            let mut many = look(0, middle, 150);
            many.last.lines = 60;
            assert!((per_line(&many) - 1.0).abs() < 0.1, "{many:?}");
        }
        // In order they lie in 19.
        let mut front = look(0, 0, 150);
        front.last.lines = 19;
        assert!(per_line(&front) > 7.0, "{front:?}");
    }

    #[test]
    fn where_all_lines_were_touched_none_tells_how_pages_share_them() {
        let mut all = look(0, 170, 256);
        (all.middle.lines, all.last.lines) = (62, 64);
        assert_eq!(all.told(1.0).unwrap().lines, None);
        assert_eq!(look(0, 170, 256).told(1.0).unwrap().lines, None);
        // But of a stream all is touched.
        let mut stream = look(0, 256, 512);
        stream.last.lines = 64;
        assert_eq!(stream.told(1.0).unwrap().lines, Some(64.0));
    }
}
