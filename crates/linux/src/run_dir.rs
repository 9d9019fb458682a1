//! The directory in which running megas leave what others must find: their claims, and what must be put back.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::Error;

/// What the environment variable `MEGA_RUN_DIR` names; or `/run/mega` for root; or for other users `mega` in `$XDG_RUNTIME_DIR`, and
/// without that `/tmp/mega-UID`. Its mode is 0700, or 0710 once a group was let through ([`RunDir::let_through`]). A reboot empties
/// it, and undoes what it records.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

/// Root's.
const OF_ROOT: &str = "/run/mega";

impl RunDir {
    /// Where the directory is, whether or not it exists.
    #[must_use]
    pub fn location() -> PathBuf {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = variable("MEGA_RUN_DIR") {
            return path.into();
        }
        let user = rustix::process::geteuid();
        if user.is_root() {
            return PathBuf::from(OF_ROOT);
        }
        match variable("XDG_RUNTIME_DIR").map(PathBuf::from) {
            Some(path) if path.is_absolute() => path.join("mega"),
            // Somebody else's is refused when it is opened.
            _ => PathBuf::from(format!("/tmp/mega-{}", user.as_raw())),
        }
    }

    /// Where managers that this user may ask leave their sockets: in the user's own directory and in root's, each once.
    #[must_use]
    pub fn locations() -> Vec<PathBuf> {
        let own = Self::location();
        let chosen = std::env::var_os("MEGA_RUN_DIR").is_some_and(|value| !value.is_empty());
        let root = PathBuf::from(OF_ROOT);
        match chosen || own == root {
            true => vec![own],
            false => vec![own, root],
        }
    }

    /// Opens the directory, creating it where it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be created; [`Error::Malformed`] where it is someone else's.
    pub fn open() -> Result<Self, Error> {
        Self::at(&Self::location())
    }

    /// The directory, if there is one. Creates nothing.
    #[must_use]
    pub fn existing() -> Option<Self> {
        let path = Self::location();
        path.is_dir().then_some(RunDir { path })
    }

    /// Opens `path` as the directory, creating it where it is missing.
    ///
    /// # Errors
    /// As [`RunDir::open`].
    pub fn at(path: &Path) -> Result<Self, Error> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(Error::io("create", path))?;
        let metadata = std::fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
        let malformed = |reason: &str| Error::Malformed {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        if !metadata.is_dir() {
            return Err(malformed("is not a directory; remove it"));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(malformed(
                "belongs to another user; remove it, or set MEGA_RUN_DIR",
            ));
        }
        let mode = metadata.permissions().mode();
        // A group may have been let through.
        if mode & 0o027 != 0 {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
                .map_err(Error::io("restrict", path))?;
        }
        Ok(RunDir {
            path: path.to_owned(),
        })
    }

    /// Lets the members of a group pass through the directory to what is open to them in it. They can list nothing, and
    /// open none of the files that lie in the directory itself: who may open a file can lock it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn let_through(&self, group: u32) -> Result<(), Error> {
        let restrict = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
                .map_err(Error::io("restrict", path))
        };
        let list = Error::io("list", &self.path);
        for entry in std::fs::read_dir(&self.path).map_err(list)?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                restrict(&entry.path(), 0o600)?;
            }
        }
        std::os::unix::fs::chown(&self.path, None, Some(group))
            .map_err(Error::io("give to a group", &self.path))?;
        restrict(&self.path, 0o710)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file so that a reader, or a crash, sees the old content or the new one, never a part. The caller holds a
    /// lock for this name. What a killed writer left of its draft is overwritten by the next one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_atomically(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        let draft = self.path.join(format!(".{name}.draft"));
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft);
        let written = opened.and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written
            .and_then(|()| std::fs::rename(&draft, &path))
            .map_err(|error| {
                // The draft is of no use to anyone; that it may remain is not worth a second error.
                let _ = std::fs::remove_file(&draft);
                Error::io("write", &path)(error)
            })
    }
}
