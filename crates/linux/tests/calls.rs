//! Calls of a program that is told what to do are seen, each with its addresses, in its order.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::Path;

use common::skip;
use common::subject::Subject;
use mega_core::{CallKind, HUGE_PAGE_SIZE};
use mega_linux::calls::{Calls, Place};
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

/// Whether this kernel can run a program at a single system call: it has BTF, and `CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS`, without
/// which it has no such function.
fn runs_at_own_calls() -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let has = |name: &str| symbols.lines().any(|line| line.ends_with(name));
    Path::new("/sys/kernel/btf/vmlinux").exists() && has(" register_ftrace_direct")
}

/// At the calls that change mappings alone; at all calls where the kernel cannot do that, or something that guards the machine forbids it.
fn where_allowed() -> Result<Calls, String> {
    Calls::open(Place::OwnCalls, &LiveKernel).or_else(|why| {
        let is_forbidden = why.contains("CAP_PERFMON");
        assert!(is_forbidden || !runs_at_own_calls(), "{why}");
        Calls::open(Place::AllCalls, &LiveKernel)
    })
}

#[test]
fn what_a_program_does_to_its_mappings_is_seen() {
    match where_allowed() {
        Ok(calls) => sees_what_a_program_does(calls),
        Err(why) => skip("what_a_program_does_to_its_mappings_is_seen", &why),
    }
}

/// Every kernel that runs BPF programs has this tracepoint, also where it is not needed.
#[test]
fn it_is_seen_at_all_calls_too() {
    match Calls::open(Place::AllCalls, &LiveKernel) {
        Ok(calls) => sees_what_a_program_does(calls),
        Err(why) => skip("it_is_seen_at_all_calls_too", &why),
    }
}

fn sees_what_a_program_does(mut calls: Calls) {
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
    let mut calls = match where_allowed() {
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
