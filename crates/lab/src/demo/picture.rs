//! The picture's file. The demo opens it before it measures, so a path that it cannot write fails at once.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A file that is to hold the picture. One that is empty when dropped is removed.
pub(super) struct PictureFile {
    path: PathBuf,
    file: File,
}

impl PictureFile {
    /// Opens it; what it holds stays until [`PictureFile::write`].
    ///
    /// # Errors
    /// When it cannot be created or written.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|e| Error::io(format!("writing {}", path.display()), e))?;
        Ok(PictureFile {
            path: path.to_owned(),
            file,
        })
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&mut self, picture: &str) -> Result<(), Error> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(picture.as_bytes()))
            .map_err(|e| Error::io(format!("writing {}", self.path.display()), e))
    }
}

impl Drop for PictureFile {
    fn drop(&mut self) {
        let is_empty_file = |m: std::fs::Metadata| m.is_file() && m.len() == 0;
        if self.file.metadata().is_ok_and(is_empty_file) {
            // Where it cannot be removed, an empty file is left.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_drawn_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        drop(PictureFile::open(&path).unwrap());
        assert!(!path.exists());

        PictureFile::open(&path)
            .unwrap()
            .write("a picture")
            .unwrap();
        drop(PictureFile::open(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a picture");

        PictureFile::open(&path).unwrap().write("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert!(PictureFile::open(&path.join("b.svg")).is_err());
    }
}
