//! What was measured that one page size would gain a process in place of the next smaller one.

use crate::gain::{Gain, HAS_GROWN, MEASURE_AGAIN};

use super::deal::Terms;
use super::life::Life;
use super::usual::Usual;

/// CPU seconds that a process must have had since it was measured, to be measured again, so that measurements take half a percent of
/// them.
const MEASURE_AFTER: f64 = 12.0;
/// CPU seconds to find out what a process accesses: for each mapped base page to clear its bit, and for each that the process touches to
/// set it again (16 and 60 ms a GiB on a 2-core virtual machine, Linux 6.18). What follows is bounded by itself.
const CLEAR: f64 = 0.06e-6;
const SET_AGAIN: f64 = 0.24e-6;

/// The share of what could be promoted that counts as nearly all of it. The meter finds 0.97 to 1 where a program touches its memory
/// at random (random and chase in `docs/results/worth/report.md`).
const NEARLY_ALL: f64 = 0.75;

/// What one page size would gain a process in place of the next smaller one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// How long it had lived then, in seconds, and how long it had worked.
    pub(super) at: f64,
    pub(super) worked: Option<f64>,
    /// `None` where it could not be measured.
    pub(super) gain: Option<Gain>,
    /// Translations that promotions had taken away by then.
    pub(super) made: f64,
    /// Translations that could be taken away then.
    pub(super) left: f64,
    /// Whether it touched nearly all that it had, so that no region is worth much more than another, and it need not be known which
    /// ones are in use.
    pub(super) uses_all: bool,
    /// Translations that the gain is about, as seen since: what was not there when it was measured has its share in it.
    pub(super) translations: Usual,
    /// Base pages that it kept touching while it was measured. The gain may be in these alone, until a glance shows what is hot.
    pub(super) working_set: f64,
    pub(super) was_glanced_at: bool,
    /// CPU seconds that it takes to clear the bits of all that is mapped, as of when it was not yet known what of it is in use.
    pub(super) clearing: f64,
}

impl Measured {
    /// Whether it should be measured again, of a process that has lived so far and has so much left.
    pub(super) fn is_old(&self, life: &Life, left: f64) -> bool {
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
    pub(super) fn of_working_set(self) -> Self {
        Measured {
            uses_all: self.working_set >= NEARLY_ALL * self.left,
            translations: Usual::new(self.left.min(self.working_set)),
            ..self
        }
    }

    /// CPU seconds that it takes to find out what of it is in use.
    pub(super) fn watching(&self) -> f64 {
        self.watching_of(self.fewest())
    }

    /// The same where it touches so many pages.
    pub(super) fn watching_of(&self, touched: f64) -> f64 {
        self.clearing + SET_AGAIN * touched
    }

    /// It maps so many pages, whose bits would have to be cleared.
    pub(super) fn maps(&mut self, pages: f64) {
        self.clearing = CLEAR * pages;
    }

    /// The fewest translations that the gain may be in.
    pub(super) fn fewest(&self) -> f64 {
        let all = self.translations.all();
        if self.was_glanced_at {
            all
        } else {
            all.min(self.working_set).max(1.0)
        }
    }

    /// Translations that promotions took away since.
    pub(super) fn made_since(&self, made: f64) -> f64 {
        (made - self.made).max(0.0)
    }

    /// Where all translations save so much a second, for a process that is expected to live for so many more.
    pub(super) fn terms(&self, saved_a_second: f64, expected: f64, copy: f64) -> Terms {
        terms_of(self.translations.all(), saved_a_second, expected, copy)
    }
}

/// Where so many translations save so much a second.
pub(super) fn terms_of(translations: f64, saved_a_second: f64, expected: f64, copy: f64) -> Terms {
    Terms::measured(saved_a_second / translations * expected, copy)
}
