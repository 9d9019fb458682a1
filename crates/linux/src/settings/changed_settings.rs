//! Kernel settings that are changed for a while (khugepaged's, for an experiment), and putting them back whatever
//! happens.
//!
//! What they were is recorded in the run directory before any is changed, and a lock file is held that the kernel
//! releases when its holder dies: a record that nobody holds the lock of is what a killed mega left
//! ([`restore_stale`]). One process changes them at a time.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::kernel::Kernel;
use crate::settings::run_dir::RunDir;

const RECORD: &str = "changed_settings.json";
const LOCK: &str = "changed_settings.lock";

/// One setting: a file of the kernel with a single value, and what it was and is set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Setting {
    path: PathBuf,
    original: String,
    set: String,
}

/// Keeps settings changed for as long as it lives.
pub struct ChangedSettings {
    kernel: Arc<dyn Kernel>,
    run_dir: RunDir,
    held: bool,
    _lock: File,
}

impl ChangedSettings {
    /// Sets each of the files to its value, having recorded what they were.
    ///
    /// # Errors
    /// [`Error::Io`] where a setting or the record cannot be read or written, or another mega holds settings changed.
    /// Then none is changed.
    pub fn change(
        kernel: Arc<dyn Kernel>,
        run_dir: &RunDir,
        values: &[(PathBuf, String)],
    ) -> Result<Self, Error> {
        let lock = lock(run_dir)?.ok_or_else(|| Error::Malformed {
            path: run_dir.path().join(LOCK),
            reason: "another mega has changed kernel settings for an experiment; wait for its end"
                .to_owned(),
        })?;
        // A killed holder's record would be lost under ours.
        restore(kernel.as_ref(), run_dir)?;
        let settings = values
            .iter()
            .map(|(path, value)| {
                Ok(Setting {
                    path: path.clone(),
                    original: read(kernel.as_ref(), path)?,
                    set: value.clone(),
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let text = serde_json::to_vec(&settings).map_err(|error| Error::Malformed {
            path: run_dir.path().join(RECORD),
            reason: error.to_string(),
        })?;
        run_dir.write_atomically(RECORD, &text)?;
        let changed = ChangedSettings {
            kernel,
            run_dir: run_dir.clone(),
            held: true,
            _lock: lock,
        };
        for setting in &settings {
            // Dropping `changed` puts back those that were set already.
            write(changed.kernel.as_ref(), &setting.path, &setting.set)?;
        }
        Ok(changed)
    }

    /// Puts them back.
    ///
    /// # Errors
    /// [`Error::Io`] where a setting cannot be written; [`restore_stale`] then does it later.
    pub fn put_back(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        restore(self.kernel.as_ref(), &self.run_dir).map(|_| ())
    }
}

impl Drop for ChangedSettings {
    fn drop(&mut self) {
        // Nobody is left to report to; the record stays and the next start puts them back.
        let _ = self.release();
    }
}

/// Puts back what a killed mega left changed, and says which settings that were.
///
/// # Errors
/// [`Error::Io`] where a setting or the record cannot be read or written, [`Error::Malformed`] where the record is
/// unreadable.
pub fn restore_stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<PathBuf>, Error> {
    match lock(run_dir)? {
        Some(_lock) => restore(kernel, run_dir),
        None => Ok(Vec::new()),
    }
}

/// The lock; `None` while somebody else holds it.
fn lock(run_dir: &RunDir) -> Result<Option<File>, Error> {
    let path = run_dir.path().join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(Error::io("open", &path))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::io("lock", &path)(error.into())),
    }
}

/// Puts back what the record says, newest first, and removes it. To be called with the lock held.
fn restore(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<PathBuf>, Error> {
    let path = run_dir.path().join(RECORD);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(Error::io("read", &path))?,
    };
    let settings: Vec<Setting> =
        serde_json::from_slice(&text).map_err(|error| Error::Malformed {
            path: path.clone(),
            reason: format!("{error}; set what it names as you want it and remove this file"),
        })?;
    for setting in settings.iter().rev() {
        // What is neither ours nor the original was set by somebody else since: theirs stays.
        if read(kernel, &setting.path)? == setting.set {
            write(kernel, &setting.path, &setting.original)?;
        }
    }
    std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    Ok(settings.into_iter().map(|setting| setting.path).collect())
}

fn read(kernel: &dyn Kernel, path: &std::path::Path) -> Result<String, Error> {
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

fn write(kernel: &dyn Kernel, path: &std::path::Path, value: &str) -> Result<(), Error> {
    kernel
        .write(path, value.as_bytes())
        .map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan";

    struct Place {
        kernel: Arc<FakeKernel>,
        run_dir: RunDir,
        _folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let place = Place {
                kernel: Arc::new(FakeKernel::new()),
                run_dir: RunDir::at(folder.path()).unwrap(),
                _folder: folder,
            };
            let mut state = place.kernel.state();
            state.files.insert(PATH.into(), b"4096\n".to_vec());
            drop(state);
            place
        }

        fn change(&self, value: &str) -> Result<ChangedSettings, Error> {
            let kernel: Arc<dyn Kernel> = self.kernel.clone();
            ChangedSettings::change(kernel, &self.run_dir, &[(PATH.into(), value.to_owned())])
        }

        fn value(&self) -> String {
            read(self.kernel.as_ref(), PATH.as_ref()).unwrap()
        }
    }

    #[test]
    fn what_was_changed_is_put_back() {
        let place = Place::new();
        let changed = place.change("7").unwrap();
        assert_eq!(place.value(), "7");
        assert!(place.change("8").is_err(), "one process at a time");
        assert!(
            restore_stale(place.kernel.as_ref(), &place.run_dir)
                .unwrap()
                .is_empty(),
            "we live"
        );
        changed.put_back().unwrap();
        assert_eq!(place.value(), "4096");
        assert!(!place.run_dir.path().join(RECORD).exists());
    }

    #[test]
    fn what_a_killed_mega_left_is_put_back() {
        let place = Place::new();
        let mut changed = place.change("7").unwrap();
        // Killed: the lock is gone, the record stays.
        changed.held = false;
        drop(changed);
        assert_eq!(place.value(), "7");
        let put_back = restore_stale(place.kernel.as_ref(), &place.run_dir).unwrap();
        assert_eq!(put_back, [PathBuf::from(PATH)]);
        assert_eq!(place.value(), "4096");
        assert!(
            restore_stale(place.kernel.as_ref(), &place.run_dir)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_somebody_else_set_meanwhile_stays() {
        let place = Place::new();
        let changed = place.change("7").unwrap();
        place.kernel.write(PATH.as_ref(), b"9").unwrap();
        drop(changed);
        assert_eq!(place.value(), "9");
    }

    #[test]
    fn a_record_that_is_not_ours_is_told() {
        let place = Place::new();
        std::fs::write(place.run_dir.path().join(RECORD), "{").unwrap();
        let error = restore_stale(place.kernel.as_ref(), &place.run_dir).unwrap_err();
        assert!(error.to_string().contains("remove this file"), "{error}");
    }
}
