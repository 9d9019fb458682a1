//! What huge pages are worth for each process, and how many of its promotions are paid back.
//!
//! What has lived for a time is expected to live for about as long again. So a translation less is worth what it saves in that time, or
//! in the horizon where that is shorter. The process may end at once all the same, and then the price of its promotions is lost. So:
//!
//! - What is paid back [soon](SOON) after the start is promoted in one go: a program that lives for a few seconds has it back.
//! - Else promotions go no further ahead of what they have saved than a [small part](DEBT) of the time that the process has lived
//!   beyond that. The more is huge, the more is saved, and the faster it goes on.
//!
//! Where nobody can measure what a process would gain, a usual value stands in, and none of that is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::Interval;
use crate::gain::{Circumstances, Gain, HAS_GROWN, MEASURE_AGAIN, Price};
use crate::observation::{Observation, ProcessObservation, RegionObservation};
use crate::page::{BASE_PAGE_SIZE, REGIONS_PER_SPAN};
use crate::process::ProcessId;

use super::deal::Terms;
use super::usual::Usual;

/// CPU seconds that a process must have had since it was measured, to be measured again, so that measurements take half a percent of
/// them.
const MEASURE_AFTER: f64 = 12.0;
/// A process is at work while it uses at least this part of one CPU, or of what it has used in the mean since it started where that is
/// less. One that rests is not measured again: that would tell nothing of what it gains.
const AT_WORK: f64 = 0.5;
/// CPU seconds of a measurement of a process that uses a CPU: up to 0.03 of the manager's, and about as much of its own (1 GiB, a 2-core
/// virtual machine, Linux 6.18).
const MEASUREMENT: f64 = 0.06;
/// CPU seconds to find out what a process accesses: for each mapped base page to clear its bit, and for each that the process touches to
/// set it again (16 and 60 ms a GiB on a 2-core virtual machine, Linux 6.18). What follows is bounded by itself.
const CLEAR: f64 = 0.06e-6;
const SET_AGAIN: f64 = 0.24e-6;

/// What is paid back before a process has this age, in seconds, is paid back soon: if it lives for five, it has it back and the time that
/// promoting took.
const SOON: f64 = 4.5;

/// What promotions may cost beyond what they have saved, with all that it takes to decide on them: CPU time, by that which the process has
/// had since it was as old as it takes until one is paid back. What is huge by then saves ever more. So whenever the process ends, it has
/// lost 1.25 % of its time at most (the property `a_program_that_ends_at_any_time_has_lost_little`).
const DEBT: f64 = 0.0125;

/// The share of what could be promoted that counts as nearly all of it. The meter finds 0.97 to 1 where a program touches its memory
/// at random (random and chase in `docs/results/worth/report.md`).
const NEARLY_ALL: f64 = 0.75;

/// What a process has in huge pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    /// Regions mapped by huge pages.
    pub(super) regions: usize,
    /// Translations that their promotions took away.
    pub(super) translations: f64,
}

/// What promotions could still do for a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// Translations that they would take away.
    pub(super) translations: f64,
    /// The most that one of them would.
    pub(super) best: f64,
    /// Whether that is what is accessed; else all that is mapped.
    pub(super) is_known: bool,
}

/// What promotions are offered to a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) terms: Terms,
    /// How many may be made now.
    pub(super) affordable: usize,
}

/// What is known of the processes that were seen.
#[derive(Debug, Default)]
pub(super) struct Paybacks {
    lives: BTreeMap<ProcessId, Life>,
}

/// There may be many thousands that rest: what only measured ones have is apart.
#[derive(Clone, Debug, Default)]
struct Life {
    /// Seconds since it started, as far as that is known; since it was first observed where it is not.
    lived: f64,
    /// CPU seconds that it has had since it started; `None` where that is not known.
    worked: Option<f64>,
    /// Whether it rested in the last interval, as far as that is known.
    rested: bool,
    /// What was huge at the last observation.
    made: Made,
    huge: Option<Box<Measured>>,
    giant: Option<Box<Measured>>,
    asked: Asked,
    /// CPU seconds that measurements cost, and promotions since the first one; and what those saved since.
    spent: f64,
    saved: f64,
    /// What was promoted before the last measurement saves, in CPU seconds a second.
    saving: f64,
    /// Whether promotions are affordable, for which it may have to be known what it accesses.
    is_watched: bool,
    /// Whether that was known at the last decision.
    is_known: bool,
    /// Whether that was known last though it was not watched: it rested.
    is_known_by_rest: bool,
    /// Whether it was to be watched from the last observation on, so that this one knows what it accessed.
    was_watched: bool,
    /// Whether a glance has shown what of it is in use, and whether that at the last observation did.
    was_glanced_at: bool,
    is_shown: bool,
}

/// What has to be known first, as of the last decision: what so many translations are worth, of base pages or of huge ones.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    huge: Option<f64>,
    giant: Option<f64>,
    /// Whether it waits to know what it takes to have a block backed.
    price: bool,
}

/// What one page size would gain a process in place of the next smaller one.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// How long it had lived then, in seconds, and how long it had worked.
    at: f64,
    worked: Option<f64>,
    /// `None` where it could not be measured.
    gain: Option<Gain>,
    /// Translations that promotions had taken away by then.
    made: f64,
    /// Translations that could be taken away then.
    left: f64,
    /// Whether it touched nearly all that it had, so that no region is worth much more than another, and it need not be known which
    /// ones are in use.
    uses_all: bool,
    /// Translations that the gain is about, as seen since: what was not there when it was measured has its share in it.
    translations: Usual,
    /// Base pages that it kept touching while it was measured. The gain may be in these alone, until a glance shows what is hot.
    working_set: f64,
    was_glanced_at: bool,
    /// CPU seconds that it takes to clear the bits of all that is mapped, as of when it was not yet known what of it is in use.
    clearing: f64,
}

impl Measured {
    /// Whether it should be measured again, of a process that has lived so far and has so much left.
    fn is_old(&self, life: &Life, left: f64) -> bool {
        let cpus = self.gain.map_or(1.0, |gain| gain.cpus.max(1.0));
        let worked = life.worked.zip(self.worked);
        let worked_since =
            worked.map_or((life.lived - self.at) * cpus, |(now, before)| now - before);
        let has_worked = worked.is_some_and(|(now, before)| now >= before * MEASURE_AGAIN);
        let is_due = has_worked || life.lived >= self.at * MEASURE_AGAIN;
        let has_grown = left >= self.left * HAS_GROWN;
        is_due && !life.rested && (worked_since >= MEASURE_AFTER || has_grown)
    }

    /// The same where nobody knows what the process accesses, but what of its base pages it keeps touching.
    fn of_working_set(self) -> Self {
        Measured {
            uses_all: self.working_set >= NEARLY_ALL * self.left,
            translations: Usual::new(self.left.min(self.working_set)),
            ..self
        }
    }

    /// CPU seconds that it takes to find out what of it is in use.
    fn watching(&self) -> f64 {
        self.clearing + SET_AGAIN * self.fewest()
    }

    /// The fewest translations that the gain may be in.
    fn fewest(&self) -> f64 {
        let all = self.translations.all();
        if self.was_glanced_at {
            all
        } else {
            all.min(self.working_set).max(1.0)
        }
    }

    /// Translations that promotions took away since.
    fn made_since(&self, made: f64) -> f64 {
        (made - self.made).max(0.0)
    }

    /// Where all translations save so much a second, for a process that is expected to live for so many more.
    fn terms(&self, saved_a_second: f64, expected: f64, copy: f64) -> Terms {
        terms_of(self.translations.all(), saved_a_second, expected, copy)
    }
}

/// Where so many translations save so much a second.
fn terms_of(translations: f64, saved_a_second: f64, expected: f64, copy: f64) -> Terms {
    Terms::measured(saved_a_second / translations * expected, copy)
}

impl Life {
    /// An interval of so many seconds passes, at whose end it has had so much CPU time and so much is huge.
    #[allow(clippy::cast_precision_loss)]
    fn pass(&mut self, interval: f64, worked: Option<f64>, made: Made, price: &Price) {
        let known = self.huge.as_deref().copied();
        if let Some((measured, gain)) = known.and_then(|known| Some((known, known.gain?))) {
            let promotions = made.regions.saturating_sub(self.made.regions) as f64;
            self.spent += promotions * price.cpu_seconds(&gain);
            let mean = f64::midpoint(self.made.translations, made.translations);
            self.saved += self.saving_of(&measured, &gain, mean) * interval;
        }
        self.lived += interval;
        let before = std::mem::replace(&mut self.worked, worked);
        let worked_now = worked.zip(before).map(|(now, before)| now - before);
        self.rested = worked_now.is_some_and(|now| now < self.work_in(interval));
        self.made = made;
        self.asked = Asked::default();
    }

    /// CPU seconds that it has at least in such an interval while it is at work.
    fn work_in(&self, interval: f64) -> f64 {
        let mean = self.worked.map_or(0.0, |worked| worked / self.lived);
        AT_WORK * mean.min(1.0) * interval
    }

    /// Decides whether to watch it, where so many promotions may be affordable, `None` if none pays, and it is shown already what is hot
    /// or not.
    fn watch_for(&mut self, promotions: Option<usize>, is_shown: bool, knows_blocks: bool) {
        // To find out what is in use takes more than to keep knowing it.
        let is_worth_it = promotions.is_some_and(|count| count > 0 || self.is_watched);
        // What is known of no block may turn out ten times as dear, and then it would have been watched for nothing.
        let may_watch = self.is_watched || knows_blocks;
        self.is_watched = is_worth_it && may_watch;
        self.asked.price = is_worth_it && !may_watch && !is_shown;
    }

    /// What promotions that took away so many translations save, in CPU seconds a second.
    fn saving_of(&self, measured: &Measured, gain: &Gain, made: f64) -> f64 {
        let kept = (made / measured.made.max(1.0)).min(1.0);
        let share = (measured.made_since(made) / measured.translations.all()).min(1.0);
        kept * self.saving + share * gain.saved_share.value.max(0.0) * gain.cpus
    }

    /// How many promotions are affordable, of which the best is paid back in so many seconds at the `soonest`: where the process gains
    /// the most that its measurement does not rule out. To promote all in one go takes more: that it is paid back soon by what the
    /// process most likely gains.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn affordable(&self, soonest: f64, copy: f64, watching: f64, gain: &Gain) -> usize {
        let share = gain.saved_share;
        let likely = soonest * share.high / share.value;
        if self.lived + likely <= SOON {
            return usize::MAX;
        }
        let room = self.saved + DEBT * gain.cpus * (self.lived - soonest) - self.spent - watching;
        (room / copy) as usize
    }
}

impl Paybacks {
    /// Brings it up to an observation, in which so much of each process is huge.
    pub(super) fn update(
        &mut self,
        observation: &Observation,
        made: impl Fn(ProcessId) -> Made,
        price: &Price,
    ) {
        let interval = observation.interval.as_secs_f64();
        self.lives
            .retain(|process, _| observation.process(*process).is_some());
        for observed in &observation.processes {
            let made = made(observed.process);
            let worked = observed.cpu_time.map(|time| time.as_secs_f64());
            let new = || Life {
                worked,
                made,
                ..Life::default()
            };
            self.lives
                .entry(observed.process)
                .and_modify(|life| life.pass(interval, worked, made, price))
                .or_insert_with(new);
        }
    }

    /// What is known of a process whose gain can be measured.
    fn measurable(
        &mut self,
        process: ProcessId,
        circumstances: &Circumstances,
    ) -> Option<&mut Life> {
        let known = self.lives.get_mut(&process);
        known.filter(|_| circumstances.measures)
    }

    /// What promotions to huge pages are worth for a process of which so much is `left`; nothing as long as that is not known, or not what
    /// it accesses. Notes what should be measured, and whether it should be watched, to know.
    pub(super) fn offer(
        &mut self,
        process: ProcessId,
        left: Left,
        horizon: f64,
        circumstances: &Circumstances,
    ) -> Option<Offer> {
        let price = &circumstances.price;
        let usual = Offer {
            terms: Terms::usual(price),
            affordable: usize::MAX,
        };
        let Some(life) = self.measurable(process, circumstances) else {
            return Some(usual);
        };
        let was_known = std::mem::replace(&mut life.is_known, left.is_known);
        let Some(measured) = &mut life.huge else {
            life.asked.huge = Some(left.translations);
            return None;
        };
        let Some(gain) = measured.gain else {
            return Some(usual);
        };
        let seen = left.translations + measured.made_since(life.made.translations);
        let is_known = left.is_known || measured.uses_all;
        let is_news = left.is_known && !was_known && !measured.uses_all;
        if is_news && life.is_watched {
            life.spent += measured.clearing + SET_AGAIN * seen;
        }
        match is_known {
            true if is_news => measured.translations = Usual::new(seen),
            true if life.rested => {}
            true => measured.translations.see(seen),
            false => measured.clearing = CLEAR * seen,
        }
        let measured = **measured;
        // The meter may miss touches: only what surely is not paid back is left alone.
        let expected = life.lived.min(horizon);
        let copy = price.cpu_seconds(&gain);
        let terms = measured.terms(gain.saved_at_most(), expected, copy);
        let affordable = |terms: &Terms| {
            let best = terms.promotion(left.best + 1.0, 0, 0.0);
            let soonest = expected * best.price / best.gain;
            let watching = if is_known { 0.0 } else { measured.watching() };
            let affordable = life.affordable(soonest, copy, watching, &gain);
            best.pays().then_some(affordable)
        };
        let hoped_for = affordable(&terms_of(
            measured.fewest(),
            gain.saved_at_most(),
            expected,
            copy,
        ));
        let affordable = affordable(&terms);
        // Where it uses all of its memory there is nothing to find out.
        let hoped_for = hoped_for.filter(|_| !measured.uses_all);
        let is_shown = is_known && measured.was_glanced_at;
        life.watch_for(hoped_for, is_shown, circumstances.knows_blocks);
        // It may have rested while it was measured, and gain more at other times.
        if affordable.is_none_or(|promotions| promotions == 0)
            && measured.is_old(life, left.translations)
        {
            life.asked.huge = Some(left.translations);
        }
        let affordable = affordable.filter(|_| is_known)?;
        Some(Offer { terms, affordable })
    }

    /// What a giant page is worth for a process that has so many huge pages in use; `None` as long as that is not known.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn giant_terms(
        &mut self,
        process: ProcessId,
        in_use: usize,
        horizon: f64,
        circumstances: &Circumstances,
    ) -> Option<Terms> {
        let price = &circumstances.price;
        let usual = Some(Terms::usual_of_huge_pages(price));
        let in_use = in_use as f64;
        let Some(life) = self.measurable(process, circumstances) else {
            return usual;
        };
        let Some(measured) = &mut life.giant else {
            life.asked.giant = Some(in_use);
            return None;
        };
        let Some((gain, share)) = measured
            .gain
            .and_then(|gain| Some((gain, gain.saved_by_giant_share?)))
        else {
            return usual;
        };
        measured.translations.see(in_use);
        let measured = **measured;
        let saved = share.high * gain.cpus;
        let expected = life.lived.min(horizon);
        let terms = measured.terms(saved, expected, price.cpu_seconds(&gain));
        if !terms.promotion_to_giant(REGIONS_PER_SPAN).pays() && measured.is_old(life, in_use) {
            life.asked.giant = Some(in_use);
        }
        Some(terms)
    }

    /// What is known of what a translation is worth for a process.
    pub(super) fn terms(&self, process: ProcessId, horizon: f64, price: &Price) -> Terms {
        let known = self.lives.get(&process).and_then(|life| {
            let measured = life.huge.as_deref()?;
            let gain = measured.gain?;
            let saved = gain.saved_at_most();
            let expected = life.lived.min(horizon);
            let copy = price.cpu_seconds(&gain);
            Some(measured.terms(saved, expected, copy))
        });
        known.unwrap_or(Terms::usual(price))
    }

    /// What of a process is in use, as an observation's glance shows; empty where it shows nothing at this time. `None` where no glance has
    /// shown anything, or the whole interval was a moment: then what was accessed in it says what is in use. A glance at a process that
    /// rested meanwhile shows nothing.
    pub(super) fn moment<'a>(
        &mut self,
        observed: &ProcessObservation,
        observation: &'a Observation,
    ) -> Option<&'a [RegionObservation]> {
        let life = self.lives.get_mut(&observed.process)?;
        let glance = observation.glance(observed.process).filter(|glance| {
            let work = life.work_in(glance.length.as_secs_f64());
            glance
                .worked
                .is_none_or(|worked| worked.as_secs_f64() >= work)
        });
        life.is_shown = glance.is_some();
        life.was_glanced_at |= life.is_shown;
        if let Some(measured) = &mut life.huge {
            measured.was_glanced_at |= life.is_shown;
        }
        let is_moment = Interval::is_moment(observation.interval);
        match glance {
            Some(glance) => Some(&glance.regions),
            None => (life.was_glanced_at && !is_moment).then_some(&[]),
        }
    }

    /// The processes of which the glance of the last observation showed what is in use.
    pub(super) fn shown(&self) -> BTreeSet<ProcessId> {
        let shown = self.lives.iter().filter(|(_, life)| life.is_shown);
        shown.map(|(process, _)| *process).collect()
    }

    /// Whether promotions are affordable for one, so that it is worth knowing what of it is hot.
    pub(super) fn glance(&self) -> bool {
        self.lives.values().any(|life| life.is_watched)
    }

    /// Whether it has to be known what a process accesses: where promotions are affordable, or some were made, unless it was measured to
    /// access nearly all that it has; and where nobody can say what they gain.
    pub(super) fn watches(&self, process: ProcessId) -> bool {
        self.lives.get(&process).is_some_and(|life| {
            let is_of_use = life.is_watched || life.made.regions > 0;
            match life.huge.as_deref() {
                None => is_of_use,
                Some(measured) if measured.gain.is_none() => true,
                Some(measured) => is_of_use && !measured.uses_all,
            }
        })
    }

    /// Whether a process has come to work, unwatched, since what it accesses was known last by its rest: so what is remembered of that says
    /// nothing of it now. Told at each observation whether what it accessed is known.
    pub(super) fn has_come_to_work(&mut self, process: ProcessId, accesses_known: bool) -> bool {
        let is_watched = self.watches(process);
        let Some(life) = self.lives.get_mut(&process) else {
            return false;
        };
        let was_watched = std::mem::replace(&mut life.was_watched, is_watched);
        let is_known_by_rest = accesses_known && !was_watched;
        let rested = std::mem::replace(&mut life.is_known_by_rest, is_known_by_rest);
        rested && !accesses_known
    }

    /// Those that should be measured, as of the last decision.
    pub(super) fn unmeasured(&self) -> Vec<ProcessId> {
        let is_asked = |life: &Life| life.asked.huge.or(life.asked.giant).is_some();
        let asked = self.lives.iter().filter(|(_, life)| is_asked(life));
        asked.map(|(process, _)| *process).collect()
    }

    /// Whether one of them waits to know what it takes to have a block backed, as of the last decision.
    pub(super) fn ask_for_price(&self) -> bool {
        self.lives.values().any(|life| life.asked.price)
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn learn(&mut self, process: ProcessId, gain: Option<Gain>, age: Duration) {
        let Some(life) = self.lives.get_mut(&process) else {
            return;
        };
        life.lived = life.lived.max(age.as_secs_f64());
        if let (Some(measured), Some(_)) = (life.huge.as_deref(), life.asked.huge) {
            let saving = |gain| life.saving_of(measured, &gain, life.made.translations);
            life.saving = measured.gain.map_or(0.0, saving);
        }
        let (at, worked) = (life.lived, life.worked);
        let (made, is_known) = (life.made.translations, life.is_known);
        let measured = |left| Measured {
            // A process that lives for a moment only is not measured again at once.
            at: at.max(1.0),
            worked: worked.map(|worked| worked.max(1.0)),
            gain,
            made,
            left,
            uses_all: false,
            translations: Usual::new(left),
            working_set: gain.map_or(left, |gain| (gain.working_set / BASE_PAGE_SIZE) as f64),
            was_glanced_at: false,
            clearing: 0.0,
        };
        // What is mapped may be far more than what is used.
        let of_base_pages = |left| match gain {
            Some(_) if !is_known => measured(left).of_working_set(),
            _ => measured(left),
        };
        if let Some(left) = life.asked.huge {
            life.huge = Some(Box::new(of_base_pages(left)));
        }
        if let Some(in_use) = life.asked.giant {
            life.giant = Some(Box::new(measured(in_use)));
        }
        life.spent += gain.map_or(0.0, |gain| MEASUREMENT * gain.cpus.min(1.0));
        life.asked = Asked::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worth::Estimate;

    const PROCESS: ProcessId = ProcessId {
        pid: 1,
        start_time: 1,
    };

    fn gain(cpus: f64) -> Gain {
        Gain {
            saved_share: Estimate::exact(0.3),
            cpus,
            cost_cpu_seconds: 1.0,
            payback_seconds: None,
            saved_by_giant_share: None,
            working_set: 0,
        }
    }

    /// A process 100 seconds old, whose promotions have not yet saved what they cost. It was measured at that age.
    fn in_debt(at: f64, gain: Gain) -> Paybacks {
        let made = Made {
            regions: 1,
            translations: 500.0,
        };
        let measured = Measured {
            at,
            worked: None,
            gain: Some(gain),
            made: 0.0,
            left: 1e3,
            uses_all: false,
            translations: Usual::new(1e3),
            working_set: 1e3,
            was_glanced_at: false,
            clearing: 0.0,
        };
        let life = Life {
            lived: 100.0,
            made,
            huge: Some(Box::new(measured)),
            spent: 9.0,
            saved: 1.0,
            is_known: true,
            ..Life::default()
        };
        Paybacks {
            lives: [(PROCESS, life)].into(),
        }
    }

    /// Where the gain can be measured, and a CPU is idle.
    fn measuring() -> Circumstances {
        let price = Price {
            busy: 0.0,
            ..Price::default()
        };
        Circumstances {
            measures: true,
            price,
            ..Circumstances::default()
        }
    }

    fn affordable(paybacks: &mut Paybacks) -> usize {
        let left = Left {
            translations: 500.0,
            best: 500.0,
            is_known: true,
        };
        let offer = paybacks.offer(PROCESS, left, 600.0, &measuring());
        offer.unwrap().affordable
    }

    /// One that goes over all of its memory at times has its gain in what it uses else, but for the moment.
    #[test]
    fn the_gain_is_in_what_is_usually_in_use() {
        let look = |paybacks: &mut Paybacks, translations| {
            let left = Left {
                translations,
                best: 50.0,
                is_known: true,
            };
            let offer = paybacks.offer(PROCESS, left, 600.0, &measuring()).unwrap();
            offer.terms.translation
        };
        let mut paybacks = in_debt(100.0, gain(1.0));
        let usual = look(&mut paybacks, 1e3);
        (0..8).for_each(|_| assert_eq!(look(&mut paybacks, 1e3), usual));
        let over_all = look(&mut paybacks, 1e4);
        assert!(over_all <= usual / 5.0, "{over_all}, {usual}");
        let after = look(&mut paybacks, 1e3);
        assert!(after >= usual / 2.0, "{after}, {usual}");
    }

    /// One that was measured at this age and after so much CPU time, and then used so much of a CPU until it is 100 seconds old.
    fn at_work(at: f64, worked: f64, cpus: f64) -> Paybacks {
        let mut paybacks = in_debt(at, gain(1.0));
        let life = paybacks.lives.get_mut(&PROCESS).unwrap();
        life.huge.as_deref_mut().unwrap().worked = Some(worked);
        life.lived = at;
        life.worked = Some(worked);
        let made = life.made;
        let now = worked + (100.0 - at) * cpus;
        life.pass(100.0 - at, Some(now), made, &Price::default());
        life.saved = 1.0;
        paybacks
    }

    #[test]
    fn a_process_that_rested_is_measured_again_when_it_has_worked_twice_as_long() {
        for (at, worked, cpus, asked) in [
            (80.0, 10.0, 1.0, [PROCESS].as_slice()),
            // Not twice as long yet.
            (80.0, 30.0, 1.0, &[]),
            // Not for twelve seconds since.
            (80.0, 1.0, 0.5, &[]),
            (80.0, 1.0, 0.7, &[PROCESS]),
            // Twice as old, and not for twelve seconds.
            (50.0, 40.0, 0.1, &[]),
            (50.0, 40.0, 0.5, &[PROCESS]),
        ] {
            let mut paybacks = at_work(at, worked, cpus);
            assert_eq!(affordable(&mut paybacks), 0);
            assert_eq!(paybacks.unmeasured(), asked, "{at}, {worked}, {cpus}");
        }
    }

    #[test]
    fn a_process_is_not_measured_while_it_rests() {
        // In the mean it used 0.3 of a CPU, or eight.
        for (worked, then, cpus, asked) in [
            (10.0, 1.0, 0.1, [].as_slice()),
            (10.0, 1.0, 0.4, &[PROCESS]),
            (400.0, 20.0, 0.4, &[]),
            (400.0, 20.0, 0.6, &[PROCESS]),
        ] {
            let mut paybacks = at_work(80.0, worked, then);
            let life = paybacks.lives.get_mut(&PROCESS).unwrap();
            let (made, worked) = (life.made, life.worked.unwrap());
            life.pass(1.0, Some(worked + cpus), made, &Price::default());
            assert_eq!(affordable(&mut paybacks), 0);
            assert_eq!(paybacks.unmeasured(), asked, "{worked}, {cpus}");
        }
    }

    /// It may have rested when it was measured last.
    #[test]
    fn a_process_in_debt_is_measured_again_when_it_is_twice_as_old() {
        for (at, asked) in [(50.0, [PROCESS].as_slice()), (51.0, &[])] {
            let mut paybacks = in_debt(at, gain(1e-3));
            assert_eq!(affordable(&mut paybacks), 0);
            assert_eq!(paybacks.unmeasured(), asked);
        }
    }

    #[test]
    fn what_was_promoted_before_a_measurement_goes_on_to_save() {
        let mut paybacks = in_debt(50.0, gain(1.0));
        assert_eq!(affordable(&mut paybacks), 0);
        paybacks.learn(PROCESS, Some(gain(1e-3)), Duration::ZERO);
        let life = &paybacks.lives[&PROCESS];
        let after = |made| {
            let mut life = life.clone();
            life.pass(20.0, None, made, &Price::default());
            life
        };
        // Half of all translations, each second 0.3 of a CPU.
        let later = after(life.made);
        assert!((later.saved - 4.0).abs() < 1e-9, "{}", later.saved);
        // What is unmapped saves nothing more.
        let gone = after(Made::default());
        assert!((gone.saved - 2.5).abs() < 1e-9, "{}", gone.saved);
    }

    #[test]
    fn one_that_was_never_measured_takes_little_memory() {
        assert!(size_of::<Life>() <= 128, "{} bytes", size_of::<Life>());
    }
}
