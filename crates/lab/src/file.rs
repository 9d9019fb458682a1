//! Writes files whole or not at all.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// Writes a file beside its place and moves it there, so that a reader sees the old content or the new one.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(folder: &Path, name: &str, content: &str) -> Result<(), Error> {
    let path = folder.join(name);
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    fs::write(&draft, content)
        .and_then(|()| fs::rename(&draft, &path))
        .map_err(|error| {
            // The draft is of no use to anyone; that it may remain is not worth a second error.
            let _ = fs::remove_file(&draft);
            Error::io(format!("writing {}", path.display()), error)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_no_draft_remains() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", "old").unwrap();
        write(folder.path(), "a", "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&folder.path().join("none"), "a", "").unwrap_err();
        assert!(error.to_string().contains("none/a"), "{error}");
    }
}
