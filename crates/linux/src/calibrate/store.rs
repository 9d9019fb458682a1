//! Where the calibration is kept: one file of JSON.

use std::io::Write;
use std::path::{Path, PathBuf};

use mega_core::worth::{Calibration, Validity};

use crate::Error;

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
    /// The directory that the environment variable `MEGA_STATE_DIR` names; for root `/var/lib/mega`; for others `mega` in
    /// `XDG_STATE_HOME`.
    ///
    /// # Errors
    /// In words, where there is none of them.
    pub fn of_this_user() -> Result<Self, String> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(directory) = variable("MEGA_STATE_DIR") {
            return Ok(Place::at(directory.into()));
        }
        if rustix::process::geteuid().is_root() {
            return Ok(Place::at("/var/lib/mega".into()));
        }
        match variable("XDG_STATE_HOME") {
            Some(home) => Ok(Place::at(Path::new(&home).join("mega"))),
            None => Err("only root has /var/lib/mega, and XDG_STATE_HOME is not set".to_owned()),
        }
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
        std::fs::create_dir_all(&self.directory).map_err(Error::io("create", &self.directory))?;
        let file = self.file();
        let draft = self
            .directory
            .join(format!(".{NAME}.{}", std::process::id()));
        let written = serde_json::to_vec_pretty(calibration)
            .map_err(std::io::Error::other)
            .and_then(|text| {
                let mut file = std::fs::File::create(&draft)?;
                file.write_all(&text)?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&draft, &file));
        written.map_err(|error| {
            // The draft is of no use to anyone; that it may remain is not worth a second error.
            let _ = std::fs::remove_file(&draft);
            Error::io("write", &file)(error)
        })
    }
}
