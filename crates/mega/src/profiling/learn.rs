//! Learns what a program does with its memory, and keeps it.

use std::collections::BTreeMap;

use mega_core::profile::{LEAST_TOUCHED, MappingLook, Profile, RunSummary};
use mega_core::worth::Estimate;
use mega_core::{Machine, ProcessId, RegionRef};
use mega_linux::profile::Look;

use super::subject::Subject;
use super::watcher::Watcher;
use crate::report::ProfileUse;

impl Watcher {
    /// Takes in one look, and now and then looks into the memory for zeros.
    pub(super) fn learn_from(&mut self, process: ProcessId, subject: &mut Subject, look: &Look) {
        let now = self.host.kernel().now();
        let regions: Vec<Vec<_>> = look
            .mappings
            .iter()
            .map(|part| {
                let ahead = subject.followed.get(&part.range.start);
                // What it has not come to is not its memory yet.
                let its = part.regions.iter().filter(|seen| {
                    ahead.is_none_or(|followed| !followed.ahead.is_ready(seen.region))
                });
                its.copied().collect()
            })
            .collect();
        let looks = look.mappings.iter().zip(&regions);
        let looks: Vec<MappingLook<'_>> = looks
            .map(|(part, regions)| MappingLook {
                class: part.class,
                range: part.range.clone(),
                regions,
            })
            .collect();
        subject.learner.look(now, &looks);
        let age = now.saturating_sub(subject.began);
        if now >= subject.zeros_due {
            subject.zeros_due = subject.began + age * 4;
            subject.learner.forget_zeros();
            for region in subject.learner.to_look_into() {
                let target = RegionRef { process, region };
                if let Some(zeros) = self.machine.count_zero_filled(target) {
                    subject.learner.looked_into(region, zeros);
                }
            }
            self.give_up_where_wrong(process, subject);
        }
    }

    /// Changes and keeps the profiles: of each program by the process that had the most memory. `saved` is the share of its CPU time
    /// that huge pages would save a process of that pid, where that was measured.
    pub(super) fn learn(self, saved: &BTreeMap<u32, Estimate>) -> (Vec<ProfileUse>, Vec<String>) {
        let Watcher {
            store,
            subjects,
            ended,
            mut notes,
            ..
        } = self;
        let mut largest: BTreeMap<String, (ProcessId, RunSummary, Subject)> = BTreeMap::new();
        for (process, subject) in subjects.into_iter().chain(ended) {
            let latest = subject.learner.summary();
            let mut summary = subject.found_wrong.clone().unwrap_or(latest);
            summary.started_huge |= subject.done.ready + subject.done.promoted > 0;
            let name = &subject.key.name;
            let known = largest.get(name).map_or(0, |(_, known, _)| known.resident);
            if summary.resident > known && summary.resident >= LEAST_TOUCHED {
                largest.insert(name.clone(), (process, summary, subject));
            }
        }
        let mut reports = Vec::new();
        for (name, (process, summary, subject)) in largest {
            let Subject { key, done, .. } = subject;
            // Another run may have ended meanwhile.
            let stored = store.read(&name).ok().flatten();
            let mut profile = stored.map_or_else(|| Profile::new(key), |stored| stored.profile);
            let wrong = profile.learn(&summary);
            if let Some(&saved_share) = saved.get(&process.pid) {
                profile.learn_gain(&summary, saved_share);
            }
            if let Err(error) = store.write(&profile) {
                notes.push(error.to_string());
                continue;
            }
            reports.push(ProfileUse {
                name,
                runs: profile.runs,
                made_ready: done.ready,
                promoted: done.promoted,
                given_back: done.given_back,
                wrong: wrong.iter().map(ToString::to_string).collect(),
                next_time_huge: profile
                    .huge_classes()
                    .map(|class| class.to_string())
                    .collect(),
            });
        }
        (reports, notes)
    }
}
