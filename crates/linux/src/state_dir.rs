//! The directory for what mega knows beyond a reboot.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where it is: what the environment variable `MEGA_STATE_DIR` names; or `/var/lib/mega` for root; or for other users
/// `$XDG_STATE_HOME/mega`, and without that `~/.local/state/mega`. `None` where none of these can be told. It need not
/// exist.
#[must_use]
pub fn location() -> Option<PathBuf> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    if let Some(path) = variable("MEGA_STATE_DIR") {
        return Some(path);
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/mega"));
    }
    variable("XDG_STATE_HOME")
        .map(|path| path.join("mega"))
        .or_else(|| variable("HOME").map(|path| path.join(".local/state/mega")))
}

/// Creates a directory for this user's eyes alone, and those above it, where they are missing.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn create(path: &Path) -> Result<(), Error> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::io("create", path))
}
