//! When the day gets a look, and where its slots are kept.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mega_linux::lines::Lines;
use mega_linux::state_dir;

use super::day::{Day, SLOTS};
use super::look::Look;
use super::slot::Slot;
use crate::manager::snapshot::Snapshot;

/// The time between two looks, at least.
const PAUSE: Duration = Duration::from_secs(10);
/// The folder of the slots in the state directory.
const NAME: &str = "history";

/// The day, for those who ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    day: Arc<Mutex<Day>>,
    /// Where it is kept; `None` where it is in memory only.
    kept_in: Option<PathBuf>,
}

impl History {
    /// The slots, by time.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let lines = self.with(|day| day.lines());
        let slots = lines.iter().map(|line| serde_json::from_str(line));
        slots.filter_map(Result::ok).collect()
    }

    /// Where they are kept; `None` where they end with the daemon.
    pub(crate) fn kept_in(&self) -> Option<&PathBuf> {
        self.kept_in.as_ref()
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Day) -> T) -> T {
        // A slot that a panic cut is a slot all the same.
        use_it(&mut self.day.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Takes the looks.
pub(crate) struct Recorder {
    history: History,
    lines: Option<Lines>,
    /// When the next look is due, by the kernel's clock.
    due: Duration,
}

impl Recorder {
    /// A recorder whose day ends with it.
    pub(crate) fn in_memory() -> Self {
        Recorder {
            history: History::default(),
            lines: None,
            due: Duration::ZERO,
        }
    }

    /// A recorder that goes on with the day in the state directory, and keeps it there.
    ///
    /// # Errors
    /// In words, where there is no such directory, where it cannot be used, or where another mega keeps its day there.
    pub(crate) fn on_disk() -> Result<Self, String> {
        let state_dir = state_dir::location()
            .ok_or("there is no state directory: neither HOME nor MEGA_STATE_DIR is set")?;
        let opened = Lines::open(&state_dir, NAME, SLOTS).map_err(|error| error.to_string())?;
        let (lines, known) = opened.ok_or_else(|| {
            let folder = state_dir.join(NAME);
            format!("another mega keeps its own in {}", folder.display())
        })?;
        Ok(Recorder {
            history: History {
                day: Arc::new(Mutex::new(Day::of(&known))),
                kept_in: Some(lines.path().to_owned()),
            },
            lines: Some(lines),
            due: Duration::ZERO,
        })
    }

    /// The day, for those who ask.
    pub(crate) fn history(&self) -> History {
        self.history.clone()
    }

    /// Whether a look is due at the time `now` of the kernel's clock.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.due <= now
    }

    /// Takes a look. `events` are counts since the start.
    ///
    /// # Errors
    /// In words, where the slot that ended cannot be kept: from then on the day is in memory only.
    pub(crate) fn look(
        &mut self,
        snapshot: &Snapshot,
        events: &[(&'static str, u64)],
    ) -> Result<(), String> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let look = Look::of(snapshot, events, time.unwrap_or_default().as_secs());
        self.due = look.now + PAUSE;
        let ended = self.history.with(|day| day.add(&look));
        ended.map_or(Ok(()), |line| self.keep(&line))
    }

    /// Keeps the slot that has not ended.
    ///
    /// # Errors
    /// In words, where that is not possible.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        let last = self.history.with(|day| day.last_line());
        last.map_or(Ok(()), |line| self.keep(&line))
    }

    fn keep(&mut self, line: &str) -> Result<(), String> {
        let Some(lines) = &mut self.lines else {
            return Ok(());
        };
        lines.add(line).map_err(|error| {
            self.lines = None;
            format!("{error}; going on without keeping the history on disk")
        })
    }
}
