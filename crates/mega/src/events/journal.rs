//! The daemon's log: lines on standard error, or under systemd entries of the journal with fields of their own.

use std::io::IsTerminal;
use std::os::linux::fs::MetadataExt;

use tracing::Level;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::change::{Change, Severity};

/// Starts the log.
pub(crate) fn start() {
    let journal = is_journal().then(tracing_journald::layer);
    // A journal that cannot be reached gets the lines by standard error all the same.
    match journal.and_then(Result::ok) {
        Some(journal) => {
            let journal = journal
                .with_field_prefix(Some("MEGA".to_owned()))
                .with_priority_mappings(PriorityMappings {
                    info: Priority::Informational,
                    debug: Priority::Debug,
                    ..PriorityMappings::new()
                });
            tracing_subscriber::registry().with(journal).init();
        }
        None => start_lines(),
    }
}

/// Whether standard error is the journal (`systemd.exec(5)`, `$JOURNAL_STREAM`).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let own = std::fs::metadata("/proc/self/fd/2");
    own.is_ok_and(|own| stream == format!("{}:{}", own.st_dev(), own.st_ino()))
}

/// Lines without times, which those who keep them add, and without fields, which the words repeat.
fn start_lines() {
    let colour = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let message_only = format::debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{value:?}"),
        _ => Ok(()),
    });
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .without_time()
        .fmt_fields(message_only)
        .init();
}

/// Writes an entry about a change, in these words. Its fields are those of the event, as far as it has them.
pub(crate) fn report(change: &Change, words: &str) {
    let event = change.name();
    let selection = change.selection();
    let pid = change.who().map(|who| who.pid);
    let command = change.who().map(|who| who.name.as_str());
    let coverage = change.fulfilment().map(|found| found.coverage);
    let promised = change.fulfilment().map(|found| found.promised);
    macro_rules! entry {
        ($level:expr) => {
            tracing::event!(
                $level, event, selection, pid, command, coverage, promised, "{words}"
            )
        };
    }
    match change.severity() {
        Severity::Debug => entry!(Level::DEBUG),
        Severity::Info => entry!(Level::INFO),
        Severity::Warning => entry!(Level::WARN),
        Severity::Error => entry!(Level::ERROR),
    }
}
