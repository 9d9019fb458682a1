//! The folder in which a daemon records each of its selections.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;

use mega_linux::Host;

use super::{Shared, Tape, managed_header};
use crate::config::{Record, Settings};

/// The folder in which a daemon records each of its selections.
pub(crate) struct Folder {
    record: Record,
    calls: Shared,
}

impl Folder {
    /// That which the configuration names.
    pub(crate) fn new(record: Record, host: &Host) -> Self {
        Folder {
            record,
            calls: Shared::open(host, false),
        }
    }

    /// Whether the configuration names this one, and as large.
    pub(crate) fn is(&self, record: &Record) -> bool {
        self.record == *record
    }

    /// Begins to record a selection.
    ///
    /// # Errors
    /// In words, where nothing can be written there.
    pub(crate) fn begin(
        &self,
        host: &Arc<Host>,
        name: &str,
        settings: &Settings,
    ) -> Result<Tape, String> {
        let path = self.record.folder.join(file_name(name));
        let header = managed_header(host, &format!("select {name}"), settings);
        let begun = self.create().and_then(|()| {
            Tape::begin_bounded(
                Arc::clone(host),
                &path,
                header,
                &self.calls,
                self.record.size,
            )
        });
        begun.map_err(|error| {
            let path = path.display();
            format!("cannot begin the recording in {path}: {error}; going on without it")
        })
    }

    fn create(&self) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.record.folder)
    }
}

/// The name of a selection's file. What cannot stand in a name, or hides a file, becomes a `_`.
fn file_name(selection: &str) -> String {
    let fit = |character: char| match character {
        '/' | '\0' => '_',
        other => other,
    };
    let name: String = selection.chars().map(fit).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}.rec"),
        None => format!("{name}.rec"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_folder() {
        let names = ["redis", "a/b", "..", "../../etc/x"].map(file_name);
        assert_eq!(names, ["redis.rec", "a_b.rec", "_..rec", "_._.._etc_x.rec"]);
    }
}
