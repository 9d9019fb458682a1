//! The looks of a recording, dealt out to the programs of its processes as they ask for them.
//!
//! Programs go on in about the same time, so few looks wait to be taken by the one that is behind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use mega_core::{Call, ProcessId, Region, RegionObservation};

use super::survey::Survey;
use crate::look::{Look, TouchRate};

/// The looks of a recording that some programs share.
pub struct Tape<L> {
    looks: L,
    /// The number of the next look.
    number: u64,
    /// When the look before it was.
    since: Option<Duration>,
    processes: BTreeMap<ProcessId, Dealt>,
}

/// What a process has still to take, and which looks saw it.
struct Dealt {
    looks: (u64, u64),
    stays: bool,
    steps: VecDeque<Rc<Step>>,
    /// The same for its blind memory, where it has any.
    blind: Option<VecDeque<Rc<Step>>>,
}

/// What a look says of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// When it was, since the recording began.
    pub(super) at: Duration,
    /// When the look before was; that of this one, where it is the first of the recording.
    pub(super) since: Duration,
    /// Whether it is the first of the recording.
    pub(super) begins: bool,
    /// The regions that base pages map; `None` where the look did not see the process, as between two that did.
    pub(super) regions: Option<Vec<RegionObservation>>,
    /// Those that huge pages map.
    pub(super) blind: BTreeSet<Region>,
    pub(super) accesses_known: bool,
    pub(super) mappings: Option<Vec<Range<u64>>>,
    pub(super) rate: Option<TouchRate>,
    pub(super) calls: Vec<Call>,
    /// Whether the process was gone at the next look.
    pub(super) is_last: bool,
}

/// The looks of a recording, for the programs of its processes.
pub fn share<L: Iterator<Item = Look>>(survey: &Survey, looks: L) -> Rc<RefCell<Tape<L>>> {
    let dealt = survey.processes.iter().map(|(process, known)| {
        let dealt = Dealt {
            looks: known.looks,
            stays: known.stays,
            steps: VecDeque::new(),
            blind: known.is_partly_blind.then(VecDeque::new),
        };
        (*process, dealt)
    });
    Rc::new(RefCell::new(Tape {
        looks,
        number: 0,
        since: None,
        processes: dealt.collect(),
    }))
}

impl<L: Iterator<Item = Look>> Tape<L> {
    /// What the next look that concerns a process says of it. `None` where no other does.
    pub(super) fn next(&mut self, process: ProcessId) -> Option<Rc<Step>> {
        self.take(process, |dealt| Some(&mut dealt.steps))
    }

    /// The same, for whoever has the process's blind memory.
    pub(super) fn next_blind(&mut self, process: ProcessId) -> Option<Rc<Step>> {
        self.take(process, |dealt| dealt.blind.as_mut())
    }

    fn take(
        &mut self,
        process: ProcessId,
        queue: impl Fn(&mut Dealt) -> Option<&mut VecDeque<Rc<Step>>>,
    ) -> Option<Rc<Step>> {
        loop {
            let dealt = self.processes.get_mut(&process)?;
            let last = dealt.looks.1;
            if let Some(step) = queue(dealt)?.pop_front() {
                return Some(step);
            }
            if self.number > last {
                return None;
            }
            let look = self.looks.next()?;
            self.deal(look);
        }
    }

    fn deal(&mut self, mut look: Look) {
        let number = self.number;
        self.number += 1;
        let seen = std::mem::take(&mut look.observation.processes);
        let mut seen: BTreeMap<_, _> = seen.into_iter().map(|seen| (seen.process, seen)).collect();
        let mut calls: BTreeMap<ProcessId, Vec<Call>> = BTreeMap::new();
        for call in look.calls {
            calls.entry(call.process).or_default().push(call);
        }
        for (process, dealt) in &mut self.processes {
            if !(dealt.looks.0..=dealt.looks.1).contains(&number) {
                continue;
            }
            let seen = seen.remove(process);
            let mut step = Step {
                at: look.at,
                since: self.since.unwrap_or(look.at),
                begins: number == 0,
                accesses_known: seen.as_ref().is_some_and(|seen| seen.accesses_known),
                mappings: look.news.mappings.remove(process),
                rate: look.news.touches.remove(process),
                calls: calls.remove(process).unwrap_or_default(),
                is_last: number == dealt.looks.1 && !dealt.stays,
                ..Step::default()
            };
            if let Some(seen) = seen {
                let (huge, base): (Vec<_>, Vec<_>) = seen
                    .regions
                    .into_iter()
                    .partition(RegionObservation::is_huge);
                step.blind = huge.into_iter().map(|seen| seen.region).collect();
                step.regions = Some(base);
            }
            let step = Rc::new(step);
            if let Some(blind) = &mut dealt.blind {
                blind.push_back(Rc::clone(&step));
            }
            dealt.steps.push_back(step);
        }
        self.since = Some(look.at);
    }
}
