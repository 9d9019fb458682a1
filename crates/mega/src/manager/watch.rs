//! Which processes somebody looks closely at. A close look costs time and memory, so the manager takes one only at these,
//! and only for as long as somebody keeps asking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a question keeps the manager looking. Longer than the intervals in common use: who asks at every
/// interval sees every step.
const KEPT: Duration = Duration::from_secs(60);
/// Processes that are looked at at once, at most. Those asked for longest ago give way.
const MOST: usize = 16;

/// Shared by those who ask and the manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Mutex<BTreeMap<u32, Duration>>>);

impl Watch {
    /// Somebody asked for this process, at this time by the kernel's clock.
    pub(crate) fn add(&self, pid: u32, now: Duration) {
        let mut asked = self.asked();
        asked.insert(pid, now);
        while asked.len() > MOST {
            let oldest = asked.iter().min_by_key(|(_, at)| **at);
            let Some(oldest) = oldest.map(|(&pid, _)| pid) else {
                return;
            };
            asked.remove(&oldest);
        }
    }

    /// The processes to look at now.
    pub(crate) fn pids(&self, now: Duration) -> BTreeSet<u32> {
        let mut asked = self.asked();
        asked.retain(|_, at| now.saturating_sub(*at) < KEPT);
        asked.keys().copied().collect()
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<u32, Duration>> {
        // Each change is one insertion or removal: a poisoned lock holds a whole map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_any_more_is_forgotten() {
        let watch = Watch::default();
        assert!(watch.pids(Duration::ZERO).is_empty());
        watch.add(7, Duration::from_secs(100));
        watch.clone().add(8, Duration::from_secs(130));
        assert_eq!(watch.pids(Duration::from_secs(150)), BTreeSet::from([7, 8]));
        assert_eq!(watch.pids(Duration::from_secs(165)), BTreeSet::from([8]));
    }

    #[test]
    fn the_oldest_give_way() {
        let watch = Watch::default();
        for pid in 0..20 {
            watch.add(pid, Duration::from_secs(u64::from(pid)));
        }
        let pids = watch.pids(Duration::from_secs(20));
        assert_eq!(pids, (4..20).collect());
    }
}
