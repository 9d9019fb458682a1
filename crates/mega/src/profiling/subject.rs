//! One process that is looked at, and when it is next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mega_core::Region;
use mega_core::profile::{Ahead, Key, Learner, Profile, RunSummary};

/// Between two looks at a program whose memory is to be made ready.
const SOON: Duration = Duration::from_millis(2);
/// Between two looks to learn from at first. Later a quarter of its age lies between them.
const AT_FIRST: Duration = Duration::from_millis(50);
/// The longest time between two looks.
const AT_LAST: Duration = Duration::from_secs(5);
/// How long a program may take until it fills its memory, and is still awaited every [`SOON`].
const YOUNG: Duration = Duration::from_secs(5);
/// A look is followed by a pause of at least this many times its own length: while memory is ready; where it may be, but none is, as
/// the program has the same memory for a while or the next is not mapped yet; to learn from a program that is [`YOUNG`]; and later, when there is little new to learn,
/// and it may take 0.025 % of a core.
const WHILE_READYING: u32 = 10;
const WHILE_FOLLOWED: u32 = 50;
const WHILE_YOUNG: u32 = 200;
const LATER: u32 = 4000;
/// A look is also followed by a pause of a part of the time for which the program came to nothing new: what is ready lasts for a while.
const STILL_PART: u32 = 16;
/// And by one of a part of the time for which what is ready lasts.
const LASTING_PART: u32 = 4;
/// The age at which memory is first looked into for zeros. Each later one is four times the one before.
const LOOK_INTO: Duration = Duration::from_secs(2);

/// One process that is looked at.
pub(super) struct Subject {
    pub(super) key: Key,
    /// What its program did last time.
    pub(super) profile: Option<Profile>,
    pub(super) learner: Learner,
    pub(super) layout: Vec<u64>,
    pub(super) began: Duration,
    /// How long the last look took, and what the program had resident, in bytes.
    took: Duration,
    resident: Option<u64>,
    pub(super) due: Duration,
    pub(super) learning_due: Duration,
    pub(super) zeros_due: Duration,
    /// By the start of the mapping.
    pub(super) followed: BTreeMap<u64, Followed>,
    pub(super) is_ours: bool,
    /// What it took to promote a region that it had begun, the last time that some were.
    pub(super) promotion: Option<Duration>,
    /// What its memory was like when huge pages turned out wrong. Then they were given back, and it is base pages' again.
    pub(super) found_wrong: Option<RunSummary>,
    pub(super) done: Done,
}

/// A mapping that the program is followed through.
pub(super) struct Followed {
    pub(super) ahead: Ahead,
    /// What was made huge.
    pub(super) made: BTreeSet<Region>,
    /// How many to make ready in the next turn.
    pub(super) at_once: u32,
    /// Whether it may be made ready, once that was found out.
    pub(super) may: Option<bool>,
}

/// What was done ahead of it, in regions.
#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) ready: u64,
    pub(super) promoted: u64,
    pub(super) given_back: u64,
}

impl Subject {
    /// One that was found just now. `is_ours`: no other mega manages it.
    pub(super) fn new(key: Key, profile: Option<Profile>, is_ours: bool, now: Duration) -> Self {
        Subject {
            key,
            profile,
            learner: Learner::default(),
            layout: Vec::new(),
            began: now,
            took: Duration::ZERO,
            resident: None,
            due: now,
            learning_due: now,
            zeros_due: now + LOOK_INTO,
            followed: BTreeMap::new(),
            is_ours,
            promotion: None,
            found_wrong: None,
            done: Done::default(),
        }
    }

    /// Whether there is nothing to look for: it is not time to learn, and nothing is to be made ready, because the program has
    /// the memory that it had at the last look.
    pub(super) fn can_wait(&self, now: Duration, resident: Option<u64>) -> bool {
        let mut followed = self.followed.values();
        now < self.learning_due
            && resident.is_some()
            && resident == self.resident
            && !followed.any(|one| one.ahead.has_ready() || one.ahead.moved_ago(now).is_some())
    }

    /// A look took `took`; the program had this memory.
    pub(super) fn looked(&mut self, took: Duration, resident: Option<u64>) {
        self.took = took;
        self.resident = resident;
    }

    /// Sets when to learn next. It learnt at `learnt`.
    pub(super) fn schedule_learning(&mut self, learnt: Duration) {
        let age = learnt.saturating_sub(self.began);
        let pauses = if age < YOUNG { WHILE_YOUNG } else { LATER };
        self.learning_due = learnt + (age / 4).clamp(AT_FIRST, AT_LAST).max(self.took * pauses);
    }

    /// Sets when it is looked at next.
    pub(super) fn schedule(&mut self, now: Duration, acted: bool) {
        let age = now.saturating_sub(self.began);
        let profile = self.profile.as_ref();
        let may_go_ahead = profile.is_some_and(|profile| profile.huge_classes().next().is_some());
        let moves = self.followed.values();
        let moves = moves
            .filter_map(|one| self.until_next(&one.ahead, now))
            .min();
        self.due = if acted {
            now
        } else if let Some(pause) = moves.filter(|_| may_go_ahead) {
            now + pause
        } else if may_go_ahead && age < YOUNG {
            now + SOON.max(self.took * WHILE_READYING)
        } else if may_go_ahead {
            now + (age / 32)
                .clamp(SOON, AT_LAST)
                .max(self.took * WHILE_FOLLOWED)
        } else {
            self.learning_due
        };
    }

    /// How long a mapping may wait that the program came to not long ago; `None` where it rests.
    fn until_next(&self, ahead: &Ahead, now: Duration) -> Option<Duration> {
        let ago = ahead.moved_ago(now)?;
        let pause = match ahead.lasts() {
            Some(lasts) => (self.took * WHILE_READYING).max(lasts / LASTING_PART),
            // What the program has begun can wait.
            None => self.took * WHILE_FOLLOWED,
        };
        Some(SOON.max(pause).max(ago / STILL_PART))
    }
}

#[cfg(test)]
mod tests {
    use mega_core::profile::{MappingClass, MappingKind, MappingSummary, Verdict};
    use proptest::prelude::*;

    use super::*;

    const RESIDENT: Option<u64> = Some(1 << 30);

    fn key() -> Key {
        Key::new("program", [], None)
    }

    /// A profile that says that huge pages were right.
    fn huge() -> Profile {
        let class = MappingClass::of(MappingKind::Anonymous, 1 << 30);
        let mapping = MappingSummary {
            class,
            touched_regions: 512,
            known_regions: 512,
            known_pages: 512 * 512,
            huge_regions: 512,
            filled_seconds: 0.1,
            zeros_when_full: Some(0.0),
            zeros_when_unknown: None,
        };
        let mut profile = Profile::new(key());
        profile.learn(&RunSummary {
            mappings: vec![mapping],
            resident: 1 << 30,
            started_huge: false,
            seconds: 60.0,
        });
        assert_eq!(profile.verdict(class), Verdict::Huge);
        profile
    }

    /// When it was looked at until `end`, if each look takes `took` and its memory stays as it is.
    fn looks(profile: Option<Profile>, took: Duration, end: Duration) -> Vec<Duration> {
        let mut subject = Subject::new(key(), profile, true, Duration::ZERO);
        let mut looks = Vec::new();
        while subject.due < end {
            let mut now = subject.due;
            if !subject.can_wait(now, RESIDENT) {
                looks.push(now);
                subject.looked(took, RESIDENT);
                if now >= subject.learning_due {
                    subject.schedule_learning(now);
                }
                now += took;
            }
            subject.schedule(now, false);
        }
        looks
    }

    proptest! {
        #[test]
        fn looking_on_is_cheap_once_it_was_young(known: bool, took in 10_u64..100_000) {
            let took = Duration::from_micros(took);
            let end = Duration::from_secs(600);
            let looks = looks(known.then(huge), took, end);
            let later = looks.iter().filter(|&&look| look >= YOUNG).count();
            // The first one is planned while it is young.
            let most = end.div_duration_f64(took * LATER) + 1.0;
            prop_assert!(later as f64 <= most, "{later} looks, at most {most}");
        }
    }

    #[test]
    fn what_changes_is_looked_at_soon() {
        let mut subject = Subject::new(key(), Some(huge()), true, Duration::ZERO);
        let age = Duration::from_secs(60);
        subject.looked(Duration::from_millis(1), RESIDENT);
        subject.schedule_learning(age);
        subject.schedule(age, false);
        assert!(subject.due < subject.learning_due);
        assert!(subject.can_wait(subject.due, RESIDENT));
        assert!(!subject.can_wait(subject.due, Some(2 << 30)));
        // It may be gone.
        assert!(!subject.can_wait(subject.due, None));
        assert!(!subject.can_wait(subject.learning_due, RESIDENT));
    }
}
