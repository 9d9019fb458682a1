//! Changes settings of the whole machine for a while, and puts them back whatever happens.
//!
//! A setting is a kernel file with one value. Whoever changes it first records, in the run directory, what it was.
//! Several megas may hold it changed at once: each owns one entry of the record, the newest owner's wish holds, and the
//! last one out restores the setting. An owner that no longer runs owns nothing, so the next start puts back what a
//! killed mega left ([`restore_stale`]). What somebody else set since stays.
//!
//! A mega may be killed between any two steps. So a new owner is recorded before its value is written, and an owner that
//! leaves is struck out after the value is written: at each moment every value that may be in force is the original
//! one or the wish of a recorded owner.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mega_core::ProcessId;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::thp_mode;
use crate::{Error, process};

/// The record of the THP mode. Its name is older than those of the others.
const THP_MODE: &str = "thp_mode";
/// How the names of all other records begin.
const PREFIX: &str = "setting-";

/// One holder of a changed setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    process: ProcessId,
    /// Tells the guards of one process apart.
    serial: u64,
    wants: String,
}

/// What a setting was before the first owner came, and who wants it otherwise, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The kernel's file. Records of the THP mode from before there were others do not say it.
    #[serde(default = "path_of_thp_mode")]
    path: PathBuf,
    original: String,
    owners: Vec<Owner>,
}

fn path_of_thp_mode() -> PathBuf {
    thp_mode::PATH.into()
}

impl Record {
    /// The value that the owners together want: the newest one's, or the original one.
    fn wanted(&self) -> &str {
        self.owners
            .last()
            .map_or(&self.original, |owner| &owner.wants)
    }

    /// Whether an owner may have set this value.
    fn is_ours(&self, value: &str) -> bool {
        self.owners.iter().any(|owner| owner.wants == value)
    }

    fn without_dead(&self, kernel: &dyn Kernel) -> Record {
        let mut record = self.clone();
        record
            .owners
            .retain(|owner| process::is_alive(kernel, owner.process));
        record
    }

    /// What killed megas left, where nobody else holds the setting.
    fn stale(&self, kernel: &dyn Kernel) -> Option<Stale> {
        self.without_dead(kernel).owners.is_empty().then(|| Stale {
            path: self.path.clone(),
            set: self.wanted().to_owned(),
            original: self.original.clone(),
        })
    }
}

/// A setting that a killed mega left changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// The kernel's file.
    pub path: PathBuf,
    /// The value that the mega set.
    pub set: String,
    /// The value there was before.
    pub original: String,
}

/// The record of one setting, locked against every other mega.
struct Ledger<'a> {
    kernel: &'a dyn Kernel,
    run_dir: &'a RunDir,
    /// The record's file without its extension.
    name: &'a str,
    _lock: File,
}

impl<'a> Ledger<'a> {
    fn lock(kernel: &'a dyn Kernel, run_dir: &'a RunDir, name: &'a str) -> Result<Self, Error> {
        let path = run_dir.path().join(format!("{name}.lock"));
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| Error::io("lock", &path)(error.into()))?;
        Ok(Ledger {
            kernel,
            run_dir,
            name,
            _lock: lock,
        })
    }

    fn path(&self) -> PathBuf {
        self.run_dir.path().join(self.file())
    }

    fn file(&self) -> String {
        format!("{}.json", self.name)
    }

    fn load(&self) -> Result<Option<Record>, Error> {
        let path = self.path();
        match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| Error::Malformed {
                    path,
                    reason: format!(
                        "{error}; see to the kernel setting it is named after, then remove this file"
                    ),
                }),
        }
    }

    /// Adds an owner, and sets what it wants.
    fn add(&self, path: &Path, owner: Owner) -> Result<(), Error> {
        let mut record = match self.settle()? {
            Some(record) => record,
            None => Record {
                path: path.to_owned(),
                original: read(self.kernel, path)?,
                owners: Vec::new(),
            },
        };
        record.owners.push(owner);
        self.store(&record)?;
        if read(self.kernel, path)? == record.wanted() {
            return Ok(());
        }
        write(self.kernel, path, record.wanted()).inspect_err(|_| {
            // The error that made us undo it is the one to report.
            let before = record.clone();
            record.owners.pop();
            let _ = self.shrink(&before, &record);
        })
    }

    /// Strikes out the owners that no longer run. Says what is left, if anything.
    fn settle(&self) -> Result<Option<Record>, Error> {
        let Some(before) = self.load()? else {
            return Ok(None);
        };
        let after = before.without_dead(self.kernel);
        if after != before || after.owners.is_empty() {
            self.shrink(&before, &after)?;
        }
        Ok((!after.owners.is_empty()).then_some(after))
    }

    /// Strikes out one owner.
    fn remove(&self, owner: &Owner) -> Result<(), Error> {
        let Some(before) = self.settle()? else {
            return Ok(());
        };
        let mut after = before.clone();
        after.owners.retain(|other| other != owner);
        self.shrink(&before, &after)
    }

    /// Brings setting and record from `before` to `after`, which has fewer owners.
    fn shrink(&self, before: &Record, after: &Record) -> Result<(), Error> {
        let now = read(self.kernel, &before.path)?;
        // What is not ours was set by somebody else since: theirs stays.
        if now != after.wanted() && before.is_ours(&now) {
            write(self.kernel, &before.path, after.wanted())?;
        }
        if after.owners.is_empty() {
            let path = self.path();
            std::fs::remove_file(&path).map_err(Error::io("remove", &path))
        } else {
            self.store(after)
        }
    }

    fn store(&self, record: &Record) -> Result<(), Error> {
        let text = serde_json::to_vec(record).map_err(|error| Error::Malformed {
            path: self.path(),
            reason: error.to_string(),
        })?;
        self.run_dir.write_atomically(&self.file(), &text)
    }
}

/// Keeps one setting changed for as long as it lives.
pub struct Guard {
    kernel: Arc<dyn Kernel>,
    run_dir: RunDir,
    name: String,
    owner: Owner,
    held: bool,
}

impl Guard {
    /// Sets the kernel's file `path` to `wants`, having recorded what it was.
    ///
    /// # Errors
    /// [`Error::Io`] where the record or the setting cannot be read or written, [`Error::Malformed`] where the record is
    /// unreadable. Then nothing is changed.
    pub fn set(
        kernel: Arc<dyn Kernel>,
        run_dir: &RunDir,
        path: &Path,
        wants: &str,
    ) -> Result<Self, Error> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let owner = Owner {
            process: process::stat(kernel.as_ref(), std::process::id())?.process(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            wants: wants.to_owned(),
        };
        let name = name_of(path);
        Ledger::lock(kernel.as_ref(), run_dir, &name)?.add(path, owner.clone())?;
        Ok(Guard {
            kernel,
            run_dir: run_dir.clone(),
            name,
            owner,
            held: true,
        })
    }

    /// Gives the setting up: it becomes what the remaining owners want, or what it was.
    ///
    /// # Errors
    /// [`Error::Io`] where setting or record cannot be written; [`restore_stale`] then does it later.
    pub fn restore(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        Ledger::lock(self.kernel.as_ref(), &self.run_dir, &self.name)?.remove(&self.owner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody is left to report to; the record stays and the next start puts the setting back.
        let _ = self.release();
    }
}

/// What killed megas left changed of one setting. Changes nothing.
///
/// # Errors
/// As [`restore_stale`].
pub fn stale_of(
    kernel: &dyn Kernel,
    run_dir: &RunDir,
    path: &Path,
) -> Result<Option<Stale>, Error> {
    find(kernel, run_dir, &name_of(path))
}

/// What killed megas left changed. Changes nothing.
///
/// # Errors
/// As [`restore_stale`].
pub fn stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<Stale>, Error> {
    for_each(run_dir, |name| find(kernel, run_dir, name))
}

/// Puts back what killed megas left changed of one setting, and says what it was.
///
/// # Errors
/// As [`restore_stale`].
pub fn restore_stale_of(
    kernel: &dyn Kernel,
    run_dir: &RunDir,
    path: &Path,
) -> Result<Option<Stale>, Error> {
    restore(kernel, run_dir, &name_of(path))
}

/// Puts back what killed megas left changed, and says what it was. One setting that cannot be put back does not keep the
/// others from it.
///
/// # Errors
/// [`Error::Io`] where a setting or a record cannot be read or written, [`Error::Malformed`] where a record is
/// unreadable.
pub fn restore_stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<Stale>, Error> {
    for_each(run_dir, |name| restore(kernel, run_dir, name))
}

fn find(kernel: &dyn Kernel, run_dir: &RunDir, name: &str) -> Result<Option<Stale>, Error> {
    let record = Ledger::lock(kernel, run_dir, name)?.load()?;
    Ok(record.and_then(|record| record.stale(kernel)))
}

fn restore(kernel: &dyn Kernel, run_dir: &RunDir, name: &str) -> Result<Option<Stale>, Error> {
    let ledger = Ledger::lock(kernel, run_dir, name)?;
    let stale = ledger.load()?.and_then(|record| record.stale(kernel));
    ledger.settle()?;
    Ok(stale)
}

/// Calls `what` with the name of each record, and collects what it found. The first error is reported at the end.
fn for_each(
    run_dir: &RunDir,
    mut what: impl FnMut(&str) -> Result<Option<Stale>, Error>,
) -> Result<Vec<Stale>, Error> {
    let mut found = Vec::new();
    let mut failed = Ok(());
    for name in names(run_dir)? {
        match what(&name) {
            Ok(stale) => found.extend(stale),
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed.map(|()| found)
}

/// The names of all records, sorted.
fn names(run_dir: &RunDir) -> Result<Vec<String>, Error> {
    let path = run_dir.path();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let file = entry.map_err(Error::io("list", path))?.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".json"));
        names.extend(
            name.filter(|name| *name == THP_MODE || name.starts_with(PREFIX))
                .map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// The name of the record of the setting at `path`.
fn name_of(path: &Path) -> String {
    if path == Path::new(thp_mode::PATH) {
        return THP_MODE.to_owned();
    }
    let parts = path.display().to_string().replace('/', "-");
    format!("{PREFIX}{}", parts.trim_start_matches('-'))
}

/// The value in force: the one in brackets, where the kernel lists all there are.
pub(super) fn read(kernel: &dyn Kernel, path: &Path) -> Result<String, Error> {
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    let text = String::from_utf8_lossy(&text);
    let bracketed = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(value, _)| value);
    Ok(bracketed.unwrap_or(text.trim()).to_owned())
}

pub(super) fn write(kernel: &dyn Kernel, path: &Path, value: &str) -> Result<(), Error> {
    kernel
        .write(path, value.as_bytes())
        .map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests;
