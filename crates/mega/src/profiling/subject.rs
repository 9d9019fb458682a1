//! One process that is looked at, and when it is next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mega_core::Region;
use mega_core::profile::{Ahead, Key, Learner, Profile, RunSummary};

/// Between two looks at a program whose memory is to be made ready.
const SOON: Duration = Duration::from_millis(2);
/// Between two looks at another one at first. Later it is looked at after an eighth of its age.
pub(super) const AT_FIRST: Duration = Duration::from_millis(50);
/// The longest time between two looks.
pub(super) const AT_LAST: Duration = Duration::from_secs(5);
/// How long a program may take until it fills its memory, and is still awaited every [`SOON`].
const YOUNG: Duration = Duration::from_secs(5);
/// A look is followed by a pause of at least this many times its own length; while memory is made ready, [`WHILE_READYING`].
const SHARE: u32 = 50;
const WHILE_READYING: u32 = 10;
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
    pub(super) due: Duration,
    pub(super) learning_due: Duration,
    pub(super) zeros_due: Duration,
    /// By the start of the mapping.
    pub(super) followed: BTreeMap<u64, Followed>,
    pub(super) is_ours: bool,
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
            due: now,
            learning_due: now,
            zeros_due: now + LOOK_INTO,
            followed: BTreeMap::new(),
            is_ours,
            found_wrong: None,
            done: Done::default(),
        }
    }

    /// Sets when it is looked at next. This look took `took`.
    pub(super) fn schedule(
        &mut self,
        looked: Duration,
        now: Duration,
        took: Duration,
        acted: bool,
    ) {
        let age = now.saturating_sub(self.began);
        let profile = self.profile.as_ref();
        let may_go_ahead = profile.is_some_and(|profile| profile.huge_classes().next().is_some());
        let moves = self.followed.values().any(|one| one.ahead.moves(now));
        self.due = if acted {
            now
        } else if may_go_ahead && (age < YOUNG || moves) {
            now + SOON.max(took * WHILE_READYING)
        } else if may_go_ahead {
            now + (age / 32).clamp(SOON, AT_LAST).max(took * SHARE)
        } else {
            looked + (age / 8).clamp(AT_FIRST, AT_LAST).max(took * SHARE)
        };
    }
}
