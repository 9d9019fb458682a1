//! What every recorder of this program writes: `mega record`, which only looks, and a manager that records what it sees and does.
//! And how all that read one open it.

mod calls;
mod folder;
mod tape;
mod told;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::{Duration, SystemTime};

use mega_core::promotion;
use mega_linux::Host;
use mega_linux::calibrate;
use mega_record::{Header, Reader, Usable};

use crate::config::Settings;
use crate::exit::Failure;

pub(crate) use calls::{Heard, Shared};
pub(crate) use folder::Folder;
pub(crate) use tape::Tape;
pub(crate) use told::{Told, free_lists};

/// Creates the file before anything is recorded, so that a path that cannot be written is found out at once.
///
/// # Errors
/// Where it cannot be created.
pub(crate) fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    File::create(path).map(BufWriter::new).map_err(|error| {
        Failure::Failed(format!(
            "cannot write the recording to {}: {error}",
            path.display()
        ))
    })
}

/// Opens a recording to read its looks.
///
/// # Errors
/// Where it cannot be read, or is no recording.
pub(crate) fn open(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::Failed(format!("cannot read the recording {path}: {why}"))
    };
    let file = File::open(path).map_err(|error| cannot(&error))?;
    Reader::new(BufReader::new(file)).map_err(|error| cannot(&error))
}

/// Sees that a recording has something to show.
///
/// # Errors
/// Where none of its looks is usable.
pub(crate) fn need_look(path: &Path, usable: &Usable) -> Result<(), Failure> {
    if usable.looks > 0 {
        return Ok(());
    }
    let path = path.display();
    let why = format!("the recording {path} has no look: {usable}");
    Err(Failure::Failed(why))
}

/// Now, in seconds since 1970.
fn began_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0, |time| time.as_secs())
}

/// A header that says what holds for this machine. `interval` is the time between two looks; `None` where the manager chooses it.
pub(crate) fn header(host: &Host, subject: &str, interval: Option<Duration>) -> Header {
    let examination = host.examination();
    let interval = interval.unwrap_or_default().as_millis();
    Header {
        recorder: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: examination.kernel_release.clone(),
        tracker: host.tracker_kind().to_string(),
        subject: subject.to_owned(),
        began: began_now(),
        interval_ms: u64::try_from(interval).unwrap_or(u64::MAX),
        cpus: std::thread::available_parallelism()
            .map_or(0, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
        split_gives_back: examination.split_gives_back(),
        is_guest: Some(host.is_guest()),
        ..Header::default()
    }
}

/// The same of what a manager sees and does with these settings.
pub(crate) fn managed_header(host: &Host, subject: &str, settings: &Settings) -> Header {
    let mut policies = promotion::registry().iter();
    let policy = policies.find(|policy| policy.name == settings.policy);
    let asks = policy.is_some_and(|policy| policy.asks_for_gains);
    let is_calibrated = calibrate::kept(host.kernel().as_ref()).is_some();
    let measures = asks && !host.is_dry_run() && is_calibrated;
    Header {
        policy: Some(settings.policy.clone()),
        touches: measures,
        calibrated: measures,
        ..header(host, subject, settings.interval.fixed())
    }
}
