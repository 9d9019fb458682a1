//! Processes that run and cannot be observed. That is told once; the status shows it for as long as it is so.

use std::collections::{BTreeMap, BTreeSet};

use mega_core::ProcessId;

use crate::report::RefusedReport;

/// A status shows at most this many refused processes. A group may have thousands.
const SHOWN: usize = 100;

/// The processes of a group that were refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Processes that the latest step could not observe.
    now: BTreeMap<ProcessId, RefusedReport>,
    /// The reasons that were told, for each process that is still the group's.
    told: BTreeMap<ProcessId, BTreeSet<String>>,
}

impl Refusals {
    /// Notes which processes a step could not observe, and why. `name` names a process; `is_ours` says whether it still
    /// belongs to the group. Returns each process and reason that was not told before.
    pub(crate) fn renew(
        &mut self,
        refused: impl IntoIterator<Item = (ProcessId, String)>,
        name: impl Fn(ProcessId) -> String,
        is_ours: impl Fn(&ProcessId) -> bool,
    ) -> Vec<(ProcessId, RefusedReport)> {
        self.told.retain(|process, _| is_ours(process));
        self.now.clear();
        let mut news = Vec::new();
        for (process, why) in refused {
            let name = name(process);
            let pid = process.pid;
            let is_news = self.told.entry(process).or_default().insert(why.clone());
            let report = RefusedReport { pid, name, why };
            if is_news {
                news.push((process, report.clone()));
            }
            self.now.insert(process, report);
        }
        news
    }

    /// How many processes the latest step could not observe.
    pub(crate) fn count(&self) -> u64 {
        self.now.len() as u64
    }

    /// What a status shows: the processes with the lowest pids, by pid.
    pub(crate) fn report(&self) -> Vec<RefusedReport> {
        self.now.values().take(SHOWN).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_time: 1 }
    }

    fn renew(refusals: &mut Refusals, refused: &[(u32, &str)]) -> Vec<String> {
        let refused = refused
            .iter()
            .map(|&(pid, why)| (process(pid), why.to_owned()));
        let news = refusals.renew(refused, |_| "cat".to_owned(), |process| process.pid != 9);
        let words = |(_, news): (ProcessId, RefusedReport)| {
            format!("{} {}: {}", news.name, news.pid, news.why)
        };
        news.into_iter().map(words).collect()
    }

    #[test]
    fn each_reason_is_told_once_for_each_process() {
        let mut refusals = Refusals::default();
        let first = renew(&mut refusals, &[(7, "no"), (8, "no")]);
        assert_eq!(first, ["cat 7: no", "cat 8: no"]);
        assert!(renew(&mut refusals, &[(7, "no")]).is_empty());
        assert_eq!(renew(&mut refusals, &[(7, "never")]).len(), 1);
        assert!(renew(&mut refusals, &[(7, "no")]).is_empty());
    }

    #[test]
    fn only_what_is_refused_now_is_shown_and_what_is_gone_is_forgotten() {
        let mut refusals = Refusals::default();
        renew(&mut refusals, &[(7, "no"), (8, "no"), (9, "no")]);
        assert_eq!(refusals.report().len(), 3);
        renew(&mut refusals, &[(8, "no")]);
        let shown = refusals.report();
        assert_eq!(shown.iter().map(|one| one.pid).collect::<Vec<_>>(), [8]);
        assert_eq!(
            refusals.told.keys().map(|one| one.pid).collect::<Vec<_>>(),
            [7, 8]
        );
    }

    #[test]
    fn a_status_shows_a_bounded_number() {
        let mut refusals = Refusals::default();
        let many: Vec<(u32, &str)> = (100..1000).map(|pid| (pid, "no")).collect();
        renew(&mut refusals, &many);
        assert_eq!((refusals.report().len(), refusals.count()), (SHOWN, 900));
    }
}
