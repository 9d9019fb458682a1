//! What huge pages are worth for each process, what is offered to it by that, and what has to be found out first.
//!
//! Where nobody can measure what a process would gain, a usual value stands in, and none of that is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::Interval;
use crate::gain::{Circumstances, Gain, Price};
use crate::observation::{Observation, ProcessObservation, RegionObservation};
use crate::page::{BASE_PAGE_SIZE, REGIONS_PER_SPAN};
use crate::process::ProcessId;

use super::deal::Terms;
use super::life::{Asked, Life, Made};
use super::measured::{Measured, terms_of};
use super::usual::Usual;

/// CPU seconds of a measurement of a process that uses a CPU: up to 0.03 of the manager's, and about as much of its own (1 GiB, a 2-core
/// virtual machine, Linux 6.18).
const MEASUREMENT: f64 = 0.06;

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
            life.spent += measured.watching_of(seen);
        }
        match is_known {
            true if is_news => measured.translations = Usual::new(seen),
            true if life.rested => {}
            true => measured.translations.see(seen),
            false => measured.maps(seen),
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
