//! What is known of one process, and how many of its promotions are paid back.
//!
//! What has lived for a time is expected to live for about as long again. So a translation less is worth what it saves in that time, or
//! in the horizon where that is shorter. The process may end at once all the same, and then the price of its promotions is lost. So:
//!
//! - What is paid back [soon](SOON) after the start is promoted in one go: a program that lives for a few seconds has it back.
//! - Else promotions go no further ahead of what they have saved than a [small part](DEBT) of the time that the process has lived
//!   beyond that. The more is huge, the more is saved, and the faster it goes on.

use crate::gain::{Gain, Price};

use super::measured::Measured;

/// A process is at work while it uses at least this part of one CPU, or of what it has used in the mean since it started where that is
/// less. One that rests is not measured again: that would tell nothing of what it gains.
const AT_WORK: f64 = 0.5;

/// What is paid back before a process has this age, in seconds, is paid back soon: if it lives for five, it has it back and the time that
/// promoting took.
const SOON: f64 = 4.5;

/// What promotions may cost beyond what they have saved, with all that it takes to decide on them: CPU time, by that which the process has
/// had since it was as old as it takes until one is paid back. What is huge by then saves ever more. So whenever the process ends, it has
/// lost 1.25 % of its time at most (the property `a_program_that_ends_at_any_time_has_lost_little`).
const DEBT: f64 = 0.0125;

/// What a process has in huge pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    /// Regions mapped by huge pages.
    pub(super) regions: usize,
    /// Translations that their promotions took away.
    pub(super) translations: f64,
}

/// There may be many thousands that rest: what only measured ones have is apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// Seconds since it started, as far as that is known; since it was first observed where it is not.
    pub(super) lived: f64,
    /// CPU seconds that it has had since it started; `None` where that is not known.
    pub(super) worked: Option<f64>,
    /// Whether it rested in the last interval, as far as that is known.
    pub(super) rested: bool,
    /// What was huge at the last observation.
    pub(super) made: Made,
    pub(super) huge: Option<Box<Measured>>,
    pub(super) giant: Option<Box<Measured>>,
    pub(super) asked: Asked,
    /// CPU seconds that measurements cost, and promotions since the first one; and what those saved since.
    pub(super) spent: f64,
    pub(super) saved: f64,
    /// What was promoted before the last measurement saves, in CPU seconds a second.
    pub(super) saving: f64,
    /// Whether promotions are affordable, for which it may have to be known what it accesses.
    pub(super) is_watched: bool,
    /// Whether that was known at the last decision.
    pub(super) is_known: bool,
    /// Whether that was known last though it was not watched: it rested.
    pub(super) is_known_by_rest: bool,
    /// Whether it was to be watched from the last observation on, so that this one knows what it accessed.
    pub(super) was_watched: bool,
    /// Whether a glance has shown what of it is in use, and whether that at the last observation did.
    pub(super) was_glanced_at: bool,
    pub(super) is_shown: bool,
}

/// What has to be known first, as of the last decision: what so many translations are worth, of base pages or of huge ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) huge: Option<f64>,
    pub(super) giant: Option<f64>,
    /// Whether it waits to know what it takes to have a block backed.
    pub(super) price: bool,
}

impl Life {
    /// An interval of so many seconds passes, at whose end it has had so much CPU time and so much is huge.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn pass(&mut self, interval: f64, worked: Option<f64>, made: Made, price: &Price) {
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
    pub(super) fn work_in(&self, interval: f64) -> f64 {
        let mean = self.worked.map_or(0.0, |worked| worked / self.lived);
        AT_WORK * mean.min(1.0) * interval
    }

    /// Decides whether to watch it, where so many promotions may be affordable, `None` if none pays, and it is shown already what is hot
    /// or not.
    pub(super) fn watch_for(
        &mut self,
        promotions: Option<usize>,
        is_shown: bool,
        knows_blocks: bool,
    ) {
        // To find out what is in use takes more than to keep knowing it.
        let is_worth_it = promotions.is_some_and(|count| count > 0 || self.is_watched);
        // What is known of no block may turn out ten times as dear, and then it would have been watched for nothing.
        let may_watch = self.is_watched || knows_blocks;
        self.is_watched = is_worth_it && may_watch;
        self.asked.price = is_worth_it && !may_watch && !is_shown;
    }

    /// What promotions that took away so many translations save, in CPU seconds a second.
    pub(super) fn saving_of(&self, measured: &Measured, gain: &Gain, made: f64) -> f64 {
        let kept = (made / measured.made.max(1.0)).min(1.0);
        let share = (measured.made_since(made) / measured.translations.all()).min(1.0);
        kept * self.saving + share * gain.saved_share.value.max(0.0) * gain.cpus
    }

    /// How many promotions are affordable, of which the best is paid back in so many seconds at the `soonest`: where the process gains
    /// the most that its measurement does not rule out. To promote all in one go takes more: that it is paid back soon by what the
    /// process most likely gains.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn affordable(&self, soonest: f64, copy: f64, watching: f64, gain: &Gain) -> usize {
        let share = gain.saved_share;
        let likely = soonest * share.high / share.value;
        if self.lived + likely <= SOON {
            return usize::MAX;
        }
        let room = self.saved + DEBT * gain.cpus * (self.lived - soonest) - self.spent - watching;
        (room / copy) as usize
    }
}
