//! A file of lines in the [state directory](crate::state_dir) that one process at a time adds to, and that never holds many more
//! than are wanted.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{Error, state_dir};

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// A file of lines, for its only writer.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    /// Lines in the file.
    count: usize,
    /// Lines that are wanted.
    most: usize,
    /// Locked for as long as it is open.
    _folder: File,
}

impl Lines {
    /// Opens the lines `name` in a state directory, and returns what is there: the latest `most` whole lines. `None` where
    /// another process has them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(
        state_dir: &Path,
        name: &str,
        most: usize,
    ) -> Result<Option<(Self, Vec<String>)>, Error> {
        let folder_path = state_dir.join(name);
        state_dir::create(&folder_path)?;
        let folder = File::open(&folder_path).map_err(Error::io("open", &folder_path))?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked.map_err(|error| Error::io("lock", &folder_path)(error.into()))?,
        }
        let path = folder_path.join("lines");
        let (file, lines) = shorten(&path, most)?;
        let opened = Lines {
            path,
            file,
            count: lines.len(),
            most,
            _folder: folder,
        };
        Ok(Some((opened, lines)))
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, which has no line break in it. A crash of the machine may lose it. The file has twice as many lines as are wanted at
    /// most.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn add(&mut self, line: &str) -> Result<(), Error> {
        if self.count >= 2 * self.most {
            let (file, lines) = shorten(&self.path, self.most)?;
            (self.file, self.count) = (file, lines.len());
        }
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(Error::io("write", &self.path))?;
        self.count += 1;
        Ok(())
    }
}

/// Leaves the latest `most` whole lines of a file, and opens it to add to them.
fn shorten(path: &Path, most: usize) -> Result<(File, Vec<String>), Error> {
    let lines = read(path, most)?;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    state_dir::replace(path, text.as_bytes())?;
    let file = File::options()
        .append(true)
        .open(path)
        .map_err(Error::io("open", path))?;
    Ok((file, lines))
}

/// The latest `most` whole lines of a file; of one that is too large to be ours, none.
fn read(path: &Path, most: usize) -> Result<Vec<String>, Error> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.map_err(Error::io("open", path))?,
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&bytes);
    // A killed process may have left a part of a line at the end.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let skipped = lines.len().saturating_sub(most);
    Ok(lines.into_iter().skip(skipped).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> (Lines, Vec<String>) {
        let opened = Lines::open(folder, "day", 3).expect("it opens");
        opened.expect("nobody else has it")
    }

    #[test]
    fn the_latest_lines_are_there_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut lines, before) = open(folder.path());
        assert!(before.is_empty());
        for number in 0..20 {
            lines.add(&number.to_string()).expect("added");
            let text = std::fs::read_to_string(lines.path()).expect("the file");
            assert!(text.lines().count() <= 6, "{text}");
        }
        drop(lines);
        let (_, again) = open(folder.path());
        assert_eq!(again, ["17", "18", "19"]);
    }

    #[test]
    fn one_process_has_them_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = open(folder.path());
        let second = Lines::open(folder.path(), "day", 3).expect("no error");
        assert!(second.is_none());
        drop(first);
        open(folder.path());
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut lines, _) = open(folder.path());
        lines.add("whole").expect("added");
        let path = lines.path().to_owned();
        drop(lines);
        let mut file = File::options().append(true).open(&path).expect("the file");
        file.write_all(b"cut o\xff").expect("written");
        let (mut lines, again) = open(folder.path());
        assert_eq!(again, ["whole"]);
        lines.add("next").expect("added");
        drop(lines);
        assert_eq!(open(folder.path()).1, ["whole", "next"]);
    }
}
