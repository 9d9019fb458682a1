//! Every `mega workload`, small: it gets ready, ends when its time is over, and finds its data right.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use mega_lab::subject::Subject;
use mega_lab::workload::report::{Done, Event, Ready};

/// The workload `arguments`, without its other options.
fn mega_lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mega-lab"));
    command.arg("workload").args(arguments);
    command
}

/// The same, with its events as JSON.
fn workload(arguments: &[&str]) -> Command {
    let mut command = mega_lab(arguments);
    command.arg("--json");
    command
}

/// Starts a workload and waits until its memory is as it says.
fn start(command: &mut Command) -> (Subject, Ready) {
    let mut subject = Subject::start(command.stderr(Stdio::null())).expect("the command starts");
    let ready = subject.ready().expect("the workload gets ready");
    (subject, ready)
}

/// Tells it to end, and waits for what it came to. Its data must be right.
fn finish(subject: Subject) -> Done {
    subject.finish().expect("the workload ends well")
}

/// Bytes as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Those with threads are also run with two.
const WITH_THREADS: [&str; 7] = [
    "random",
    "gups",
    "chase",
    "btree",
    "graph-bfs",
    "hash-join",
    "xs-lookup",
];
const OTHERS: [&[&str]; 17] = [
    &["paced"],
    &["sparse"],
    &["hot-cold"],
    &["zeros"],
    &["small"],
    &["churn"],
    &["mixed"],
    &["stride"],
    &["chunks"],
    &["cycle"],
    &["matrix"],
    &["grow"],
    &["grow", "--objects"],
    &["grow", "--bursts"],
    &["grow", "--bursts", "--objects"],
    &["grow", "--bursts", "--busy=4MiB"],
    &["grow", "--bursts", "--objects", "--busy=4MiB"],
];

/// What it says first and last, when run for a moment over 16 MiB.
fn events(arguments: &[&str]) -> (Ready, Done) {
    let mut command = workload(arguments);
    let output = command
        .args(["--size=16MiB", "--seconds=0.02", "--advise"])
        .output()
        .expect("the command starts");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let mut events = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"));
    match (events.next(), events.next_back()) {
        (Some(Event::Ready(ready)), Some(Event::Done(done))) => (ready, done),
        _ => panic!("{arguments:?}: {said}"),
    }
}

#[test]
fn those_with_threads_tell_the_rates_of_one_and_of_all() {
    for name in WITH_THREADS {
        let (ready, alone) = events(&[name]);
        assert_eq!(ready.areas.len(), 1, "{name}");
        assert_eq!(ready.areas[0].bytes, 16 << 20, "{name}");
        assert!(alone.verified && alone.operations > 0, "{name}: {alone:?}");
        assert_eq!(alone.all_threads, None, "{name}");

        let (_, together) = events(&[name, "--threads=2"]);
        assert!(together.verified, "{name}: {together:?}");
        let all = together.all_threads.expect("the rates of both threads");
        assert_eq!(all.threads, 2, "{name}");
        assert!(
            all.operations_per_second_over_time.since(0.0) > Some(0.0),
            "{name}"
        );
    }
}

#[test]
fn the_others_do_something_and_find_their_data_right() {
    for arguments in OTHERS {
        let (_, done) = events(arguments);
        assert!(
            done.verified && done.operations > 0,
            "{arguments:?}: {done:?}"
        );
        let grows = matches!(arguments[0], "grow" | "mixed");
        assert_eq!(done.first_touch.is_some(), grows, "{arguments:?}");
    }
}

/// A program over 16 MiB that runs until its input ends, and rests meanwhile when told to.
fn until_eof(arguments: &[&str]) -> Command {
    let mut command = workload(arguments);
    command.args(["--size=16MiB", "--until-eof"]);
    command
}

#[test]
fn those_with_threads_rest_when_told_to_and_count_only_their_work() {
    let rest = Duration::from_millis(300);
    for name in WITH_THREADS {
        let (mut subject, _) = start(&mut until_eof(&[name, "--threads=2"]));
        let mut rests = Vec::new();
        for _ in 0..2 {
            subject.tell("rest").expect("it reads");
            let Event::Resting(resting) = subject.event().expect("an event") else {
                panic!("{name} does not rest");
            };
            rests.push(resting.seconds);
            sleep(rest);
            subject.tell("work").expect("it reads");
        }
        assert!(rests[1] > rests[0] + rest.as_secs_f64(), "{name}");
        let done = finish(subject);
        assert!(done.verified && done.operations > 0, "{name}: {done:?}");
        let all = done.all_threads.as_ref().expect("the rates of both");
        let stretches = [
            &done.operations_per_second_over_time.0,
            &all.operations_per_second_over_time.0,
        ];
        assert_eq!(stretches[0].len(), stretches[1].len(), "{name}");
        let worked: f64 = stretches
            .into_iter()
            .flatten()
            .map(|stretch| stretch.to - stretch.from)
            .sum();
        let most = done.seconds - 2.0 * rest.as_secs_f64();
        assert!(worked <= most, "{name}: worked {worked} of at most {most}");
        let after = stretches[0].iter().find(|stretch| stretch.from >= rests[0]);
        let after = after.expect("work between the rests");
        let least = rests[0] + rest.as_secs_f64();
        assert!(after.from >= least, "{name}: {after:?}");
    }
}

#[test]
fn the_end_of_its_input_ends_one_that_rests() {
    let (mut subject, _) = start(&mut until_eof(&["random"]));
    subject.tell("rest").expect("it reads");
    assert!(matches!(subject.event(), Ok(Event::Resting(_))));
    assert!(finish(subject).verified);
}

#[test]
fn its_time_ends_one_that_rests() {
    let (mut subject, _) = start(until_eof(&["random"]).arg("--seconds=0.5"));
    // Too late where the machine stood still: its time ends it all the same.
    let _ = subject.tell("rest");
    let done = subject.wait().expect("its own end");
    assert!(done.verified && done.seconds >= 0.5, "{done:?}");
}

#[test]
fn those_that_never_rest_work_on() {
    let (mut subject, _) = start(&mut until_eof(&["churn"]));
    subject.tell("rest").expect("it reads");
    sleep(Duration::from_millis(20));
    assert!(finish(subject).operations > 0);
}

/// Gives it an input, and lets it run to its end.
fn with_input(command: &mut Command, input: &str) -> Output {
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child: Child = piped.spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("its input");
    pipe.write_all(input.as_bytes()).expect("it reads");
    // Still open: what ends the program is what it was told.
    let output = child.wait_with_output().expect("its end");
    drop(pipe);
    output
}

#[test]
fn a_line_that_is_no_order_is_an_error() {
    for arguments in [["random"].as_slice(), &["gups", "--threads=2"], &["churn"]] {
        let output = with_input(&mut until_eof(arguments), "rest\nwork\nsleep\n");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains("`sleep` is none of"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!text(&output.stdout).contains("\"done\""), "{arguments:?}");
    }
}

#[test]
fn in_words_it_says_that_it_rests() {
    let mut command = mega_lab(&["random", "--size=16MiB", "--until-eof"]);
    command.arg("--seconds=0.5");
    let output = with_input(&mut command, "rest\n");
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[1].starts_with("resting, "), "{said}");
}
