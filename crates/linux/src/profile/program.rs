//! Which program a process runs.

use std::ffi::OsString;
use std::path::PathBuf;

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

/// The key of the program that a command would run, as it is looked for (`PATH`), in this process's cgroup. `None` where it
/// is not found. Of a script it is not the key that [`program`] gives, which is the interpreter's.
#[must_use]
pub fn program_of_command(kernel: &dyn Kernel, command: &[OsString]) -> Option<Key> {
    let (name, arguments) = command.split_first()?;
    let executable = if name.to_string_lossy().contains('/') {
        PathBuf::from(name)
    } else {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())?
    };
    let executable = executable.canonicalize().ok()?;
    let arguments: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let own = facts(kernel, std::process::id()).ok();
    let unit = own.as_ref().and_then(|own| unit(own.cgroup.as_deref()?));
    Some(Key::new(
        &executable.to_string_lossy(),
        arguments.iter().map(AsRef::as_ref),
        unit,
    ))
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
        let command: Vec<OsString> = std::env::args_os().collect();
        assert_eq!(
            program_of_command(&crate::kernel::LiveKernel, &command),
            Some(key)
        );
        let nowhere = ["/nowhere/program".into()];
        assert_eq!(
            program_of_command(&crate::kernel::LiveKernel, &nowhere),
            None
        );
    }
}
