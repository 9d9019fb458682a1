//! The record that megas before the [`ledger`](crate::settings::ledger) kept of all settings but the THP mode. It had one
//! owner, who held a lock for as long as it ran. Nobody writes such a record any more. What a killed mega left in one is
//! put back.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use serde::Deserialize;

use super::ledger::{Stale, read, write};
use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;

const RECORD: &str = "changed_settings.json";
const LOCK: &str = "changed_settings.lock";

/// One setting, what it was and is set to.
#[derive(Deserialize)]
struct Setting {
    path: PathBuf,
    original: String,
    set: String,
}

/// What a killed mega left changed. Changes nothing.
///
/// # Errors
/// [`Error::Io`] where the record cannot be read, [`Error::Malformed`] where it is unreadable.
pub(super) fn stale(run_dir: &RunDir) -> Result<Vec<Stale>, Error> {
    if is_held(run_dir)? {
        return Ok(Vec::new());
    }
    let path = run_dir.path().join(RECORD);
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(Error::io("read", &path))?,
    };
    let settings: Vec<Setting> =
        serde_json::from_slice(&text).map_err(|error| Error::Malformed {
            path,
            reason: format!("{error}; set what it names as you want it and remove this file"),
        })?;
    let stale = settings.into_iter().map(|setting| Stale {
        path: setting.path,
        set: setting.set,
        original: setting.original,
    });
    Ok(stale.collect())
}

/// Puts it back and removes the record.
///
/// # Errors
/// As [`stale`], and [`Error::Io`] where a setting cannot be read or written.
pub(super) fn put_back(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Vec<Stale>, Error> {
    let stale = stale(run_dir)?;
    for setting in stale.iter().rev() {
        // What is neither ours nor the original was set by somebody else since: theirs stays.
        if read(kernel, &setting.path)? == setting.set {
            write(kernel, &setting.path, &setting.original)?;
        }
    }
    if !stale.is_empty() {
        let path = run_dir.path().join(RECORD);
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(stale)
}

/// Whether a mega of that time runs and holds the settings changed.
fn is_held(run_dir: &RunDir) -> Result<bool, Error> {
    let path = run_dir.path().join(LOCK);
    let file = match OpenOptions::new().write(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(Error::io("open", &path))?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(Error::io("lock", &path)(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    const SCAN: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan";
    const SLEEP: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";

    /// A killed mega of that time left one setting changed; of another somebody else changed what it had set.
    fn left_behind() -> (FakeKernel, RunDir, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(folder.path()).unwrap();
        let kernel = FakeKernel::new();
        let mut state = kernel.state();
        state.files.insert(SCAN.into(), b"262144\n".to_vec());
        state.files.insert(SLEEP.into(), b"77\n".to_vec());
        drop(state);
        let record = format!(
            r#"[{{"path":"{SCAN}","original":"4096","set":"262144"}},
                {{"path":"{SLEEP}","original":"10000","set":"0"}}]"#
        );
        std::fs::write(run_dir.path().join(RECORD), record).unwrap();
        std::fs::write(run_dir.path().join(LOCK), "").unwrap();
        (kernel, run_dir, folder)
    }

    #[test]
    fn what_it_names_is_put_back_once() {
        let (kernel, run_dir, _folder) = left_behind();
        assert_eq!(stale(&run_dir).unwrap().len(), 2);
        let put_back_now = put_back(&kernel, &run_dir).unwrap();
        assert_eq!(put_back_now[0].original, "4096");
        assert_eq!(read(&kernel, SCAN.as_ref()).unwrap(), "4096");
        assert_eq!(read(&kernel, SLEEP.as_ref()).unwrap(), "77");
        assert!(put_back(&kernel, &run_dir).unwrap().is_empty());
    }

    #[test]
    fn a_mega_that_still_runs_keeps_its_settings() {
        let (kernel, run_dir, _folder) = left_behind();
        let lock = std::fs::File::open(run_dir.path().join(LOCK)).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert!(put_back(&kernel, &run_dir).unwrap().is_empty());
        assert_eq!(read(&kernel, SCAN.as_ref()).unwrap(), "262144");
    }

    #[test]
    fn a_record_that_is_not_ours_is_told() {
        let (kernel, run_dir, _folder) = left_behind();
        std::fs::write(run_dir.path().join(RECORD), "{").unwrap();
        let error = put_back(&kernel, &run_dir).unwrap_err();
        assert!(error.to_string().contains("remove this file"), "{error}");
    }
}
