//! The directory for what mega knows beyond a reboot.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where it is: what the environment variable `MEGA_STATE_DIR` names; or `/var/lib/mega` for root; or for other users
/// `$XDG_STATE_HOME/mega`, and without that `~/.local/state/mega`. `None` where none of these can be told. It need not
/// exist.
#[must_use]
pub fn location() -> Option<PathBuf> {
    let chosen = std::env::var_os("MEGA_STATE_DIR").filter(|value| !value.is_empty());
    if let Some(path) = chosen {
        return Some(path.into());
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/mega"));
    }
    let absolute = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .map(|path| path.join("mega"))
        .or_else(|| absolute("HOME").map(|path| path.join(".local/state/mega")))
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

/// How the names of drafts end that [`replace`] writes. A killed mega may leave one.
pub(crate) const DRAFT: &str = ".draft";

/// Writes a file in an existing directory: a reader, or a crash, sees the old content or the new, never a part. Two that
/// write at once do not mix.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}{DRAFT}", std::process::id()));
    let written = std::fs::File::create(&draft).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&draft, path))
        .map_err(|error| {
            // The draft is of no use to anyone; that it may remain is not worth a second error.
            let _ = std::fs::remove_file(&draft);
            Error::io("write", path)(error)
        })
}
