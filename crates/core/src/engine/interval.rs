//! When to look again.

use std::time::Duration;

use serde::Serialize;

use crate::process::ProcessId;

use super::report::ProcessSummary;

/// The time between two observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Interval {
    /// As the programs ask for: [`Interval::SHORTEST`] while one is new or changes, then ever more, up to
    /// [`Interval::LONGEST`]. With a policy that counts on equal intervals ([`crate::Policy::bears_any_interval`]):
    /// [`Interval::EQUAL`].
    #[default]
    Auto,
    /// Always this.
    Fixed(Duration),
}

impl Interval {
    /// The time between two observations of a program that is new or changes.
    pub const SHORTEST: Duration = Duration::from_millis(250);
    /// The time between two observations of programs that have long done the same.
    pub const LONGEST: Duration = Duration::from_secs(10);
    /// The interval for a policy that counts on equal ones.
    pub const EQUAL: Duration = Duration::from_secs(5);

    /// Whether it is so short that what is accessed in it is in use all the time: at most twice the shortest.
    #[must_use]
    pub fn is_moment(interval: Duration) -> bool {
        interval <= Interval::SHORTEST * 2
    }

    /// The time between two observations; `None` where it follows the programs.
    #[must_use]
    pub fn fixed(self) -> Option<Duration> {
        match self {
            Interval::Fixed(interval) => Some(interval),
            Interval::Auto => None,
        }
    }
}

impl From<Duration> for Interval {
    fn from(interval: Duration) -> Self {
        Interval::Fixed(interval)
    }
}

/// An interval counts for a policy that counts intervals once so much time has passed since the last that did.
const COUNTED: Duration = Duration::from_secs(1);
/// How long a process counts as new.
const NEW: Duration = Duration::from_secs(5);
/// The share of a core that looking may take while programs change and a CPU is idle.
const LOOKING_SHARE: f64 = 0.02;
/// The same where all CPUs are busy: then programs lose what looking takes.
const LOOKING_SHARE_WHEN_BUSY: f64 = 0.005;
/// What is mapped, or mapped by huge pages, has changed when it did by more than this part.
const MAPPED_CHANGES: u64 = 32;
/// What is accessed has changed when it is beyond the usual by more than this part of what is mapped. It also grows with the interval.
const ACCESSED_CHANGES: u64 = 4;
/// What was usual and is not seen again is forgotten in about this time.
const USUAL: Duration = Duration::from_secs(60);

/// A process as it was seen last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    process: ProcessId,
    /// When it was first seen with memory that huge pages could map.
    since: Duration,
    mapped: u64,
    huge: u64,
    /// Regions that the engine had promoted.
    promoted: u64,
    /// The least and the most that it accessed between two looks of late. What goes over a part of its memory often and over all of
    /// it at times is no other program each time.
    least: u64,
    most: u64,
}

impl Seen {
    fn of(summary: &ProcessSummary, since: Duration) -> Self {
        Seen {
            process: summary.process,
            since,
            mapped: summary.mapped_bytes,
            huge: summary.huge_bytes,
            promoted: summary.tally.promoted,
            least: summary.accessed_bytes,
            most: summary.accessed_bytes,
        }
    }

    /// Whether it is another than it was `before`. It accessed as much at this look as its least and its most say.
    fn differs_from(&self, before: &Seen) -> bool {
        let bound = self.mapped.max(before.mapped);
        self.mapped.abs_diff(before.mapped) > bound / MAPPED_CHANGES
            || self.huge.abs_diff(before.huge) > bound / MAPPED_CHANGES
            || self.promoted > before.promoted
            || self.most.saturating_sub(before.most) > bound / ACCESSED_CHANGES
            || before.least.saturating_sub(self.least) > bound / ACCESSED_CHANGES
    }

    /// With what was usual `before`, which is `elapsed` ago.
    fn as_usual(mut self, before: &Seen, elapsed: Duration) -> Self {
        let (least, most) = (before.least, before.most);
        self.least = (self.least).min(least + forgotten(self.least.saturating_sub(least), elapsed));
        self.most = (self.most).max(most - forgotten(most.saturating_sub(self.most), elapsed));
        self
    }
}

/// What is forgotten of that many bytes after that time.
fn forgotten(bytes: u64, elapsed: Duration) -> u64 {
    let milliseconds = |time: Duration| time.as_secs() * 1000 + u64::from(time.subsec_millis());
    bytes / milliseconds(USUAL) * milliseconds(elapsed.min(USUAL))
}

/// Follows the programs' changes.
#[derive(Debug)]
pub(super) struct Rhythm {
    interval: Interval,
    gap: Duration,
    seen: Vec<Seen>,
    /// When that was.
    looked: Duration,
    /// What the last look cost, in seconds.
    cost: f64,
    /// Time since the last interval that counted.
    uncounted: Duration,
}

impl Rhythm {
    pub(super) fn new(interval: Interval) -> Self {
        Rhythm {
            interval,
            gap: Interval::SHORTEST,
            seen: Vec::new(),
            looked: Duration::ZERO,
            cost: 0.0,
            uncounted: Duration::ZERO,
        }
    }

    /// Whether it is always the same.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.interval, Interval::Fixed(_))
    }

    pub(super) fn set(&mut self, interval: Interval) {
        self.interval = interval;
        self.gap = Interval::SHORTEST;
    }

    /// Whether an interval of that length counts for a policy that counts intervals.
    pub(super) fn counts(&mut self, length: Duration) -> bool {
        if let Interval::Fixed(_) = self.interval {
            return true;
        }
        self.uncounted += length;
        let counts = self.uncounted >= COUNTED;
        if counts {
            self.uncounted = Duration::ZERO;
        }
        counts
    }

    /// The time until the next look, given what this one saw, what it cost in seconds, and how much of a CPU is `idle`, 0 to 1.
    pub(super) fn next(
        &mut self,
        now: Duration,
        seen: &[ProcessSummary],
        cost: f64,
        idle: f64,
    ) -> Duration {
        let changes = self.update(now, seen);
        // A first look at a process clears all its Accessed bits, which says nothing of the next.
        let expected = cost.min(self.cost);
        self.cost = cost;
        if let Interval::Fixed(interval) = self.interval {
            return interval;
        }
        self.gap = if changes {
            Interval::SHORTEST
        } else {
            (self.gap * 3 / 2).min(Interval::LONGEST)
        };
        self.gap.max(self.least_gap(expected, idle))
    }

    /// The least time until another look that costs so many seconds, with so much of a CPU `idle`: so long that looking takes no more than
    /// its share of a core, but [`Interval::LONGEST`] at most. Nothing where intervals are fixed.
    pub(super) fn least_gap(&self, cost: f64, idle: f64) -> Duration {
        if self.is_fixed() {
            return Duration::ZERO;
        }
        let share = LOOKING_SHARE_WHEN_BUSY + (LOOKING_SHARE - LOOKING_SHARE_WHEN_BUSY) * idle;
        let gap = Duration::try_from_secs_f64(cost / share);
        gap.unwrap_or(Interval::LONGEST).min(Interval::LONGEST)
    }

    /// Remembers what is there now. Whether something is new, or changed.
    fn update(&mut self, now: Duration, summaries: &[ProcessSummary]) -> bool {
        let mut before = std::mem::take(&mut self.seen).into_iter().peekable();
        let elapsed = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        let mut changes = false;
        for summary in summaries.iter().filter(|summary| summary.regions > 0) {
            while before
                .next_if(|seen| seen.process < summary.process)
                .is_some()
            {}
            let known = before.next_if(|seen| seen.process == summary.process);
            let seen = Seen::of(summary, known.map_or(now, |known| known.since));
            let is_new = now.saturating_sub(seen.since) < NEW;
            changes |= is_new || known.is_none_or(|known| seen.differs_from(&known));
            self.seen
                .push(known.map_or(seen, |known| seen.as_usual(&known, elapsed)));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(pid: u32, mapped_bytes: u64, accessed_bytes: u64) -> ProcessSummary {
        ProcessSummary {
            process: ProcessId { pid, start_time: 1 },
            regions: mapped_bytes >> 21,
            mapped_bytes,
            accessed_bytes,
            huge_bytes: 0,
            giant_bytes: 0,
            bloat_bytes: None,
            accesses_known: true,
            rest: crate::engine::Rest::default(),
            counted: crate::engine::Covered::default(),
            tally: crate::engine::Tally::default(),
            gain: None,
        }
    }

    const MIB: u64 = 1 << 20;

    /// Looks until `end`; returns how often.
    fn looks(rhythm: &mut Rhythm, now: &mut Duration, end: u64, seen: &[ProcessSummary]) -> u32 {
        let mut looks = 0;
        while *now < Duration::from_secs(end) {
            *now += rhythm.next(*now, seen, 1e-4, 1.0);
            looks += 1;
        }
        looks
    }

    #[test]
    fn what_settles_is_looked_at_ever_more_seldom_and_what_changes_often() {
        let (mut rhythm, mut now) = (Rhythm::new(Interval::Auto), Duration::ZERO);
        let calm = [summary(1, 512 * MIB, 100 * MIB), summary(2, 64 * MIB, 0)];
        assert!(looks(&mut rhythm, &mut now, 5, &calm) >= 20);
        assert!(looks(&mut rhythm, &mut now, 60, &calm) < 20);
        assert!(looks(&mut rhythm, &mut now, 160, &calm) <= 10);
        let grown = [calm[0], summary(2, 80 * MIB, 0)];
        assert_eq!(rhythm.next(now, &grown, 1e-4, 1.0), Interval::SHORTEST);
        let one_more = [grown[0], grown[1], summary(3, 2 * MIB, 0)];
        for _ in 0..10 {
            now += rhythm.next(now, &grown, 1e-4, 1.0);
        }
        assert_eq!(rhythm.next(now, &one_more, 1e-4, 1.0), Interval::SHORTEST);
        now += rhythm.next(now, &calm, 1e-4, 1.0);
        let other_use = [summary(1, 512 * MIB, 400 * MIB), calm[1]];
        assert_eq!(rhythm.next(now, &other_use, 1e-4, 1.0), Interval::SHORTEST);
    }

    /// As a program does that goes over its hot part all the time and over all of its memory every four seconds.
    #[test]
    fn a_program_that_takes_turns_settles() {
        let (mut rhythm, mut now) = (Rhythm::new(Interval::Auto), Duration::ZERO);
        let mut last = now;
        let mut look = |rhythm: &mut Rhythm, hot| {
            let passes = |time: Duration| time.as_secs() / 4;
            let accessed = if passes(now) > passes(last) { 512 } else { hot };
            last = now;
            now += rhythm.next(now, &[summary(1, 512 * MIB, accessed * MIB)], 1e-4, 1.0);
            now - last
        };
        for _ in 0..200 {
            look(&mut rhythm, 50);
        }
        assert_eq!(look(&mut rhythm, 50), Interval::LONGEST);
    }

    #[test]
    fn what_a_program_did_is_forgotten_when_it_no_longer_does_it() {
        let calm = [summary(1, 512 * MIB, 0)];
        let mut quiet = Rhythm::new(Interval::Auto);
        for second in 0..60 {
            quiet.next(Duration::from_secs(second), &calm, 1e-4, 1.0);
        }
        let awake = [summary(1, 512 * MIB, 512 * MIB)];
        let minute = Duration::from_secs(60);
        assert_eq!(quiet.next(minute, &awake, 1e-4, 1.0), Interval::SHORTEST);
        for second in 61..120 {
            quiet.next(Duration::from_secs(second), &calm, 1e-4, 1.0);
        }
        assert_eq!(
            quiet.next(minute * 2, &awake, 1e-4, 1.0),
            Interval::SHORTEST
        );
    }

    #[test]
    fn a_program_is_looked_at_often_while_it_is_made_huge() {
        let (mut rhythm, mut now) = (Rhythm::new(Interval::Auto), Duration::ZERO);
        let calm = summary(1, 512 * MIB, 100 * MIB);
        looks(&mut rhythm, &mut now, 60, &[calm]);
        let mut grown = calm;
        for _ in 0..10 {
            grown.huge_bytes += 2 * MIB;
            grown.tally.promoted += 1;
            let interval = rhythm.next(now, &[grown], 1e-4, 1.0);
            assert_eq!(interval, Interval::SHORTEST);
            now += interval;
        }
        // A huge page that comes or goes by itself is none of mega's.
        grown.huge_bytes -= 2 * MIB;
        assert!(rhythm.next(now, &[grown], 1e-4, 1.0) > Interval::SHORTEST);
    }

    #[test]
    fn processes_without_a_region_are_no_news() {
        let mut rhythm = Rhythm::new(Interval::Auto);
        let first = rhythm.next(Duration::ZERO, &[summary(1, 0, 0)], 1e-4, 1.0);
        assert!(first > Interval::SHORTEST);
    }

    #[test]
    fn dear_looks_are_seldom_even_while_programs_change_and_more_so_where_cpus_are_busy() {
        for (idle, share) in [(1.0, 0.021), (0.0, 0.0051)] {
            let (mut rhythm, mut now) = (Rhythm::new(Interval::Auto), Duration::ZERO);
            let mut cost = 0.0;
            for index in 0..1000 {
                cost += 0.05;
                let seen = [summary(1, (index % 7 + 1) * 64 * MIB, 0)];
                now += rhythm.next(now, &seen, 0.05, idle);
            }
            let bound = share * now.as_secs_f64();
            assert!(
                cost <= bound,
                "{cost} s of {now:?} with {idle} of a CPU idle"
            );
        }
    }

    #[test]
    fn one_dear_look_at_what_is_new_does_not_delay_the_next() {
        let mut rhythm = Rhythm::new(Interval::Auto);
        let seen = [summary(1, 512 * MIB, 0)];
        rhythm.next(Duration::ZERO, &seen, 1e-4, 1.0);
        assert_eq!(
            rhythm.next(Duration::ZERO, &seen, 0.3, 1.0),
            Interval::SHORTEST
        );
    }

    #[test]
    fn a_fixed_interval_stays_and_always_counts() {
        let interval = Duration::from_millis(20);
        let mut rhythm = Rhythm::new(interval.into());
        assert_eq!(rhythm.next(Duration::ZERO, &[], 9.0, 1.0), interval);
        assert!(rhythm.counts(interval));
    }

    #[test]
    fn intervals_count_once_a_second() {
        let mut rhythm = Rhythm::new(Interval::Auto);
        let counted = (0..40).filter(|_| rhythm.counts(Interval::SHORTEST));
        assert_eq!(counted.count(), 10);
        assert!(rhythm.counts(Interval::LONGEST));
    }
}
