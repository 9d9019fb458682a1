//! What every [`Machine`] must do, as tests that any machine can run: the live one, the simulated one, a replayed one.
//!
//! A [`Bench`] sets up processes whose memory it knows. [`violations`] then observes and acts through the machine, and says
//! what was not as the trait promises.

use std::time::Duration;

use crate::action::{Action, ActionKind, Cause, Outcome};
use crate::machine::Machine;
use crate::observation::{ProcessObservation, RegionObservation, RegionRef};
use crate::page::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PAGES_PER_REGION, PageSize, Region};
use crate::process::ProcessId;

/// Something that has a machine, and processes on it that do what they are told.
pub trait Bench {
    /// The machine.
    type Machine: Machine;

    /// The machine.
    fn machine(&mut self) -> &mut Self::Machine;

    /// Starts a process with a mapping of so many regions that no larger page maps yet. In each, base pages are mapped from
    /// its start on: so many that hold data, and then so many that hold only zeros. The process and its first region.
    fn start(&mut self, regions: u64, filled: u16, zero: u16) -> (ProcessId, Region);

    /// Has the process use the pages of a region that hold data, each once.
    fn touch(&mut self, process: ProcessId, region: Region);

    /// Has a process fork. The child touches nothing, and lives as long as its parent. Whether it could: a recording's processes
    /// cannot.
    fn fork(&mut self, process: ProcessId) -> bool {
        let _ = process;
        false
    }

    /// Ends a process.
    fn end(&mut self, process: ProcessId);
}

/// Everything that was not as it must be, in words. Empty for a machine that conforms.
pub fn violations<B: Bench>(bench: &mut B) -> Vec<String> {
    let mut check = Check {
        bench,
        violations: Vec::new(),
    };
    check.clocks();
    check.observations();
    check.promotion_and_demotion();
    check.zero_filled();
    check.shared_since_a_fork();
    check.order_of_outcomes();
    check.what_is_not_there();
    check.violations
}

struct Check<'a, B> {
    bench: &'a mut B,
    violations: Vec<String>,
}

impl<B: Bench> Check<'_, B> {
    fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.violations.push(what.to_owned());
        }
    }

    fn clocks(&mut self) {
        let machine = self.bench.machine();
        let before = (machine.now(), machine.cpu_time());
        let rest = Duration::from_millis(20);
        machine.rest(rest);
        let after = (machine.now(), machine.cpu_time());
        self.expect(
            after.0 >= before.0 + rest,
            "a rest is shorter than asked for",
        );
        self.expect(after.1 >= before.1, "CPU time goes backwards");
    }

    /// What is seen of a process now. `None`, and a violation, where nothing is.
    fn look(&mut self, process: ProcessId) -> Option<ProcessObservation> {
        let observation = self.bench.machine().observe();
        let Ok(observation) = observation else {
            self.expect(false, "nothing can be observed");
            return None;
        };
        let mut normal = observation.clone();
        normal.normalise();
        self.expect(
            normal == observation,
            "an observation is not in its normal form",
        );
        let memory = &observation.memory;
        self.expect(
            memory.contiguity <= memory.free && memory.free <= memory.total,
            "more is contiguous than free, or more free than there is",
        );
        let mut processes = observation.processes.into_iter();
        processes.find(|observed| observed.process == process)
    }

    fn look_at(&mut self, process: ProcessId, region: Region) -> Option<RegionObservation> {
        let observed = self.look(process)?;
        let mut regions = observed.regions.into_iter();
        let found = regions.find(|observed| observed.region == region);
        self.expect(found.is_some(), "a region with pages is not observed");
        found
    }

    fn observations(&mut self) {
        let (process, first) = self.bench.start(3, 200, 0);
        let Some(observed) = self.look(process) else {
            self.expect(false, "a process that was started is not observed");
            return;
        };
        self.expect(
            !observed.accesses_known,
            "the first look at a process claims to know its accesses",
        );
        let mapped: Vec<_> = observed
            .regions
            .iter()
            .map(|region| region.mapped)
            .collect();
        self.expect(
            mapped == [200; 3],
            "the mapped pages of regions are not those that were mapped",
        );
        self.expect(
            observed
                .regions
                .iter()
                .all(|region| region.page_size == PageSize::Base),
            "base pages are observed as something else",
        );
        self.bench.touch(process, first);
        self.glance(process);
        let Some(observed) = self.look(process) else {
            return;
        };
        if observed.accesses_known {
            let accessed: Vec<_> = observed
                .regions
                .iter()
                .map(|region| region.accessed)
                .collect();
            self.expect(
                accessed == [200, 0, 0],
                "the pages accessed between two looks are not those that were used",
            );
        }
        self.bench.end(process);
        let gone = self.look(process).is_none();
        self.expect(gone, "a process that ended is still observed");
    }

    /// What was used of three regions since they were observed is the 200 pages of the first.
    fn glance(&mut self, process: ProcessId) {
        let machine = self.bench.machine();
        if !machine.can_glance() {
            return;
        }
        let glances = machine.glance();
        let glance = glances.iter().find(|glance| glance.process == process);
        let regions = glance.iter().flat_map(|glance| &glance.regions);
        let accessed: Vec<_> = regions.map(|region| region.accessed).collect();
        self.expect(
            accessed == [200, 0, 0],
            "a glance does not see the pages that were used since the last look",
        );
    }

    fn act(&mut self, kind: ActionKind, process: ProcessId, region: Region) -> Option<Outcome> {
        let target = RegionRef { process, region };
        let outcomes = self.bench.machine().act(&[Action { kind, target }]);
        self.expect(outcomes.len() == 1, "one action has not one outcome");
        outcomes.first().copied()
    }

    fn promotion_and_demotion(&mut self) {
        let (process, region) = self.bench.start(1, 300, 0);
        let promoted = self.act(ActionKind::Promote, process, region);
        let expected = Outcome::Done {
            resident_before: 300 * BASE_PAGE_SIZE,
            resident_after: HUGE_PAGE_SIZE,
        };
        self.expect(
            promoted == Some(expected),
            "a promotion does not report what it did",
        );
        let seen = self.look_at(process, region);
        let is_huge = |seen: RegionObservation| {
            seen.page_size == PageSize::Huge && seen.mapped == PAGES_PER_REGION
        };
        self.expect(
            seen.is_some_and(is_huge),
            "a promoted region is not seen as huge",
        );
        self.look(process);
        self.bench.touch(process, region);
        if let Some(seen) = self.look_at(process, region) {
            let whole = seen.accessed == PAGES_PER_REGION;
            self.expect(
                whole,
                "a huge page that was used is not seen as accessed whole",
            );
        }
        let again = self.act(ActionKind::Promote, process, region);
        self.expect(
            again == Some(Outcome::AlreadySo),
            "a huge region is promoted again",
        );

        let demoted = self.act(ActionKind::Demote, process, region);
        let is_done = matches!(
            demoted,
            Some(Outcome::Done { resident_before: HUGE_PAGE_SIZE, resident_after })
                if (300 * BASE_PAGE_SIZE..=HUGE_PAGE_SIZE).contains(&resident_after)
        );
        self.expect(is_done, "a demotion does not report what it did");
        if let Some(seen) = self.look_at(process, region) {
            let is_base = seen.page_size == PageSize::Base && seen.mapped >= 300;
            self.expect(
                is_base,
                "a demoted region is not seen as base pages with all its data",
            );
        }
        let again = self.act(ActionKind::Demote, process, region);
        self.expect(again == Some(Outcome::AlreadySo), "base pages are demoted");
        self.bench.end(process);
    }

    fn zero_filled(&mut self) {
        let (process, region) = self.bench.start(1, 100, 50);
        let target = RegionRef { process, region };
        let before = self.bench.machine().count_zero_filled(target);
        self.expect(before == Some(50), "zero-filled base pages are not counted");
        self.act(ActionKind::Promote, process, region);
        let after = self.bench.machine().count_zero_filled(target);
        self.expect(
            after == Some(412),
            "zero-filled parts of a huge page are not counted",
        );
        self.bench.end(process);
    }

    /// A copy of what a child shares would be memory more, and the kernel splits no huge page that a child has, too.
    fn shared_since_a_fork(&mut self) {
        let (process, region) = self.bench.start(2, 512, 0);
        let next = Region::containing(region.end());
        self.act(ActionKind::Promote, process, next);
        self.look(process);
        if self.bench.fork(process) {
            let busy = Some(Outcome::Failed(Cause::Busy));
            let promoted = self.act(ActionKind::Promote, process, region);
            self.expect(
                promoted == busy,
                "what is shared since a fork does not fail to be promoted as busy",
            );
            let demoted = self.act(ActionKind::Demote, process, next);
            self.expect(
                demoted == busy,
                "what is shared since a fork does not fail to be demoted as busy",
            );
        }
        self.bench.end(process);
    }

    /// Actions are performed in order, and each has an outcome of its own.
    fn order_of_outcomes(&mut self) {
        let (process, region) = self.bench.start(2, 512, 0);
        let next = Region::containing(region.end());
        let action = |kind, region| Action {
            kind,
            target: RegionRef { process, region },
        };
        let outcomes = self.bench.machine().act(&[
            action(ActionKind::Promote, region),
            action(ActionKind::Promote, next),
            action(ActionKind::Demote, region),
            action(ActionKind::Promote, next),
        ]);
        let done = |place: usize| matches!(outcomes.get(place), Some(Outcome::Done { .. }));
        let is_so = outcomes.get(3) == Some(&Outcome::AlreadySo);
        let holds = outcomes.len() == 4 && done(0) && done(1) && done(2) && is_so;
        self.expect(
            holds,
            "outcomes are not those of the actions, in their order",
        );
        self.bench.end(process);
    }

    fn what_is_not_there(&mut self) {
        let (process, region) = self.bench.start(1, 512, 0);
        let giant = self
            .bench
            .machine()
            .observe()
            .is_ok_and(|seen| seen.giant_pages);
        let outcome = self.act(ActionKind::PromoteGiant, process, region);
        let expected = if giant {
            Cause::NotHuge
        } else {
            Cause::NotEligible
        };
        let is_refused = matches!(outcome, Some(Outcome::Failed(cause)) if cause == expected
            || cause == Cause::NotEligible);
        self.expect(is_refused, "a giant page is made of base pages");
        self.bench.end(process);
        let outcome = self.act(ActionKind::Promote, process, region);
        self.expect(
            outcome == Some(Outcome::Failed(Cause::Gone)),
            "acting on a process that ended does not fail as gone",
        );
        let target = RegionRef { process, region };
        let count = self.bench.machine().count_zero_filled(target);
        self.expect(
            count.is_none(),
            "the memory of a process that ended is counted",
        );
    }
}
