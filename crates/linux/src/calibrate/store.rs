//! Where the calibration is kept: one file of JSON.

use std::path::PathBuf;

use mega_core::worth::{Calibration, Validity};

use crate::{Error, state_dir};

const NAME: &str = "calibration.json";

/// What was kept.
#[derive(Debug, PartialEq)]
pub enum Stored {
    /// One that is valid for this machine.
    Valid(Box<Calibration>),
    /// None of use, for this reason, in a few words.
    Not(String),
}

/// The directory that keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    directory: PathBuf,
}

impl Place {
    /// The [state directory](state_dir).
    ///
    /// # Errors
    /// In words, where there is none.
    pub fn of_this_user() -> Result<Self, String> {
        let directory = state_dir::location();
        directory.map(Place::at).ok_or_else(|| {
            "there is no directory for it: neither HOME nor MEGA_STATE_DIR is set".to_owned()
        })
    }

    /// This directory, whether or not it is there.
    #[must_use]
    pub fn at(directory: PathBuf) -> Self {
        Place { directory }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// What is kept here, if it is valid for a machine such as `now`.
    #[must_use]
    pub fn load(&self, now: &Validity) -> Stored {
        let file = self.file();
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Stored::Not("there is no calibration yet".to_owned());
            }
            Err(error) => return Stored::Not(format!("cannot read {}: {error}", file.display())),
        };
        let damaged = |what: &dyn std::fmt::Display| {
            Stored::Not(format!("{} is damaged: {what}", file.display()))
        };
        match serde_json::from_slice::<Calibration>(&text) {
            Err(error) => damaged(&error),
            Ok(calibration) => match (
                calibration.nonsense(),
                calibration.valid_for.differs_from(now),
            ) {
                (Some(what), _) => damaged(&what),
                (None, Some(what)) => {
                    Stored::Not(format!("{} is not of use here: {what}", file.display()))
                }
                (None, None) => Stored::Valid(Box::new(calibration)),
            },
        }
    }

    /// Keeps it: a reader, or a crash, sees the old one or the new one, never a part. Two that write at once do not mix.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn store(&self, calibration: &Calibration) -> Result<(), Error> {
        state_dir::create(&self.directory)?;
        let file = self.file();
        let text = serde_json::to_vec_pretty(calibration)
            .map_err(|error| Error::io("write", &file)(error.into()))?;
        state_dir::replace(&file, &text)
    }
}
