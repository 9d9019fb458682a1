//! The global mode of transparent huge pages, and putting it back whatever happens.
//!
//! Whoever changes it records first, in the run directory, what it was; several megas may hold it changed at
//! once, each owning one entry of the record, and the last one out restores it. What a killed mega left is
//! put back by the next one ([`restore_stale`]): an owner that no longer runs owns nothing.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mega_core::ProcessId;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::{Error, process};

/// Where the kernel keeps it.
pub const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

const RECORD: &str = "thp_mode.json";
const LOCK: &str = "thp_mode.lock";

/// The global mode of transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThpMode {
    /// Faults take huge pages wherever a region fits.
    Always,
    /// Faults take huge pages only where the program asked by `madvise`.
    Madvise,
    /// Faults take base pages.
    Never,
}

impl ThpMode {
    /// As the kernel spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ThpMode::Always => "always",
            ThpMode::Madvise => "madvise",
            ThpMode::Never => "never",
        }
    }

    /// What page faults take under it, in words.
    #[must_use]
    pub const fn faults_take(self) -> &'static str {
        match self {
            ThpMode::Always => "huge pages wherever a region fits",
            ThpMode::Madvise => "base pages, except where a program asks for huge ones by madvise",
            ThpMode::Never => "base pages",
        }
    }

    /// Reads the kernel's text, in which the mode in force stands in brackets. `None` where there is none.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (_, rest) = text.split_once('[')?;
        match rest.split_once(']')?.0 {
            "always" => Some(ThpMode::Always),
            "madvise" => Some(ThpMode::Madvise),
            "never" => Some(ThpMode::Never),
            _ => None,
        }
    }
}

impl std::fmt::Display for ThpMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the mode in force.
///
/// # Errors
/// [`Error::Missing`] where the kernel has no transparent huge pages.
pub fn read(kernel: &dyn Kernel) -> Result<ThpMode, Error> {
    let path = Path::new(PATH);
    let text = kernel
        .read(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => Error::Missing {
                feature: "transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)".to_owned(),
                remedy: "this kernel was built without them; use a distribution's kernel"
                    .to_owned(),
            },
            _ => Error::io("read", path)(error),
        })?;
    ThpMode::parse(&text).ok_or_else(|| Error::Malformed {
        path: path.to_owned(),
        reason: "names no mode in brackets".to_owned(),
    })
}

fn write(kernel: &dyn Kernel, mode: ThpMode) -> Result<(), Error> {
    let path = Path::new(PATH);
    kernel
        .write(path, mode.name().as_bytes())
        .map_err(Error::io("write", path))
}

/// One holder of a changed mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    process: ProcessId,
    /// Tells the guards of one process apart.
    serial: u64,
    wants: ThpMode,
}

/// What the mode was before the first owner came, and who wants it otherwise, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    original: ThpMode,
    owners: Vec<Owner>,
}

impl Record {
    /// The mode that the owners together want: the newest one's, or the original one.
    fn wanted(&self) -> ThpMode {
        self.owners
            .last()
            .map_or(self.original, |owner| owner.wants)
    }
}

/// The record, locked against every other mega.
struct Ledger<'a> {
    run_dir: &'a RunDir,
    _lock: File,
}

impl<'a> Ledger<'a> {
    fn lock(run_dir: &'a RunDir) -> Result<Self, Error> {
        let path = run_dir.path().join(LOCK);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| Error::io("lock", &path)(error.into()))?;
        Ok(Ledger {
            run_dir,
            _lock: lock,
        })
    }

    fn load(&self) -> Result<Option<Record>, Error> {
        let path = self.run_dir.path().join(RECORD);
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| Error::Malformed {
                    path,
                    reason: format!("{error}; set {PATH} as you want it and remove this file"),
                }),
        }
    }

    /// Brings mode and record from `before` to `after`, such that a crash at any point is put right by
    /// [`restore_stale`].
    fn change(&self, kernel: &dyn Kernel, before: &Record, after: &Record) -> Result<(), Error> {
        if !after.owners.is_empty() {
            self.store(after)?;
        }
        // A mode that is neither ours nor wanted was set by somebody else since: theirs stays, unless
        // a new owner came to change it.
        let grown = after.owners.len() > before.owners.len();
        let now = read(kernel)?;
        if now != after.wanted() && (grown || now == before.wanted()) {
            write(kernel, after.wanted())?;
        }
        if after.owners.is_empty() {
            self.remove()?;
        }
        Ok(())
    }

    fn store(&self, record: &Record) -> Result<(), Error> {
        let text = serde_json::to_vec(record).map_err(|error| Error::Malformed {
            path: self.run_dir.path().join(RECORD),
            reason: error.to_string(),
        })?;
        self.run_dir.write_atomically(RECORD, &text)
    }

    fn remove(&self) -> Result<(), Error> {
        let path = self.run_dir.path().join(RECORD);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Keeps the global mode changed for as long as it lives.
pub struct Guard {
    kernel: Arc<dyn Kernel>,
    run_dir: RunDir,
    owner: Owner,
    held: bool,
}

impl Guard {
    /// Changes the mode to `wants`, having recorded what it was.
    ///
    /// # Errors
    /// As [`read`]; [`Error::Io`] where the record or the mode cannot be written. Then nothing is changed.
    pub fn set(kernel: Arc<dyn Kernel>, run_dir: &RunDir, wants: ThpMode) -> Result<Self, Error> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let owner = Owner {
            process: process::stat(kernel.as_ref(), std::process::id())?.process(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            wants,
        };
        let ledger = Ledger::lock(run_dir)?;
        let before = match ledger.load()? {
            Some(record) => record,
            None => Record {
                original: read(kernel.as_ref())?,
                owners: Vec::new(),
            },
        };
        let mut after = without_dead(kernel.as_ref(), &before);
        after.owners.push(owner.clone());
        if let Err(error) = ledger.change(kernel.as_ref(), &before, &after) {
            after.owners.pop();
            // The record may be written already; the error that made us undo it is the one to report.
            let _ = ledger.change(kernel.as_ref(), &after, &after);
            return Err(error);
        }
        drop(ledger);
        Ok(Guard {
            kernel,
            run_dir: run_dir.clone(),
            owner,
            held: true,
        })
    }

    /// Gives the mode up: it becomes what the remaining owners want, or what it was.
    ///
    /// # Errors
    /// [`Error::Io`] where mode or record cannot be written; [`restore_stale`] then does it later.
    pub fn restore(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        let ledger = Ledger::lock(&self.run_dir)?;
        let Some(before) = ledger.load()? else {
            return Ok(());
        };
        let mut after = without_dead(self.kernel.as_ref(), &before);
        after.owners.retain(|owner| *owner != self.owner);
        ledger.change(self.kernel.as_ref(), &before, &after)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody is left to report to; the record stays and the next start puts the mode back.
        let _ = self.release();
    }
}

/// What a killed mega left: the mode in force, and the one to put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// The mode that it set.
    pub set: ThpMode,
    /// The mode there was before.
    pub original: ThpMode,
}

/// What a killed mega left changed, if any. Changes nothing.
///
/// # Errors
/// As [`restore_stale`].
pub fn stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Option<Stale>, Error> {
    let ledger = Ledger::lock(run_dir)?;
    Ok(ledger.load()?.and_then(|record| stale_of(kernel, &record)))
}

/// Puts back what killed megas left changed, and says what it was.
///
/// # Errors
/// [`Error::Io`] where mode or record cannot be written, [`Error::Malformed`] where the record is unreadable.
pub fn restore_stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Option<Stale>, Error> {
    let ledger = Ledger::lock(run_dir)?;
    let Some(before) = ledger.load()? else {
        return Ok(None);
    };
    let after = without_dead(kernel, &before);
    if after != before {
        ledger.change(kernel, &before, &after)?;
    }
    Ok(stale_of(kernel, &before))
}

fn stale_of(kernel: &dyn Kernel, record: &Record) -> Option<Stale> {
    without_dead(kernel, record)
        .owners
        .is_empty()
        .then(|| Stale {
            set: record.wanted(),
            original: record.original,
        })
}

fn without_dead(kernel: &dyn Kernel, record: &Record) -> Record {
    let mut record = record.clone();
    record
        .owners
        .retain(|owner| process::is_alive(kernel, owner.process));
    record
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_mode_in_brackets_is_in_force() {
        assert_eq!(
            ThpMode::parse(b"[always] madvise never\n"),
            Some(ThpMode::Always)
        );
        assert_eq!(
            ThpMode::parse(b"always [madvise] never\n"),
            Some(ThpMode::Madvise)
        );
        assert_eq!(
            ThpMode::parse(b"always madvise [never]\n"),
            Some(ThpMode::Never)
        );
        assert_eq!(ThpMode::parse(b"always madvise never\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]a-z ]{0,40}") {
            let _ = ThpMode::parse(&bytes);
            let _ = ThpMode::parse(text.as_bytes());
        }
    }
}
