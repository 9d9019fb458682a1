//! The touch meter against a process that counts its touches.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::skip;
use common::subject::Subject;
use mega_core::worth::Touches;
use mega_core::{Machine, PageSize, ProcessId, RegionObservation};
use mega_linux::touches::Effort;
use mega_linux::{Host, HostOptions, LinuxMachine, MachineOptions, TrackerKind};

/// Held by tests that use a whole CPU, so that one does not slow the other down while it is measured.
static CPU: Mutex<()> = Mutex::new(());

/// A machine whose tracker reads single pages' bits, or the reason why there is none.
fn machine(test: &str) -> Option<LinuxMachine> {
    let host = match Host::open(HostOptions::default()) {
        Ok(host) => host,
        Err(error) => {
            skip(test, &error.to_string());
            return None;
        }
    };
    match host.tracker_kind() {
        TrackerKind::Bpf | TrackerKind::Module => {
            Some(LinuxMachine::new(Arc::new(host), MachineOptions::default()))
        }
        kind => {
            skip(test, &format!("the {kind} tracker reads no single bits"));
            None
        }
    }
}

/// More looks in less time than a program that matters would be asked to bear.
fn hard() -> Effort {
    Effort {
        at_most: Duration::from_secs(3),
        share: 0.2,
        ..Effort::default()
    }
}

#[test]
fn touches_at_random_are_counted() {
    let _cpu = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut machine) = machine("touches_at_random_are_counted") else {
        return;
    };
    let mut subject = Subject::start();
    let memory = subject.map("private", 64);
    subject.advise("nohuge", &memory);
    subject.fill(&memory, 1);
    let half = memory.start..memory.start + (memory.end - memory.start) / 2;
    subject.ask(&format!("work {} {}", half.start, half.end));
    let mut counted = || {
        let (worked, used) = (subject.ask("worked"), subject.ask("used"));
        let touches = machine.measure_touches(subject.process(), hard()).unwrap();
        let (worked, used) = (subject.ask("worked") - worked, subject.ask("used") - used);
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let truth = worked as f64 / (used as f64 / 1e9);
        (touches, truth)
    };
    // On a busy machine single rounds say little, and now and then all of a measurement; a wrong meter is off by far more, each time.
    let agrees = |(touches, truth): &(Touches, f64)| {
        let found = touches.per_cpu_second;
        found.high > truth / 2.0
            && found.low < truth * 2.0
            && found.value > truth / 4.0
            && found.value < truth * 4.0
    };
    let mut measured = counted();
    for _ in 0..2 {
        if !agrees(&measured) {
            measured = counted();
        }
    }
    let (touches, truth) = &measured;
    let found = touches.per_cpu_second;
    assert!(
        agrees(&measured),
        "{truth} touches a CPU second, {found:?} found"
    );
    assert!(touches.cpu_share > 0.0 && touches.cpu_share < 1.5);
    // So small a memory is touched so often that all lines are soon touched: neighbours seem to come together.
    assert!((1.0..=8.0).contains(&touches.pages_per_line));
    assert!((1.0..=512.0).contains(&touches.touches_per_visit));
    assert!(touches.huge.is_none());
    let mapping = touches
        .mappings
        .iter()
        .find(|mapping| mapping.range.start <= half.start && half.start < mapping.range.end)
        .unwrap();
    // Its own looks give its rate, and rounds over all memory the whole's.
    assert!(mapping.per_cpu_second > 0.25 * found.value);
    let idle = touches
        .regions
        .iter()
        .filter(|seen| seen.region.start() >= half.end);
    assert!(idle.clone().count() > 0);
    assert!(idle.clone().all(|seen| seen.per_cpu_second == 0.0));
    let half = half.end - half.start;
    assert!(
        (half / 4..half * 4).contains(&touches.working_set),
        "{touches:?}"
    );
}

#[test]
fn another_thread_at_work_does_not_hold_the_meter_up() {
    let _cpu = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let test = "another_thread_at_work_does_not_hold_the_meter_up";
    let Some(mut machine) = machine(test) else {
        return;
    };
    let mut subject = Subject::start();
    let memory = subject.map("private", 16);
    subject.advise("nohuge", &memory);
    subject.fill(&memory, 1);
    subject.ask(&format!("work {} {}", memory.start, memory.end));
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    let busy = std::thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    // A round of its own time is short; one of the other thread's too would have it rest for half of all there is.
    let effort = Effort {
        at_most: Duration::from_secs(2),
        share: 0.02,
        precision: 0.0,
        ..Effort::default()
    };
    let touches = machine.measure_touches(subject.process(), effort);
    ended.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    let touches = touches.unwrap();
    assert!(touches.tell_how_often(), "{touches:?}");
}

#[test]
fn a_process_at_rest_touches_nothing() {
    let Some(mut machine) = machine("a_process_at_rest_touches_nothing") else {
        return;
    };
    let mut subject = Subject::start();
    let memory = subject.map("private", 8);
    subject.advise("nohuge", &memory);
    subject.fill(&memory, 1);
    let sum = subject.sum(&memory, 1);
    let effort = Effort {
        at_most: Duration::from_millis(500),
        ..hard()
    };
    let touches = machine.measure_touches(subject.process(), effort).unwrap();
    assert_eq!(touches.per_cpu_second.value, 0.0);
    assert_eq!(touches.working_set, 0);
    assert_eq!(subject.sum(&memory, 1), sum);
}

/// The regions of the subject's memory, as the manager observes them.
fn observed(machine: &mut LinuxMachine, process: ProcessId) -> Vec<RegionObservation> {
    let observation = machine.observe().unwrap();
    let mut found = observation.processes.into_iter();
    found
        .find(|found| found.process == process)
        .unwrap()
        .regions
}

#[test]
fn what_it_clears_counts_as_accessed_in_the_interval() {
    let Some(mut machine) = machine("what_it_clears_counts_as_accessed_in_the_interval") else {
        return;
    };
    let mut subject = Subject::start();
    let memory = subject.map("private", 4);
    subject.advise("nohuge", &memory);
    subject.fill(&memory, 1);
    let process = subject.process();
    machine.set_targets(vec![process]);
    observed(&mut machine, process);
    subject.advise("flush", &memory);
    subject.touch(&memory, 2);
    let effort = Effort {
        at_most: Duration::from_millis(500),
        ..hard()
    };
    machine.measure_touches(process, effort).unwrap();
    let inside = |seen: &RegionObservation| memory.contains(&seen.region.start());
    let regions = observed(&mut machine, process);
    let accessed: Vec<u16> = regions
        .iter()
        .filter(|seen| inside(seen))
        .map(|seen| seen.accessed)
        .collect();
    assert_eq!(accessed.len(), 4);
    // Others may clear bits too, DAMON say. A meter that loses what it clears leaves hardly one.
    assert!(accessed.iter().all(|pages| *pages >= 128), "{accessed:?}");
    let regions = observed(&mut machine, process);
    let next = regions.iter().filter(|seen| inside(seen));
    assert!(next.clone().all(|seen| seen.accessed < 128), "{regions:?}");
    assert!(next.clone().all(|seen| seen.page_size == PageSize::Base));
}
