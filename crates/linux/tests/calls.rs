//! Calls of a program that is told what to do are seen, each with its addresses, in its order.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use common::skip;
use common::subject::Subject;
use mega_core::{CallKind, HUGE_PAGE_SIZE};
use mega_linux::calls::Calls;
use mega_linux::kernel::{Kernel, LiveKernel};
use rustix::process::{Pid, Signal, kill_process};

/// What is seen of these commands.
fn seen(calls: &mut Calls, subject: &mut Subject, commands: &[String]) -> Vec<CallKind> {
    let began = LiveKernel.now();
    for command in commands {
        subject.ask(command);
    }
    let end = LiveKernel.now();
    let (seen, lost) = calls.take();
    assert_eq!(lost, 0);
    let inside = |call: &mega_core::Call| {
        call.process == subject.process() && (began..=end).contains(&call.at)
    };
    assert!(seen.iter().all(inside), "{seen:?}");
    seen.into_iter().map(|call| call.kind).collect()
}

#[test]
fn what_a_program_does_to_its_mappings_is_seen() {
    let name = "what_a_program_does_to_its_mappings_is_seen";
    let mut calls = match Calls::open(&LiveKernel) {
        Ok(calls) => calls,
        Err(why) => return skip(name, &why),
    };
    let mut subject = Subject::start();
    let mut other = Subject::start();
    calls.watch([subject.process()].into_iter());
    let (first, lost) = calls.take();
    assert_eq!((first, lost), (Vec::new(), 0));

    // The subject cuts a larger mapping to a whole number of regions.
    let range = subject.map("private", 4);
    let (mapped, _) = calls.take();
    let last_mapped = mapped
        .iter()
        .rev()
        .find_map(|call| match &call.kind {
            CallKind::Mapped(mapped) => Some(mapped.clone()),
            _ => None,
        })
        .unwrap();
    assert!(last_mapped.start <= range.start && range.end <= last_mapped.end);

    let part =
        |from: u64, to: u64| range.start + from * HUGE_PAGE_SIZE..range.start + to * HUGE_PAGE_SIZE;
    let command =
        |what: &str, range: &std::ops::Range<u64>| format!("{what} {} {}", range.start, range.end);
    let (discarded, unmapped, small) = (part(0, 2), part(2, 4), range.start..range.start + 4096);
    let unseen = other.map("private", 1);
    other.ask(&command("unmap", &unseen));
    let commands = [
        command("dontneed", &discarded),
        // Not a whole 64 KiB, and another advice.
        command("dontneed", &small),
        command("huge", &discarded),
        command("unmap", &unmapped),
    ];
    assert_eq!(
        seen(&mut calls, &mut subject, &commands),
        [CallKind::Discarded(discarded), CallKind::Unmapped(unmapped)]
    );
    let child = seen(&mut calls, &mut subject, &["fork".to_owned()]);
    let [CallKind::Forked(child)] = child.as_slice() else {
        panic!("{child:?}");
    };
    assert_ne!(child.pid, subject.pid());
    // It would live on.
    let child = Pid::from_raw(i32::try_from(child.pid).unwrap()).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    calls.watch(std::iter::empty());
    subject.map("private", 1);
    assert_eq!(calls.take(), (Vec::new(), 0));
}

#[test]
fn more_calls_than_are_kept_are_counted() {
    let name = "more_calls_than_are_kept_are_counted";
    let mut calls = match Calls::open(&LiveKernel) {
        Ok(calls) => calls,
        Err(why) => return skip(name, &why),
    };
    let mut subject = Subject::start();
    let range = subject.map("private", 1);
    calls.watch([subject.process()].into_iter());
    calls.take();
    let command = format!("dontneed {} {}", range.start, range.end);
    for _ in 0..1100 {
        subject.ask(&command);
    }
    let (seen, lost) = calls.take();
    assert_eq!((seen.len(), lost), (1024, 76));
    subject.ask(&command);
    let (seen, lost) = calls.take();
    assert_eq!((seen.len(), lost), (1, 0));
}
