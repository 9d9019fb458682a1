//! Which program a process runs.

use mega_core::profile::Key;

use crate::Error;
use crate::kernel::Kernel;
use crate::process::{self, facts};

/// The key of the program that a process runs. `None` where its executable may not be seen.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`], [`Error::Malformed`].
pub fn program(kernel: &dyn Kernel, pid: u32) -> Result<Option<Key>, Error> {
    let facts = facts(kernel, pid)?;
    let path = process::path(pid, "cmdline");
    let words = kernel
        .read(&path)
        .map_err(|error| Error::of_process(pid, &path, error))?;
    let Some(executable) = facts.exe else {
        return Ok(None);
    };
    let executable = executable.to_string_lossy();
    // Replaced while it runs, as by an update: the new file is the same program.
    let executable = executable.strip_suffix(" (deleted)").unwrap_or(&executable);
    let words = String::from_utf8_lossy(&words);
    let arguments = words.trim_end_matches('\0').split('\0').skip(1);
    let unit = facts.cgroup.as_deref().and_then(unit);
    Ok(Some(Key::new(executable, arguments, unit)))
}

/// The service of a cgroup: its last part that is one. Scopes and slices are made anew for each session.
fn unit(cgroup: &str) -> Option<&str> {
    cgroup.rsplit('/').find(|part| part.ends_with(".service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_in_its_cgroup() {
        assert_eq!(unit("/system.slice/redis.service"), Some("redis.service"));
        assert_eq!(unit("/system.slice/a.service/inner"), Some("a.service"));
        assert_eq!(unit("/user.slice/session-3.scope"), None);
        assert_eq!(unit("/"), None);
    }

    #[test]
    fn this_process_has_a_key() {
        let key = program(&crate::kernel::LiveKernel, std::process::id());
        let key = key.unwrap().unwrap();
        assert!(key.executable.starts_with('/'), "{}", key.executable);
        assert!(!key.name.is_empty());
    }
}
