//! What `adaptive` remembers of one region.

use crate::observation::RegionObservation;
use crate::page::{PAGES_PER_REGION, PageSize, REGIONS_PER_SPAN};

/// Intervals after which a huge page that was looked into may be looked into again: a minute at 5 s.
const INSPECT_AGAIN: u8 = 12;
/// Intervals without an access after which a huge page is cold.
pub(super) const COLD_INTERVALS: u16 = 3;
/// Bounds how long a region that keeps changing its page size has to wait: 1024 intervals.
const MOST_CHANGES: u8 = 9;

/// What an observation knows of what a region accessed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Accesses<'a> {
    Unknown,
    /// What it accessed in the interval says how much of it is in use.
    InInterval,
    /// What it accessed in a moment says that.
    InMoment {
        /// `None` where it was not looked at this time.
        seen: Option<&'a RegionObservation>,
        /// Whether it is known, too, what it accessed in the interval.
        interval_is_known: bool,
    },
}

impl Accesses<'_> {
    /// Whether it is known what was accessed in the interval.
    fn know_interval(&self) -> bool {
        match self {
            Accesses::Unknown => false,
            Accesses::InInterval => true,
            Accesses::InMoment {
                interval_is_known, ..
            } => *interval_is_known,
        }
    }
}

/// What is remembered of one region.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// Base pages in use; `None` until accesses were seen. In whole intervals it is a mean, each halving the weight of the past; in moments
    /// it is the less of the last two. Of a huge page it means nothing.
    used: Option<f32>,
    /// Base pages accessed in the last moment that was looked at.
    in_moment: Option<u16>,
    /// Whole intervals survived since it appeared, or changed its page size.
    age: u16,
    mapped: u16,
    /// Base pages that its promotion added, while it is huge.
    bloat: u16,
    /// Translations that its promotion took away, while it is huge.
    saved: u16,
    /// Zero-filled base pages as last counted, unless it was accessed since.
    zero_filled: Option<u16>,
    /// Intervals in a row without an access to the huge page.
    idle: u8,
    /// Intervals until it may be looked into (again).
    inspect_in: u8,
    /// Times that it was promoted or demoted on this policy's wish.
    changes: u8,
    /// How often this policy had its span promoted to a giant page. Kept at the span's first region.
    giants: u8,
    page_size: PageSize,
    /// Whether this policy had it demoted.
    was_demoted: bool,
    /// Whether it was looked into at the last observation, which sets the Accessed bit.
    inspected: bool,
    /// Whether its span was searched for zero-filled huge pages since it was last accessed. Kept at the span's first
    /// region.
    searched: bool,
}

impl State {
    /// What to remember after an observation of the region, given what was remembered before: what is known of its accesses, and whether
    /// the interval counts.
    pub(super) fn next(
        before: Option<State>,
        region: &RegionObservation,
        accesses: Accesses<'_>,
        counts: bool,
    ) -> State {
        let mut state = match before {
            None => State::begin(region),
            Some(before) if before.is_remapped_as(region) => {
                before.go_on_as(region, accesses, counts)
            }
            Some(before) if before.page_size != region.page_size => before.begin_again(region),
            Some(before) if !before.survives_as(region) => State {
                changes: before.changes,
                giants: before.giants,
                was_demoted: before.was_demoted,
                ..State::begin(region)
            },
            Some(before) => before.survive(region, accesses, counts),
        };
        state.mapped = region.mapped;
        state.inspect_in = state.inspect_in.saturating_sub(counts.into());
        state.inspected = region.zero_filled.is_some();
        if state.inspected {
            state.zero_filled = region.zero_filled;
            state.inspect_in = INSPECT_AGAIN;
        }
        state
    }

    fn begin(region: &RegionObservation) -> State {
        State {
            used: None,
            in_moment: None,
            age: 0,
            mapped: region.mapped,
            bloat: 0,
            saved: 0,
            zero_filled: None,
            idle: 0,
            inspect_in: 0,
            changes: 0,
            giants: 0,
            page_size: region.page_size,
            was_demoted: false,
            inspected: false,
            searched: false,
        }
    }

    /// Another page size, so another history; what this policy did stays known.
    fn begin_again(self, region: &RegionObservation) -> State {
        State {
            bloat: if region.is_huge() { self.bloat } else { 0 },
            saved: if region.is_huge() { self.saved } else { 0 },
            changes: self.changes,
            giants: self.giants,
            was_demoted: self.was_demoted && !region.is_huge(),
            ..State::begin(region)
        }
    }

    /// Whether the same huge page is there, in a giant page now or in none any more.
    fn is_remapped_as(&self, region: &RegionObservation) -> bool {
        self.page_size != region.page_size && self.page_size > PageSize::Base && region.is_huge()
    }

    /// The same memory, so the same history; only how long it is mapped so begins anew.
    fn go_on_as(self, region: &RegionObservation, accesses: Accesses<'_>, counts: bool) -> State {
        State {
            age: 0,
            page_size: region.page_size,
            ..self.survive(region, accesses, counts)
        }
    }

    /// Whether the region can still hold the same memory: most of what it had mapped is still there.
    pub(super) fn survives_as(&self, region: &RegionObservation) -> bool {
        region.is_huge() || region.mapped >= self.mapped / 2
    }

    fn survive(
        mut self,
        region: &RegionObservation,
        accesses: Accesses<'_>,
        counts: bool,
    ) -> State {
        self.age = self.age.saturating_add(counts.into());
        if region.is_huge() && accesses.know_interval() {
            // After an inspection only the lack of an access means something.
            match (region.accessed > 0, self.inspected) {
                (false, _) => self.idle = self.idle.saturating_add(counts.into()),
                (true, true) => {}
                (true, false) => {
                    self.idle = 0;
                    self.zero_filled = None;
                    self.searched = false;
                }
            }
        } else if !region.is_huge() {
            self.see_use(region, accesses);
        }
        self
    }

    /// A page mapped since it was looked at before was accessed by being mapped.
    fn see_use(&mut self, region: &RegionObservation, accesses: Accesses<'_>) {
        let accessed = |seen: &RegionObservation, mapped| {
            let first_touches = seen.mapped.saturating_sub(mapped);
            seen.accessed.saturating_sub(first_touches)
        };
        match accesses {
            Accesses::InMoment {
                seen: Some(seen), ..
            } => {
                let used = accessed(seen, region.mapped);
                // Who goes over all of its memory at times does so once in many looks.
                let before = self.in_moment.replace(used).unwrap_or(used);
                self.used = Some(used.min(before).into());
            }
            Accesses::InMoment { .. } if self.in_moment.is_some() => {}
            _ if accesses.know_interval() => {
                let used = f32::from(accessed(region, self.mapped));
                self.used = Some(self.used.map_or(used, |before| f32::midpoint(before, used)));
            }
            _ => {}
        }
    }

    /// What was seen of its use says nothing any more.
    pub(super) fn forget_use(&mut self) {
        self.used = None;
        self.in_moment = None;
    }

    /// This policy had it promoted, which added `bloat` base pages; `None` where that was not seen.
    pub(super) fn promoted(&mut self, bloat: Option<u64>) {
        let most = PAGES_PER_REGION - self.mapped.min(PAGES_PER_REGION);
        self.bloat = bloat
            .and_then(|pages| u16::try_from(pages).ok())
            .unwrap_or(most);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let used = self.used() as u16;
        self.saved = used.saturating_sub(1);
        self.change();
    }

    /// This policy had it demoted.
    pub(super) fn demoted(&mut self) {
        self.was_demoted = true;
        self.zero_filled = None;
        self.change();
    }

    /// This policy had its span promoted to a giant page. Told to the span's first region.
    pub(super) fn promoted_giant(&mut self) {
        self.giants = self.giants.saturating_add(1);
    }

    /// Its span was searched for zero-filled huge pages. Told to the span's first region.
    pub(super) fn searched(&mut self) {
        self.searched = true;
    }

    pub(super) fn was_searched(&self) -> bool {
        self.searched
    }

    fn change(&mut self) {
        self.changes = self.changes.saturating_add(1);
        self.age = 0;
    }

    /// Whether it was seen what of it is in use.
    pub(super) fn is_seen(&self) -> bool {
        self.used.is_some()
    }

    /// Base pages in use. Where accesses are not known, all that are mapped.
    pub(super) fn used(&self) -> f64 {
        f64::from(self.used.unwrap_or(f32::from(self.mapped)))
    }

    /// Translations that the region takes of the TLB.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn translations(&self) -> f64 {
        match self.page_size {
            PageSize::Base => self.used(),
            PageSize::Huge => f64::from(u8::from(self.idle == 0)),
            PageSize::Giant => f64::from(u8::from(self.idle == 0)) / REGIONS_PER_SPAN as f64,
        }
    }

    /// Whether it is old enough to be promoted: `least` intervals, one more where its accesses are not
    /// known, and twice as many for each time that its page size was changed before.
    pub(super) fn is_settled(&self, least: u16) -> bool {
        let unknown = u16::from(self.used.is_none());
        self.age
            >= least
                .saturating_add(unknown)
                .saturating_add(patience(self.changes))
    }

    /// Whether it is a huge page that has been there for `least` intervals.
    pub(super) fn is_settled_huge(&self, least: u16) -> bool {
        self.page_size == PageSize::Huge && self.age >= least
    }

    /// Whether its span may be promoted to a giant page again, asked of the span's first region: `least`
    /// intervals after it became huge, and twice as many more for each time that this was done before.
    pub(super) fn may_become_giant(&self, least: u16) -> bool {
        self.is_settled_huge(least.saturating_add(patience(self.giants)))
    }

    pub(super) fn was_demoted(&self) -> bool {
        self.was_demoted
    }

    pub(super) fn bloat(&self) -> u16 {
        self.bloat
    }

    /// Translations that its promotion took away.
    pub(super) fn saved(&self) -> u16 {
        self.saved
    }

    pub(super) fn idle(&self) -> u8 {
        self.idle
    }

    /// Whether the huge page was not accessed for some intervals.
    pub(super) fn is_cold(&self) -> bool {
        u16::from(self.idle) >= COLD_INTERVALS
    }

    pub(super) fn zero_filled(&self) -> Option<u16> {
        self.zero_filled
    }

    pub(super) fn may_be_inspected(&self) -> bool {
        self.page_size == PageSize::Huge && self.inspect_in == 0
    }
}

/// Further intervals to wait after `changes`.
fn patience(changes: u8) -> u16 {
    if changes == 0 {
        0
    } else {
        2_u16 << changes.min(MOST_CHANGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Region;

    fn base(mapped: u16, accessed: u16) -> RegionObservation {
        RegionObservation {
            region: Region::containing(0),
            mapped,
            accessed,
            page_size: PageSize::Base,
            zero_filled: None,
            swapped: 0,
        }
    }

    fn huge(accessed: u16, zero_filled: Option<u16>) -> RegionObservation {
        RegionObservation {
            page_size: PageSize::Huge,
            zero_filled,
            swapped: 0,
            ..base(512, accessed)
        }
    }

    fn after(observations: &[RegionObservation]) -> State {
        observations
            .iter()
            .fold(None, |state, region| {
                Some(State::next(state, region, Accesses::InInterval, true))
            })
            .unwrap()
    }

    #[test]
    fn state_stays_small() {
        assert!(size_of::<(crate::Region, State)>() <= 40);
    }

    #[test]
    fn a_first_touch_is_not_use() {
        let touched_once = [base(256, 256), base(512, 512), base(512, 0)];
        assert_eq!(after(&touched_once[..2]).used(), 256.0);
        assert_eq!(after(&touched_once).used(), 128.0);
        assert_eq!(after(&[base(512, 512), base(512, 64)]).used(), 64.0);
    }

    fn in_moment(seen: Option<&RegionObservation>) -> Accesses<'_> {
        Accesses::InMoment {
            seen,
            interval_is_known: true,
        }
    }

    #[test]
    fn what_is_in_use_is_what_is_accessed_in_a_moment_where_that_is_known() {
        let look = |state, seen: Option<&RegionObservation>| {
            State::next(Some(state), &base(512, 512), in_moment(seen), true)
        };
        // In whole intervals all of it was accessed.
        let state = after(&[base(512, 512), base(512, 512)]);
        let state = look(state, Some(&base(512, 40)));
        assert_eq!(state.used(), 40.0);
        assert_eq!(look(state, None).used(), 40.0, "it had no turn");
        let over_all = look(state, Some(&base(512, 512)));
        assert_eq!(over_all.used(), 40.0, "it went over all of its memory");
        assert_eq!(look(over_all, Some(&base(512, 400))).used(), 400.0);
        // Mapped since the observation: not in use yet.
        let filled = State::next(
            Some(after(&[base(100, 0), base(100, 0)])),
            &base(100, 0),
            in_moment(Some(&base(150, 60))),
            true,
        );
        assert_eq!(filled.used(), 10.0);
        // One that no glance has seen yet goes by what it accessed in the interval.
        let new = State::next(None, &base(512, 512), in_moment(None), true);
        assert_eq!(look(new, None).used(), 512.0);
    }

    #[test]
    fn freed_memory_begins_anew() {
        assert!(after(&[base(512, 0), base(512, 0)]).is_settled(1));
        assert!(!after(&[base(512, 0), base(512, 0), base(100, 100)]).is_settled(1));
    }

    #[test]
    fn looking_into_a_huge_page_does_not_make_it_hot() {
        assert_eq!(
            after(&[
                huge(0, None),
                huge(0, None),
                huge(0, Some(500)),
                huge(512, None)
            ])
            .idle(),
            2
        );
        assert_eq!(
            after(&[huge(0, None), huge(0, None), huge(0, None), huge(512, None)]).idle(),
            0
        );
    }

    #[test]
    fn a_huge_page_stays_the_same_in_a_giant_page() {
        let giant = RegionObservation {
            page_size: PageSize::Giant,
            ..huge(0, None)
        };
        let state = after(&[huge(0, None), huge(0, Some(300)), giant, giant]);
        assert_eq!((state.zero_filled(), state.idle()), (Some(300), 3));
        let state = after(&[huge(0, Some(300)), giant, huge(0, None)]);
        assert_eq!((state.zero_filled(), state.idle()), (Some(300), 2));
        assert!(!state.may_become_giant(1));
    }

    #[test]
    fn each_time_that_a_giant_page_is_broken_up_doubles_the_wait() {
        let mut state = after(&[huge(512, None)]);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let mut wait = 0;
            while !state.may_become_giant(3) {
                state = State::next(Some(state), &huge(512, None), Accesses::InInterval, true);
                wait += 1;
            }
            waits.push(wait);
            state.promoted_giant();
            let giant = RegionObservation {
                page_size: PageSize::Giant,
                ..huge(512, None)
            };
            state = State::next(Some(state), &giant, Accesses::InInterval, true);
            state = State::next(Some(state), &huge(512, None), Accesses::InInterval, true);
        }
        assert_eq!(waits, [3, 7, 11, 19]);
    }

    #[test]
    fn each_change_of_page_size_doubles_the_wait() {
        let mut state = after(&[base(512, 512)]);
        let mut waits = Vec::new();
        for _ in 0..3 {
            state.demoted();
            let mut wait = 0;
            while !state.is_settled(1) {
                state = State::next(Some(state), &base(512, 512), Accesses::InInterval, true);
                wait += 1;
            }
            waits.push(wait);
        }
        assert_eq!(waits, [5, 9, 17]);
    }
}
