//! The latest events. Whoever adds one waits for no reader: what a slow reader has not read in time is gone, and it learns how
//! many that were.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::change::{Change, Event};

/// Events that are kept: at 1 KiB each at most, 4 MiB.
const KEPT: usize = 4096;

/// What a reader gets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// How many it missed before these.
    pub(crate) missed: u64,
    pub(crate) events: Vec<Arc<Event>>,
}

/// The latest events of a manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ring: Mutex<Ring>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Arc<Event>>,
    /// Events since the start, which is also the sequence number of the latest.
    latest: u64,
    /// Events since the start, by [`Change::index`].
    counts: [u64; Change::NAMES.len()],
}

impl EventLog {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        // An event is added as a whole, or the process has no memory left to go on with.
        self.shared
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what changed just now. Takes as long as nobody reads much.
    pub(crate) fn add(&self, change: Change) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = now.unwrap_or_default().as_secs_f64();
        let mut ring = self.ring();
        ring.latest += 1;
        ring.counts[change.index()] += 1;
        let event = Event {
            sequence: ring.latest,
            time,
            change,
        };
        if ring.kept.len() == KEPT {
            ring.kept.pop_front();
        }
        ring.kept.push_back(Arc::new(event));
        drop(ring);
        self.shared.news.notify_all();
    }

    /// The events after the one with this sequence number; 0 for all that are kept. A number that is still to come stands
    /// for the latest. Where there is none yet, it waits for one, `patience` at most.
    pub(crate) fn after(&self, sequence: u64, patience: Duration) -> Read {
        let nothing_new = |ring: &mut Ring| ring.latest <= sequence;
        let waited = self
            .shared
            .news
            .wait_timeout_while(self.ring(), patience, nothing_new);
        let (ring, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ring.after(sequence)
    }

    /// The sequence number of the latest event.
    pub(crate) fn latest(&self) -> u64 {
        self.ring().latest
    }

    /// How many events of each name there were since the start.
    pub(crate) fn counts(&self) -> [(&'static str, u64); Change::NAMES.len()] {
        let counts = self.ring().counts;
        std::array::from_fn(|index| (Change::NAMES[index], counts[index]))
    }
}

impl Ring {
    fn after(&self, sequence: u64) -> Read {
        let unread = self.latest.saturating_sub(sequence);
        let kept = self.kept.len() as u64;
        let skipped = usize::try_from(kept.saturating_sub(unread)).unwrap_or(self.kept.len());
        Read {
            missed: unread.saturating_sub(kept),
            events: self.kept.iter().skip(skipped).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(selections: u64) -> Change {
        Change::Reloaded { selections }
    }

    fn now(log: &EventLog, sequence: u64) -> Read {
        log.after(sequence, Duration::ZERO)
    }

    fn sequences(read: &Read) -> Vec<u64> {
        read.events.iter().map(|event| event.sequence).collect()
    }

    #[test]
    fn a_reader_that_comes_late_is_told_how_many_it_missed() {
        let log = EventLog::default();
        let many = KEPT as u64 + 10;
        (0..many).for_each(|at| log.add(number(at)));
        let read = now(&log, 0);
        assert_eq!((read.missed, read.events.len()), (10, KEPT));
        assert_eq!(sequences(&now(&log, many - 2)), [many - 1, many]);
        assert_eq!(now(&log, 4).missed, 6);
        assert!(now(&log, many + 5).events.is_empty());
        assert_eq!(log.counts()[5], ("reloaded", many));
    }

    #[test]
    fn who_waits_is_woken() {
        let log = EventLog::default();
        assert!(now(&log, 0).events.is_empty());
        let reader = log.clone();
        let waiting = std::thread::spawn(move || reader.after(0, Duration::from_secs(600)));
        log.add(number(1));
        assert_eq!(sequences(&waiting.join().expect("it read")), [1]);
    }

    proptest! {
        #[test]
        fn every_event_is_read_once_or_counted_as_missed(
            turns in prop::collection::vec((0..3 * KEPT, any::<bool>()), 1..8),
        ) {
            let log = EventLog::default();
            let (mut at, mut read, mut missed) = (0, 0, 0);
            for (added, reads) in turns {
                (0..added).for_each(|_| log.add(number(0)));
                if reads {
                    let got = now(&log, at);
                    prop_assert!(sequences(&got).is_sorted());
                    missed += got.missed;
                    read += got.events.len() as u64;
                    at = got.events.last().map_or(at, |event| event.sequence);
                    prop_assert_eq!(read + missed, log.latest());
                }
            }
        }
    }
}
