//! Which mega manages which process: two would clear each other's Accessed bits.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use mega_core::ProcessId;
use rustix::fs::FlockOperation;

use crate::Error;
use crate::settings::run_dir::RunDir;

/// The right to manage one process, for as long as this lives. The lock on its file is the kernel's, so a
/// manager that is killed gives it up too.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
}

/// Why a claim could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another mega manages the process.
    #[error(
        "process {process} is managed by another mega already (pid {by_pid}); stop that one first"
    )]
    Held {
        /// The process.
        process: ProcessId,
        /// The other mega; 0 where it has not said yet.
        by_pid: u32,
    },
    /// The claim's file could not be made.
    #[error(transparent)]
    Other(#[from] Error),
}

impl Claim {
    /// Claims `process`, in the run directory [`RunDir::open`] finds.
    ///
    /// # Errors
    /// [`ClaimError::Held`] where another mega has it.
    pub fn take(process: &ProcessId) -> Result<Self, ClaimError> {
        Self::take_in(&RunDir::open()?, process)
    }

    /// Claims `process` in `run_dir`.
    ///
    /// # Errors
    /// As [`Claim::take`].
    pub fn take_in(run_dir: &RunDir, process: &ProcessId) -> Result<Self, ClaimError> {
        let claims = RunDir::at(&run_dir.path().join("claims"))?;
        let path = claims
            .path()
            .join(format!("{}.{}", process.pid, process.start_time));
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(Error::io("open", &path))?;
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                let mut holder = String::new();
                // A holder that has not written its pid yet reads as nobody: 0.
                let _ = file.read_to_string(&mut holder);
                return Err(ClaimError::Held {
                    process: *process,
                    by_pid: holder.trim().parse().unwrap_or(0),
                });
            }
            // The last holder may have removed the file between our open and our lock; then ours is
            // a lock on nothing that others can find.
            let ours = file.metadata().map_err(Error::io("look at", &path))?.ino();
            if !std::fs::metadata(&path).is_ok_and(|metadata| metadata.ino() == ours) {
                continue;
            }
            let write = |file: &mut File| {
                file.set_len(0)?;
                file.rewind()?;
                write!(file, "{}", std::process::id())
            };
            write(&mut file).map_err(Error::io("write", &path))?;
            return Ok(Claim { path, file });
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removed while the lock is still held: whoever opened it meanwhile sees that it is gone.
        let _ = std::fs::remove_file(&self.path);
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_claimed_once_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path()).unwrap();
        let process = ProcessId {
            pid: 7,
            start_time: 100,
        };
        let other_life = ProcessId {
            pid: 7,
            start_time: 200,
        };
        let claim = Claim::take_in(&run_dir, &process).unwrap();
        let held = Claim::take_in(&run_dir, &process).unwrap_err();
        assert!(matches!(held, ClaimError::Held { by_pid, .. } if by_pid == std::process::id()));
        let _other = Claim::take_in(&run_dir, &other_life).unwrap();
        drop(claim);
        assert!(!directory.path().join("claims/7.100").exists());
        Claim::take_in(&run_dir, &process).unwrap();
    }

    #[test]
    fn a_file_left_by_a_killed_manager_is_no_claim() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path()).unwrap();
        let process = ProcessId {
            pid: 7,
            start_time: 100,
        };
        RunDir::at(&directory.path().join("claims")).unwrap();
        std::fs::write(directory.path().join("claims/7.100"), "4194303").unwrap();
        Claim::take_in(&run_dir, &process).unwrap();
    }
}
