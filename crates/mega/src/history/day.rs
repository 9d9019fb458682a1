//! The slots of a day. Pure: it reads no clock.
//!
//! A look says how things were since the look before it. States are averaged over that time, counts since the daemon's start are
//! turned into what was added.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::look::{Look, SelectionLook};
use super::slot::{Counts, Done, SLOT, SelectionSlot, Slot, Uncovered, zip};

/// Slots that are kept: 24 hours.
pub(super) const SLOTS: usize = 288;
/// Programs that a slot names of each selection: those with the most in base pages.
pub(super) const PROGRAMS: usize = 4;

/// The latest 24 hours.
#[derive(Clone, Debug, Default)]
pub(super) struct Day {
    /// Those that have ended, by time.
    ended: VecDeque<Ended>,
    current: Option<Slot>,
    /// What the last look counted; `None` before the first.
    before: Option<Before>,
}

/// A slot that has ended, as JSON: that takes a fifth of the memory.
#[derive(Clone, Debug)]
struct Ended {
    start: u64,
    line: Arc<str>,
}

/// What was counted since the daemon's start.
#[derive(Clone, Debug, Default)]
struct Before {
    now: Duration,
    cpu_seconds: f64,
    blocks_emptied: u64,
    events: Counts,
    /// By selection.
    done: BTreeMap<String, Done>,
}

impl Day {
    /// A day of which these slots are known, as JSON. What another version wrote otherwise counts for nothing; of two of the same
    /// time, the later one holds.
    pub(super) fn of(lines: &[String]) -> Self {
        let mut day = Day::default();
        for line in lines {
            let Ok(slot) = serde_json::from_str::<Slot>(line) else {
                continue;
            };
            if day
                .current
                .as_ref()
                .is_none_or(|last| last.start < slot.start)
            {
                day.end();
            }
            day.forget_before(slot.start);
            day.current = Some(slot);
        }
        day
    }

    /// The slots as JSON, by time; the last one has not ended.
    pub(super) fn lines(&self) -> Vec<Arc<str>> {
        let ended = self.ended.iter().map(|ended| Arc::clone(&ended.line));
        ended.chain(self.current.as_ref().and_then(line)).collect()
    }

    /// The slot that has not ended, as JSON.
    pub(super) fn last_line(&self) -> Option<Arc<str>> {
        self.current.as_ref().and_then(line)
    }

    /// Adds a look. Returns the slot that ended by it as JSON, if one did.
    pub(super) fn add(&mut self, look: &Look) -> Option<Arc<str>> {
        let first = self.before.is_none();
        let before = self.before.take().unwrap_or_default();
        // The first look stands for itself.
        let seconds = match first {
            true => 1.0,
            false => look.now.saturating_sub(before.now).as_secs_f64(),
        };
        let start = look.time - look.time % SLOT;
        // Where the clock was set back, the last slot goes on.
        let ends = self.current.as_ref().is_some_and(|last| last.start < start);
        let ended = if ends { self.end() } else { None };
        self.forget_before(start);
        let slot = self.current.get_or_insert_with(|| Slot {
            start,
            ..Slot::default()
        });
        slot.add(look, &before, seconds);
        self.before = Some(Before::of(look));
        ended
    }

    /// Forgets what is older than a day at the start of the slot `start`.
    fn forget_before(&mut self, start: u64) {
        let oldest = start.saturating_sub((SLOTS as u64 - 1) * SLOT);
        while self.ended.front().is_some_and(|ended| ended.start < oldest) {
            self.ended.pop_front();
        }
    }

    /// Ends the last slot. Returns it as JSON.
    fn end(&mut self) -> Option<Arc<str>> {
        let slot = self.current.take()?;
        let line = line(&slot)?;
        self.ended.push_back(Ended {
            start: slot.start,
            line: Arc::clone(&line),
        });
        Some(line)
    }
}

/// A slot as JSON, which no slot fails to become.
fn line(slot: &Slot) -> Option<Arc<str>> {
    serde_json::to_string(slot).ok().map(Into::into)
}

impl Before {
    fn of(look: &Look) -> Self {
        let done = look.selections.iter();
        Before {
            now: look.now,
            cpu_seconds: look.cpu_seconds,
            blocks_emptied: look.blocks_emptied,
            events: look.events.clone(),
            done: done
                .map(|selection| (selection.name.clone(), selection.done.clone()))
                .collect(),
        }
    }
}

impl Slot {
    fn add(&mut self, look: &Look, before: &Before, seconds: f64) {
        let mean = Mean {
            weight: self.seconds,
            seconds,
        };
        self.free = mean.with(self.free, look.free);
        self.contiguity = mean.with(self.contiguity, look.contiguity);
        self.seconds += seconds;
        self.resident = self.resident.max(look.resident);
        self.cpu_seconds += (look.cpu_seconds - before.cpu_seconds).max(0.0);
        self.blocks_emptied += look.blocks_emptied.saturating_sub(before.blocks_emptied);
        let events = zip(&look.events, &before.events, u64::saturating_sub);
        self.events = zip(&self.events, &events, u64::saturating_add);
        for selection in &look.selections {
            let counted = before.done.get(&selection.name);
            self.selection(&selection.name)
                .add(selection, counted, seconds);
        }
    }

    fn selection(&mut self, name: &str) -> &mut SelectionSlot {
        let known = self
            .selections
            .iter()
            .position(|selection| selection.name == name);
        let place = known.unwrap_or_else(|| {
            self.selections.push(SelectionSlot {
                name: name.to_owned(),
                ..SelectionSlot::default()
            });
            self.selections.len() - 1
        });
        &mut self.selections[place]
    }
}

impl SelectionSlot {
    fn add(&mut self, look: &SelectionLook, before: Option<&Done>, seconds: f64) {
        let mean = Mean {
            weight: self.seconds,
            seconds,
        };
        self.policy.clone_from(&look.policy);
        self.promised = look.promised;
        self.processes = self.processes.max(look.processes);
        self.refused = self.refused.max(look.refused);
        self.short = self.short.max(look.short);
        if look.short > 0 {
            self.short_seconds += seconds;
        }
        self.mapped = mean.with(self.mapped, look.mapped);
        self.huge = mean.with(self.huge, look.huge);
        self.giant = mean.with(self.giant, look.giant);
        self.wanted = mean.with(self.wanted, look.wanted);
        self.rest = mean.of_each(&self.rest, &look.rest);
        self.not_eligible = mean.of_each(&self.not_eligible, &look.not_eligible);
        let part = crate::share::share(look.huge, look.mapped);
        self.lowest = match (self.lowest, part) {
            (Some(lowest), Some(part)) => Some(lowest.min(part)),
            (lowest, part) => lowest.or(part),
        };
        self.done += &added(&look.done, before);
        self.add_uncovered(&look.uncovered, &mean);
        self.seconds += seconds;
    }

    /// Adds the programs of a look. Of all that the slot has seen, those with the most in base pages stay.
    fn add_uncovered(&mut self, seen: &[Uncovered], mean: &Mean) {
        let mut all: BTreeMap<String, (Uncovered, Uncovered)> = BTreeMap::new();
        for known in std::mem::take(&mut self.uncovered) {
            let name = known.name.clone();
            all.entry(name).or_default().0 = known;
        }
        for new in seen {
            all.entry(new.name.clone()).or_default().1 = new.clone();
        }
        let averaged = all.into_iter().map(|(name, (known, new))| Uncovered {
            name,
            mapped: mean.with(known.mapped, new.mapped),
            huge: mean.with(known.huge, new.huge),
            wanted: mean.with(known.wanted, new.wanted),
            rest: mean.of_each(&known.rest, &new.rest),
        });
        self.uncovered = most_uncovered(averaged.collect());
    }
}

/// Those with the most in base pages.
pub(super) fn most_uncovered(mut programs: Vec<Uncovered>) -> Vec<Uncovered> {
    programs.retain(|program| program.base() > 0);
    programs.sort_by(|a, b| b.base().cmp(&a.base()).then_with(|| a.name.cmp(&b.name)));
    programs.truncate(PROGRAMS);
    programs
}

/// What was done since the last look. A selection that has fewer steps than before is another one of the same name.
fn added(now: &Done, before: Option<&Done>) -> Done {
    match before.filter(|before| before.steps <= now.steps) {
        Some(before) => now - before,
        None => now.clone(),
    }
}

/// How a mean over `weight` seconds changes by a value that held for `seconds`.
struct Mean {
    weight: f64,
    seconds: f64,
}

impl Mean {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of sizes lies between them"
    )]
    fn with(&self, mean: u64, value: u64) -> u64 {
        let whole = self.weight + self.seconds;
        if whole <= 0.0 {
            return value;
        }
        let sum = mean as f64 * self.weight + value as f64 * self.seconds;
        (sum / whole).round() as u64
    }

    fn of_each(&self, means: &Counts, values: &Counts) -> Counts {
        zip(means, values, |mean, value| self.with(mean, value))
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::tests::look;
    use super::*;
    use mega_core::ActionKind;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn slots(day: &Day) -> Vec<Slot> {
        let lines = day.lines();
        lines.iter().map(|line| slot(line)).collect()
    }

    fn slot(line: &str) -> Slot {
        serde_json::from_str(line).expect("a slot")
    }

    fn at(mut look: Look, second: u64) -> Look {
        look.time = 1_800_000_000 + second;
        look.now = Duration::from_secs(1000 + second);
        look
    }

    #[test]
    fn states_are_averaged_and_counts_are_added() {
        let mut day = Day::default();
        let mut first = look("web", 4 * GIB, GIB);
        first.selections[0].done.done[ActionKind::Promote] = 7;
        first.cpu_seconds = 0.5;
        day.add(&at(first.clone(), 0));
        let mut second = look("web", 4 * GIB, 3 * GIB);
        second.selections[0].done.done[ActionKind::Promote] = 10;
        second.selections[0].short = 2;
        second.cpu_seconds = 2.5;
        assert!(day.add(&at(second, 3)).is_none());
        let slot = slots(&day).pop().expect("a slot");
        assert_eq!(
            (slot.start, slot.seconds, slot.cpu_seconds),
            (1_800_000_000, 4.0, 2.5)
        );
        let web = &slot.selections[0];
        // One second of 1 GiB, three of 3 GiB.
        assert_eq!((web.mapped, web.huge), (4 * GIB, 5 * GIB / 2));
        assert_eq!(
            (web.done.done[ActionKind::Promote], web.lowest),
            (10, Some(0.25))
        );
        assert_eq!((web.short, web.short_seconds), (2, 3.0));
        let program = &web.uncovered[0];
        assert_eq!(
            (program.name.as_str(), program.base()),
            ("server", 3 * GIB / 2)
        );
    }

    #[test]
    fn a_slot_ends_with_the_first_look_after_it() {
        let mut day = Day::default();
        assert!(day.add(&at(look("web", 4, 1), 299)).is_none());
        let ended = day.add(&at(look("web", 4, 2), 301));
        let ended = slot(&ended.expect("a slot ended"));
        assert_eq!((ended.start, ended.selections[0].huge), (1_800_000_000, 1));
        assert_eq!(day.lines().len(), 2);
        // The clock is set back: nothing is told twice.
        assert!(day.add(&at(look("web", 4, 2), 100)).is_none());
        assert_eq!(day.lines().len(), 2);
    }

    #[test]
    fn a_restart_goes_on_with_the_slot_that_it_finds() {
        let mut before = Day::default();
        let mut one = look("web", 4, 1);
        one.selections[0].done.done[ActionKind::Promote] = 5;
        before.add(&at(one.clone(), 10));
        let kept: Vec<String> = before.lines().iter().map(|line| line.to_string()).collect();
        let mut day = Day::of(&kept);
        one.selections[0].done.done[ActionKind::Promote] = 2;
        assert!(day.add(&at(one.clone(), 20)).is_none());
        assert_eq!(day.lines().len(), 1);
        let slot = slots(&day).pop().expect("a slot");
        assert_eq!(slot.selections[0].done.done[ActionKind::Promote], 7);
        assert_eq!(slot.seconds, 2.0);
    }

    #[test]
    fn a_selection_that_begins_anew_loses_no_counts() {
        let mut day = Day::default();
        let with = |steps, promoted| {
            let mut one = look("web", 4, 1);
            one.selections[0].done.steps = steps;
            one.selections[0].done.done[ActionKind::Promote] = promoted;
            one
        };
        day.add(&at(with(100, 50), 0));
        day.add(&at(with(3, 4), 10));
        day.add(&at(with(9, 5), 20));
        let slot = slots(&day).pop().expect("a slot");
        assert_eq!(slot.selections[0].done.done[ActionKind::Promote], 55);
    }

    #[test]
    fn the_largest_slot_takes_as_much_as_is_documented() {
        use super::super::look::MOST_SELECTIONS;
        let mut one = look("a selection with a rather long name", 4 * GIB, GIB);
        let mut selection = one.selections.remove(0);
        let all = ["none", "partly_mapped", "swapped"].map(|name| (name.to_owned(), u64::MAX / 2));
        selection.rest = all.clone().into();
        selection.uncovered = (0..PROGRAMS)
            .map(|number| Uncovered {
                name: format!("fifteen-bytes-{number}"),
                mapped: u64::MAX / 2,
                huge: 0,
                wanted: u64::MAX / 2,
                rest: all.clone().into(),
            })
            .collect();
        one.selections = vec![selection; MOST_SELECTIONS];
        for (number, selection) in one.selections.iter_mut().enumerate() {
            selection.name += &number.to_string();
        }
        let mut day = Day::default();
        day.add(&at(one, 0));
        let line = day.last_line().expect("a slot");
        assert!(line.len() < 64 << 10, "{}", line.len());
    }

    proptest! {
        #[test]
        fn a_day_is_bounded_and_counts_everything_once(
            looks in prop::collection::vec((0..2000_u64, 0..50_u64, 0..=100_u64), 1..400),
        ) {
            let mut day = Day::default();
            let (mut second, mut promoted, mut ended) = (0, 0, Vec::new());
            for (pause, more, huge) in looks {
                second += pause;
                promoted += more;
                let mut one = look("web", 100, huge);
                one.selections[0].done.done[ActionKind::Promote] = promoted;
                ended.extend(day.add(&at(one, second)));
            }
            let all = slots(&day);
            prop_assert!(all.len() <= SLOTS);
            prop_assert!(all.windows(2).all(|pair| pair[0].start < pair[1].start));
            let last = all.last().unwrap();
            prop_assert!(last.start - all[0].start < 24 * 3600);
            let ended = ended.iter().map(|line| slot(line));
            let counted: u64 = ended
                .chain([last.clone()])
                .map(|slot| slot.selections[0].done.done[ActionKind::Promote])
                .sum();
            prop_assert_eq!(counted, promoted);
            for slot in all {
                let web = &slot.selections[0];
                prop_assert!(web.huge <= web.mapped && web.mapped == 100);
            }
        }
    }
}
