//! The stages of one run: its memory grows, it settles, the demo measures its speed, it ends.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::mode::Mode;
use super::plan::Plan;
use super::settle::Settle;
use crate::resident;
use crate::workload::report::{Done, Event};

/// The time between two looks at how much is huge: each takes the program's mmap lock for a walk.
const LOOK: Duration = Duration::from_millis(500);

/// One run on its way.
pub(super) struct Course {
    stage: Stage,
    measured: Duration,
    /// `None` where nobody changes the program's pages after they were touched.
    settle: Option<Settle>,
    /// What the program said at its end.
    done: Option<Done>,
}

enum Stage {
    Growing,
    Settling {
        pid: u32,
        settle: Settle,
        since: Instant,
        looked: Instant,
    },
    Measuring {
        since: Instant,
    },
    Over,
}

impl Course {
    pub(super) fn new(mode: Mode, plan: &Plan) -> Self {
        let settle = Settle::new(plan.size, plan.longest_settle());
        Course {
            stage: Stage::Growing,
            measured: plan.measured,
            settle: (mode == Mode::Mega).then_some(settle),
            done: None,
        }
    }

    /// Takes in what the program said; whether it may end now.
    pub(super) fn advance(&mut self, events: &Receiver<Event>) -> bool {
        for event in events.try_iter() {
            match event {
                Event::Ready(ready) => self.ready(ready.pid),
                Event::Done(done) => self.done = Some(done),
                // The demo tells nobody to rest.
                Event::Resting(_) => {}
            }
        }
        match self.stage {
            Stage::Settling { .. } => self.look(),
            Stage::Measuring { since } if since.elapsed() >= self.measured => {
                self.stage = Stage::Over;
            }
            Stage::Growing | Stage::Measuring { .. } | Stage::Over => {}
        }
        matches!(self.stage, Stage::Over)
    }

    /// What the program said at its end, once all its output was read.
    pub(super) fn finish(mut self, events: &Receiver<Event>) -> Option<Done> {
        self.advance(events);
        self.done
    }

    fn ready(&mut self, pid: u32) {
        let now = Instant::now();
        self.stage = match self.settle {
            Some(settle) => Stage::Settling {
                pid,
                settle,
                since: now,
                looked: now,
            },
            None => Stage::Measuring { since: now },
        };
    }

    fn look(&mut self) {
        let Stage::Settling {
            pid,
            settle,
            since,
            looked,
        } = &mut self.stage
        else {
            return;
        };
        if looked.elapsed() < LOOK {
            return;
        }
        *looked = Instant::now();
        // A program that is gone ends the run by itself.
        let huge = resident::of(*pid).map_or(0, |resident| resident.huge_bytes);
        if settle.reached(since.elapsed(), huge) {
            self.stage = Stage::Measuring {
                since: Instant::now(),
            };
        }
    }
}
