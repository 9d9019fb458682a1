//! A place in a recording, which moves on look by look and can jump.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mega_record::{Header, Look, Reader};

use super::moment::{Known, Moment};
use crate::exit::Failure;
use crate::recording;
use crate::report::ProcessDetail;
use crate::top::history::POINTS;
use crate::top::state::Key;

/// A place in a recording.
pub(super) struct Player {
    path: PathBuf,
    header: Header,
    looks: Peekable<Reader<BufReader<File>>>,
    /// What the looks until now said.
    known: Known,
    /// The look that is shown.
    now: Look,
}

impl Player {
    /// Stands before the first look.
    ///
    /// # Errors
    /// Where it is no recording.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let reader = recording::open(path)?;
        Ok(Player {
            path: path.to_owned(),
            header: reader.header().clone(),
            looks: reader.peekable(),
            known: Known::default(),
            now: Look::default(),
        })
    }

    /// The time of the look that is shown.
    pub(super) fn at(&self) -> Duration {
        self.now.at
    }

    /// The time of the next one; `None` at the end.
    pub(super) fn next_at(&mut self) -> Option<Duration> {
        self.looks.peek().map(|look| look.at)
    }

    /// Shows the next look, and closely the process of `look`. `None` at the end.
    pub(super) fn step(&mut self, look: Option<Key>) -> Option<Moment> {
        self.now = self.looks.next()?;
        self.known.add(&self.now);
        let mut moment = self.known.moment(&self.header, &self.now);
        moment.sample.detail = look.and_then(|key| Some((key.manager, self.detail(key)?)));
        Some(moment)
    }

    /// Shows the last look before this time, or the first. Before it come those that the history needs.
    ///
    /// # Errors
    /// Where the recording cannot be read from its beginning any more. The place stays.
    pub(super) fn jump(&mut self, to: Duration, look: Option<Key>) -> Result<Vec<Moment>, Failure> {
        let rewinds = to <= self.now.at;
        if rewinds {
            *self = Player::open(&self.path)?;
        }
        let mut moments: VecDeque<Moment> = VecDeque::new();
        let mut is_first = rewinds;
        while self.next_at().is_some_and(|at| is_first || at <= to) {
            is_first = false;
            if moments.len() == POINTS {
                moments.pop_front();
            }
            moments.extend(self.step(None));
        }
        if let Some(first) = moments.front_mut() {
            first.rewinds = rewinds;
        }
        if let Some(last) = moments.back_mut() {
            last.sample.detail = look.and_then(|key| Some((key.manager, self.detail(key)?)));
        }
        Ok(moments.into())
    }

    /// A close look at a process, as it was at the look that is shown.
    pub(super) fn detail(&self, key: Key) -> Option<ProcessDetail> {
        self.known.detail(&self.now, key.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::{self, HUGE_FROM, LOOKS, PROCESS};
    use mega_core::ActionKind;
    use mega_core::HUGE_PAGE_SIZE;

    const KEY: Key = Key {
        manager: 0,
        pid: PROCESS.pid,
    };

    fn player() -> (tempfile::TempDir, Player) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        recorded::write(&path);
        let player = Player::open(&path).expect("a recording");
        (folder, player)
    }

    fn mapped(moment: &Moment) -> u64 {
        moment.sample.managers[0].groups[0].totals.mapped
    }

    #[test]
    fn it_moves_on_look_by_look_and_ends() {
        let (_folder, mut player) = player();
        for number in 0..LOOKS {
            assert_eq!(player.next_at(), Some(Duration::from_secs(number)));
            let moment = player.step(Some(KEY)).expect("a look");
            assert_eq!(moment.at, Duration::from_secs(number));
            assert_eq!(mapped(&moment), (number + 1) * HUGE_PAGE_SIZE);
            let (_, detail) = moment.sample.detail.as_ref().expect("a close look");
            assert_eq!(detail.mappings[0].mapped, mapped(&moment));
            assert_eq!(detail.mappings[0].length, LOOKS * HUGE_PAGE_SIZE);
            let name = &moment.sample.managers[0].groups[0].processes[0].name;
            assert_eq!(name, "growing", "it was said at the first look only");
            let actions = &moment.sample.managers[0].groups[0].actions;
            let promoted = if number < HUGE_FROM { 0 } else { HUGE_FROM - 1 };
            assert_eq!(actions.done[ActionKind::Promote], promoted, "{number}");
            let emptied = moment.sample.managers[0].compaction;
            let emptied = emptied.map(|done| (done.tried, done.emptied, done.pages_migrated));
            let is_after = number >= HUGE_FROM;
            assert_eq!(emptied, is_after.then_some((2, 1, 512)), "{number}");
        }
        assert_eq!(player.next_at(), None);
        assert!(player.step(None).is_none());
    }

    #[test]
    fn it_jumps_to_any_time_and_brings_what_was_before() {
        let (_folder, mut player) = player();
        for (to, expected, rewinds) in [
            (30_500, 30, false),
            (60_000, 60, false),
            (10_000, 10, true),
            (1_000_000, LOOKS - 1, false),
            (0, 0, true),
        ] {
            let moments = player.jump(Duration::from_millis(to), None);
            let moments = moments.expect("it is read");
            let last = moments.last().expect("a moment");
            assert_eq!(last.at, Duration::from_secs(expected));
            assert_eq!(mapped(last), (expected + 1) * HUGE_PAGE_SIZE);
            assert_eq!(moments[0].rewinds, rewinds, "{to}");
            assert!(moments.iter().skip(1).all(|moment| !moment.rewinds));
            if rewinds {
                assert_eq!(moments.len() as u64, expected + 1, "all of its history");
            }
        }
    }

    #[test]
    fn a_recording_that_has_gone_is_told_and_does_not_end_it() {
        let (folder, mut player) = player();
        let moments = player.jump(Duration::from_secs(5), None);
        assert_eq!(moments.expect("it is read").len(), 6);
        drop(folder);
        let refused = player.jump(Duration::from_secs(1), None);
        let refused = refused.expect_err("it has gone").to_string();
        assert!(refused.contains("a.rec"), "{refused}");
        assert_eq!(player.at(), Duration::from_secs(5));
    }
}
