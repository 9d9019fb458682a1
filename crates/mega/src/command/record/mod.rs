//! `mega record`: writes down what programs map and access, look by look.

mod recorder;
mod subject;
mod touches;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use mega_core::bytes;
use mega_linux::run_dir::RunDir;
use mega_linux::settings::fault::{FaultControl, FaultMode};
use mega_linux::{Host, HostOptions};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::named_selection::NamedSelection;
use crate::cli::Record;
use crate::exit::Failure;
use crate::output;
use crate::recording;
use crate::report::{RecordReport, sizes_in_words};
use crate::signals::Signals;
use crate::supervise::Supervisor;
use recorder::{Recorder, Rhythm};
use subject::Subject;

pub(super) fn run(args: &Record) -> Result<ExitCode, Failure> {
    // A wrong name must not cost the file.
    let select = args
        .select
        .as_deref()
        .map(|name| NamedSelection::load(&args.config, name))
        .transpose()?;
    let host = Arc::new(Host::open(HostOptions {
        dry_run: false,
        tracker: args.tracker.kind(),
    })?);
    if let Some(other) = host.other_module() {
        output::say(&other.to_string());
    }
    if !args.command.is_empty() {
        return command(args, &host);
    }
    let subject = match (args.pid, select) {
        (Some(pid), _) => Subject::process(&host, pid)?,
        (None, Some(select)) => Subject::selection(select),
        (None, None) => return Err(Failure::Usage("nothing to record".to_owned())),
    };
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let recorder = Recorder::begin(
        host,
        subject,
        recording::create(&args.output)?,
        rhythm(args),
        args.all_calls,
    )?;
    let report = recorder.record(&args.output, |pause| goes_on(&signals, pause))?;
    tell(args, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the program and records it and its descendants until it ends.
fn command(args: &Record, host: &Arc<Host>) -> Result<ExitCode, Failure> {
    let file = recording::create(&args.output)?;
    let fault = FaultControl::prepare(host.kernel(), &RunDir::open()?, FaultMode::Base)?;
    let supervisor = Supervisor::new()?;
    // Loading BPF programs may take longer than a short program lives.
    let recorder = Recorder::begin(
        Arc::clone(host),
        Subject::descendants(&args.command),
        file,
        rhythm(args),
        args.all_calls,
    )?;
    let program = supervisor.start(&args.command, &fault)?;
    // Nothing is sent: the channel ends with the program.
    let (has_ended, end) = mpsc::channel::<()>();
    let (code, report) = std::thread::scope(|scope| {
        let recording = scope.spawn(|| {
            recorder.record(&args.output, move |pause| {
                end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
            })
        });
        let code = program.wait();
        drop(has_ended);
        let report = recording
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (code, report)
    });
    match report {
        Ok(report) => tell(args, &report)?,
        // The exit code is the program's.
        Err(failure) => output::say(&failure.to_string()),
    }
    Ok(ExitCode::from(code))
}

fn rhythm(args: &Record) -> Rhythm {
    Rhythm {
        interval: args.interval,
        end: args.time,
    }
}

/// Waits. False where a signal came that says to stop.
fn goes_on(signals: &Signals, pause: Duration) -> bool {
    let timeout = Timespec::try_from(pause).unwrap_or_default();
    let mut fds = [PollFd::new(signals, PollFlags::IN)];
    // An interrupted wait is a short one.
    let _ = poll(&mut fds, Some(&timeout));
    signals.next().is_none()
}

fn tell(args: &Record, report: &RecordReport) -> Result<(), Failure> {
    if args.json {
        return output::print_json(report);
    }
    output::say(&in_words(report));
    Ok(())
}

fn in_words(report: &RecordReport) -> String {
    let mut text = format!(
        "{} looks at {} processes over {:.1} s, in {} ({}); looking took {:.2} % of a core, measuring touches {:.2} %, and recording {:.2} %",
        report.looks,
        report.processes,
        report.seconds,
        report.file.display(),
        bytes::format(report.bytes),
        report.looking_share * 100.0,
        report.measuring_share * 100.0,
        report.recording_share * 100.0,
    );
    if let Some(sizes) = sizes_in_words(report.host_page, report.runs_guest) {
        text += &format!("\n{sizes}");
    }
    if report.missed > 0 {
        text += &format!(
            "\n{} more looks were due and missed: a longer --interval fits this program better",
            report.missed
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::HostPage;

    #[test]
    fn missed_looks_are_told_where_there_are_some() {
        let mut report = RecordReport {
            version: 1,
            file: "a.rec".into(),
            bytes: 2048,
            looks: 10,
            missed: 0,
            seconds: 9.5,
            processes: 2,
            tracker: "bpf".to_owned(),
            looking_share: 0.0123,
            measuring_share: 0.003,
            recording_share: 0.0001,
            host_page: None,
            runs_guest: false,
        };
        assert_eq!(
            in_words(&report),
            "10 looks at 2 processes over 9.5 s, in a.rec (2 KiB); looking took 1.23 % of a core, measuring touches 0.30 %, and recording 0.01 %"
        );
        report.missed = 3;
        assert!(in_words(&report).contains("\n3 more looks"));
    }

    #[test]
    fn a_guest_says_whose_page_sizes_it_recorded() {
        let report = RecordReport {
            host_page: Some(HostPage::Unknown),
            ..RecordReport::default()
        };
        let text = in_words(&report);
        assert!(
            text.ends_with("\npage sizes are this guest's, host unknown"),
            "{text}"
        );
    }
}
