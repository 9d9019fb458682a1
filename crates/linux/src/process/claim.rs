//! Which mega manages which process: two would clear each other's Accessed bits.
//!
//! All megas share one file in the run directory. A process's place in it is at four times its pid; whoever locks that
//! place has the process. The locks are the kernel's (`F_OFD_SETLK`), so a manager that is killed gives up all that it
//! had. One open file serves any number of processes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use mega_core::ProcessId;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use crate::Error;
use crate::run_dir::RunDir;

/// The file, in the run directory.
const NAME: &str = "claims.lock";
/// Bytes of a process's place: the pid of the mega that has it.
const PLACE: u8 = 4;

/// The claims of one mega.
#[derive(Clone, Debug)]
pub struct Claims {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    path: PathBuf,
}

/// The right to manage one process, for as long as this lives.
#[derive(Debug)]
pub struct Claim {
    shared: Arc<Shared>,
    pid: u32,
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
    /// The file could not be locked or written.
    #[error(transparent)]
    Other(#[from] Error),
}

impl Claims {
    /// Opens the file in `run_dir`, creating it where it is missing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(run_dir: &RunDir) -> Result<Self, Error> {
        let path = run_dir.path().join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io("open", &path))?;
        Ok(Claims {
            shared: Arc::new(Shared { file, path }),
        })
    }

    /// Claims `process`. Must not be called again for the same pid while the claim lives: a mega does not keep itself
    /// out.
    ///
    /// # Errors
    /// [`ClaimError::Held`] where another mega has it.
    pub fn take(&self, process: ProcessId) -> Result<Claim, ClaimError> {
        let Shared { file, path } = &*self.shared;
        let place = offset(process.pid);
        match lock(file, process.pid, libc::F_WRLCK) {
            Ok(()) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                let mut holder = [0; PLACE as usize];
                // A holder that has not written its pid yet reads as nobody: 0.
                let _ = file.read_exact_at(&mut holder, place);
                return Err(ClaimError::Held {
                    process,
                    by_pid: u32::from_ne_bytes(holder),
                });
            }
            Err(error) => return Err(Error::io("lock", path)(io::Error::from(error)).into()),
        }
        let claim = Claim {
            shared: Arc::clone(&self.shared),
            pid: process.pid,
        };
        file.write_all_at(&std::process::id().to_ne_bytes(), place)
            .map_err(Error::io("write", path))?;
        Ok(claim)
    }

    /// Whether another mega has `process`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_held_by_another(&self, process: ProcessId) -> Result<bool, Error> {
        let Shared { file, path } = &*self.shared;
        let found = place(process.pid, libc::F_WRLCK)
            .and_then(|mut place| fcntl(file, FcntlArg::F_OFD_GETLK(&mut place)).map(|_| place));
        let failed = |error: Errno| Error::io("look at the locks of", path)(error.into());
        let found = found.map_err(failed)?;
        if i32::from(found.l_type) == libc::F_UNLCK {
            return Ok(false);
        }
        let mut holder = [0; PLACE as usize];
        // A holder that has not written its pid yet reads as nobody: 0.
        let _ = file.read_exact_at(&mut holder, offset(process.pid));
        Ok(u32::from_ne_bytes(holder) != std::process::id())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // It cannot fail for a range that is locked; if it did, the end of this process would unlock it.
        let _ = lock(&self.shared.file, self.pid, libc::F_UNLCK);
    }
}

fn offset(pid: u32) -> u64 {
    u64::from(pid) * u64::from(PLACE)
}

/// Sets the lock on the place of `pid`, without waiting.
fn lock(file: &File, pid: u32, kind: libc::c_int) -> Result<(), Errno> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&place(pid, kind)?)).map(drop)
}

/// The place of `pid`, as a lock of that kind.
fn place(pid: u32, kind: libc::c_int) -> Result<libc::flock, Errno> {
    Ok(libc::flock {
        l_type: i16::try_from(kind).map_err(|_| Errno::EINVAL)?,
        l_whence: i16::try_from(libc::SEEK_SET).map_err(|_| Errno::EINVAL)?,
        l_start: i64::try_from(offset(pid)).map_err(|_| Errno::EOVERFLOW)?,
        l_len: i64::from(PLACE),
        l_pid: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> ProcessId {
        ProcessId {
            pid,
            start_time: 100,
        }
    }

    #[test]
    fn a_process_is_claimed_once_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path()).unwrap();
        let [one, other] = [(); 2].map(|()| Claims::open(&run_dir).unwrap());
        let claim = one.take(process(7)).unwrap();
        let held = other.take(process(7)).unwrap_err();
        assert!(matches!(held, ClaimError::Held { by_pid, .. } if by_pid == std::process::id()));
        let _neighbours = [6, 8].map(|pid| other.take(process(pid)).unwrap());
        // Both are this process, which is not another mega.
        assert!(!other.is_held_by_another(process(7)).unwrap());
        let file = OpenOptions::new()
            .write(true)
            .open(&one.shared.path)
            .unwrap();
        file.write_all_at(&1_u32.to_ne_bytes(), offset(7)).unwrap();
        assert!(other.is_held_by_another(process(7)).unwrap());
        drop(claim);
        assert!(!other.is_held_by_another(process(7)).unwrap());
        other.take(process(7)).unwrap();
    }

    #[test]
    fn what_a_killed_manager_wrote_is_no_claim() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path()).unwrap();
        std::fs::write(directory.path().join(NAME), [7; 4096]).unwrap();
        Claims::open(&run_dir).unwrap().take(process(7)).unwrap();
    }

    #[test]
    fn any_number_of_processes_takes_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(directory.path()).unwrap();
        let claims = Claims::open(&run_dir).unwrap();
        let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = files();
        let held: Vec<Claim> = (1..5000)
            .map(|pid| claims.take(process(pid * 3)).unwrap())
            .collect();
        assert_eq!(files(), before);
        drop(held);
        Claims::open(&run_dir).unwrap().take(process(3)).unwrap();
    }
}
