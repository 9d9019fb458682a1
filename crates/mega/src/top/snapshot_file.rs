//! A snapshot: what `mega top` shows, as a file to send to somebody.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::history::History;
use super::sample::Sample;
use super::state::{Key, Origin, State};
use crate::exit::Failure;
use crate::report::{ProcessDetail, VERSION};
use crate::utc;

/// What the field `kind` says.
const KIND: &str = "mega top snapshot";
/// A file longer than this is none of ours.
const LONGEST: u64 = 256 << 20;

/// The content of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SnapshotFile {
    kind: String,
    version: u32,
    /// The version of mega that wrote it.
    mega: String,
    pub(super) sample: Sample,
    pub(super) history: History,
    /// Of each process that was opened, its manager's pid and the latest close look at it.
    details: Vec<(u32, ProcessDetail)>,
}

impl SnapshotFile {
    /// What `state` shows. `None` before the first sample.
    pub(super) fn of(state: &State) -> Option<Self> {
        let details = state.details.iter();
        Some(SnapshotFile {
            kind: KIND.to_owned(),
            version: VERSION,
            mega: env!("CARGO_PKG_VERSION").to_owned(),
            sample: state.sample.clone()?,
            history: state.history.clone(),
            details: details
                .map(|(key, detail)| (key.manager, detail.clone()))
                .collect(),
        })
    }

    /// A state that shows it.
    pub(super) fn into_state(self, path: &Path, size: (u16, u16)) -> State {
        let mut state = State::new(Origin::File(path.to_owned()), size);
        state.take(self.sample);
        state.history = self.history;
        let key = |manager, detail: &ProcessDetail| Key {
            manager,
            pid: detail.pid,
        };
        let details = self.details.into_iter();
        state.details = details
            .map(|(manager, detail)| (key(manager, &detail), detail))
            .collect();
        state.settle();
        state
    }

    /// Writes it to a new file in the current folder. Returns its name.
    ///
    /// # Errors
    /// In words, where it cannot be written.
    pub(super) fn write(&self) -> Result<PathBuf, String> {
        let name = format!("mega-top-{}.json", utc::for_file_name(self.sample.time));
        let path = PathBuf::from(name);
        let refused = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let text = serde_json::to_string(self).map_err(|error| refused(error.into()))?;
        // A new file: what lies there already may be a link of somebody else's.
        let file = std::fs::File::create_new(&path).map_err(refused)?;
        let mut file = std::io::BufWriter::new(file);
        file.write_all(text.as_bytes())
            .and_then(|()| file.flush())
            .map_err(refused)?;
        Ok(path)
    }

    /// Reads one.
    ///
    /// # Errors
    /// Where it cannot be read or is none.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let refused = |reason: &dyn std::fmt::Display| {
            let path = path.display();
            Failure::Failed(format!("cannot open the snapshot {path}: {reason}"))
        };
        let length = std::fs::metadata(path)
            .map_err(|error| refused(&error))?
            .len();
        if length > LONGEST {
            return Err(refused(&"it is too long; mega top wrote no such file"));
        }
        let text = std::fs::read(path).map_err(|error| refused(&error))?;
        Self::parse(&text).map_err(|reason| refused(&reason))
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            kind: String,
            version: u32,
        }
        let head: Head = serde_json::from_slice(text)
            .map_err(|_| "it is no snapshot; press s in mega top to write one".to_owned())?;
        if head.kind != KIND {
            return Err(format!("it is a '{}', not a '{KIND}'", head.kind));
        }
        if head.version != VERSION {
            return Err(format!(
                "it has version {}, this mega reads version {VERSION}",
                head.version
            ));
        }
        serde_json::from_slice(text).map_err(|error| format!("it is damaged: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::draw::scene;

    #[test]
    fn what_is_written_shows_the_same_when_it_is_read() {
        for state in [scene::busy((80, 24)), scene::opened((80, 24))] {
            let file = SnapshotFile::of(&state).expect("a sample");
            let text = serde_json::to_vec(&file).expect("serializes");
            let read = SnapshotFile::parse(&text).expect("it is read");
            let mut shown = read.into_state(Path::new("x.json"), state.size);
            shown.origin = state.origin.clone();
            shown.view = state.view;
            shown.selected = state.selected;
            assert_eq!(scene::text_of(&shown), scene::text_of(&state));
        }
    }

    #[test]
    fn other_files_are_refused_in_words() {
        let file = SnapshotFile::of(&scene::busy((80, 24))).expect("a sample");
        let text = serde_json::to_string(&file).expect("serializes");
        for (text, expected) in [
            (String::new(), "no snapshot"),
            ("{}".to_owned(), "no snapshot"),
            (
                text.replacen(KIND, "something else", 1),
                "it is a 'something else'",
            ),
            (
                text.replacen("\"version\":1", "\"version\":9", 1),
                "it has version 9",
            ),
            (
                text.replacen("\"managers\"", "\"mangers\"", 1),
                "it is damaged",
            ),
            (text[..text.len() / 2].to_owned(), "no snapshot"),
        ] {
            let reason = SnapshotFile::parse(text.as_bytes()).expect_err("refused");
            assert!(reason.contains(expected), "{reason}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = SnapshotFile::parse(&bytes);
        }
    }
}
