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

/// Where more than this share of the entries was touched, a reading in the middle does not tell touches at random from a
/// stream; they are taken for a stream, of which that is usual.
const MOST_AT_RANDOM: f64 = 0.9;

/// Where more than this share of the entries was touched before the first reading, nearly all were: a look of this length
/// tells only that they are touched very often.
const MOST_AT_FIRST: f64 = 0.75;

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
    /// The same counted in cache lines of eight entries; 0 where lines are not counted.
    pub lines: f64,
    /// Entries that were found touched in the first half, and those that came to them in the second.
    pub halves: [f64; 2],
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// CPU time that the process used meanwhile, in seconds.
    pub used: f64,
    /// Whether nearly all was touched when the look began, so that it does not tell how often.
    pub is_saturated: bool,
}

impl Look {
    /// What this look tells. `None` where it tells nothing: no time passed, or there is no entry.
    #[must_use]
    pub fn told(&self) -> Option<Told> {
        let lasted = self.last.at.checked_sub(self.first.at)?;
        let seconds = lasted.as_secs_f64();
        let entries = f64::from(self.entries);
        if seconds <= 0.0 || entries <= 0.0 {
            return None;
        }
        let used = self.last.used.saturating_sub(self.first.used).as_secs_f64();
        if f64::from(self.first.touched) > MOST_AT_FIRST * entries {
            return Some(Told {
                touches: arrivals(entries, entries),
                lines: 0.0,
                halves: [0.0; 2],
                seconds,
                used,
                is_saturated: true,
            });
        }
        let fresh = entries - f64::from(self.first.touched);
        let seen = f64::from(self.last.touched.saturating_sub(self.first.touched)).min(fresh);
        let lines = f64::from(self.last.lines.saturating_sub(self.first.lines));
        let early = f64::from(self.middle.touched.saturating_sub(self.first.touched)).min(seen);
        let (touches, lines) = match self.is_random(seen, fresh) {
            // The entries that were touched before the first reading are touched as often as the others.
            true => {
                let all_lines = f64::from(LINES.min(self.entries));
                let fresh_lines = (all_lines - f64::from(self.first.lines)).max(0.0);
                (
                    arrivals(seen, fresh) * entries / fresh,
                    arrivals(lines, fresh_lines) * all_lines / fresh_lines.max(1.0),
                )
            }
            false => (seen, lines),
        };
        Some(Told {
            touches,
            lines,
            halves: [early, seen - early],
            seconds,
            used,
            is_saturated: false,
        })
    }

    /// Whether the reading in the middle is as touches at random would have it, which made `seen` of `fresh` entries touched
    /// in all.
    fn is_random(&self, seen: f64, fresh: f64) -> bool {
        let used = |reading: &Reading| reading.used.saturating_sub(self.first.used).as_secs_f64();
        if seen <= 0.0 || used(&self.last) <= 0.0 {
            return true;
        }
        let part = (used(&self.middle) / used(&self.last)).clamp(0.0, 1.0);
        let early = f64::from(self.middle.touched.saturating_sub(self.first.touched));
        let share = (seen / fresh).min(almost_all(fresh));
        if share > MOST_AT_RANDOM {
            return false;
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
            first: reading(100, first),
            middle: reading(600, middle),
            last: reading(1100, last),
        }
    }

    fn touches(look: Look) -> f64 {
        look.told().unwrap().touches
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
        assert_eq!(nothing_mapped.told(), None);
        let mut at_once = look(0, 0, 1);
        at_once.last.at = at_once.first.at;
        assert_eq!(at_once.told(), None);
    }

    #[test]
    fn where_nearly_all_was_touched_at_once_there_were_at_least_so_many() {
        let told = look(500, 512, 512).told().unwrap();
        assert!(told.is_saturated && told.touches > 3000.0, "{told:?}");
        assert!(!look(300, 400, 450).told().unwrap().is_saturated);
    }

    #[test]
    fn lines_are_told_as_pages_are() {
        let mut scattered = look(0, 10, 20);
        scattered.middle.lines = 10;
        scattered.last.lines = 18;
        let told = scattered.told().unwrap();
        assert!((told.touches / told.lines - 1.0).abs() < 0.1, "{told:?}");
    }
}
