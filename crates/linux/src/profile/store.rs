//! Where profiles are kept: a small file for each in `profiles/` of the [state directory](crate::state_dir).
//!
//! A file is replaced as a whole, so a reader sees an old profile or a new one. Two runs of a program that end at the same
//! time may lose what one of them learnt. A damaged file is told of and counts for nothing; the next run replaces it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mega_core::profile::{Profile, VERSION};
use serde::Deserialize;

use crate::{Error, state_dir};

/// Profiles that are kept; the oldest go first.
pub const MOST_PROFILES: usize = 256;

/// The largest file that is read, in bytes. A profile of the most classes takes 8 KiB.
const MOST_BYTES: u64 = 64 << 10;

const SUFFIX: &str = ".json";

/// The profiles of this user on this machine.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A profile as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The profile.
    pub profile: Profile,
    /// When it was written last, in seconds since 1970.
    pub written: u64,
}

impl Store {
    /// The store, whether or not there is anything in it. `None` where no place for it can be told.
    #[must_use]
    pub fn find() -> Option<Self> {
        state_dir::location().map(|path| Self::at(&path))
    }

    /// The store in this state directory.
    #[must_use]
    pub fn at(state_dir: &Path) -> Self {
        Store {
            folder: state_dir.join("profiles"),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The profile of this name. `None` where there is none.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be read, [`Error::Malformed`] where it is damaged or of another version.
    pub fn read(&self, name: &str) -> Result<Option<Stored>, Error> {
        let Some(path) = self.file(name) else {
            return Ok(None);
        };
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("open", &path))?,
        };
        let written = file.metadata().and_then(|metadata| metadata.modified());
        let written = written.map_err(Error::io("look at", &path))?;
        let mut text = Vec::new();
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(Error::io("read", &path))?;
        let malformed = |reason: String| Error::Malformed {
            path: path.clone(),
            reason: format!("{reason}; the next run writes it anew"),
        };
        let profile = parse(&text).map_err(malformed)?;
        if profile.key.name != name {
            return Err(malformed(format!("is the profile {:?}", profile.key.name)));
        }
        Ok(Some(Stored {
            profile,
            written: seconds(written),
        }))
    }

    /// All profiles by name, and what is wrong with those that cannot be read.
    ///
    /// # Errors
    /// [`Error::Io`] where the directory cannot be read.
    pub fn all(&self) -> Result<(Vec<Stored>, Vec<Error>), Error> {
        let (mut profiles, mut damaged) = (Vec::new(), Vec::new());
        for name in self.names()? {
            match self.read(&name) {
                Ok(found) => profiles.extend(found),
                Err(error) => damaged.push(error),
            }
        }
        Ok((profiles, damaged))
    }

    /// Keeps a profile in place of the one of its name, and forgets the oldest beyond [`MOST_PROFILES`].
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Malformed`] for a name that cannot be a file's.
    pub fn write(&self, profile: &Profile) -> Result<(), Error> {
        state_dir::create(&self.folder)?;
        let name = &profile.key.name;
        let path = self.file(name).ok_or_else(|| Error::Malformed {
            path: self.folder.clone(),
            reason: format!("{name:?} cannot be the name of a profile"),
        })?;
        let text = serde_json::to_vec_pretty(profile)
            .map_err(|error| Error::io("write", &path)(error.into()))?;
        state_dir::replace(&path, &text)?;
        self.forget_oldest(&path)
    }

    /// Forgets the profile of this name. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn forget(&self, name: &str) -> Result<bool, Error> {
        let Some(path) = self.file(name) else {
            return Ok(false);
        };
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("remove", &path)(error)),
        }
    }

    /// The names of all profiles, in order, damaged ones too.
    ///
    /// # Errors
    /// [`Error::Io`] where the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io("read", &self.folder))?,
        };
        let names = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(SUFFIX).map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| self.file(name).is_some()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The file of a profile. `None` for what cannot be a profile's name.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        let is_name = !name.is_empty()
            && name.len() <= 64
            && !name.starts_with('.')
            && name.chars().all(plain);
        is_name.then(|| self.folder.join(format!("{name}{SUFFIX}")))
    }

    /// Forgets the oldest profiles beyond [`MOST_PROFILES`], but not `kept`; and drafts that a killed mega left.
    fn forget_oldest(&self, kept: &Path) -> Result<(), Error> {
        let entries = std::fs::read_dir(&self.folder).map_err(Error::io("read", &self.folder))?;
        let day_ago = SystemTime::now() - std::time::Duration::from_secs(24 * 3600);
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified()) else {
                continue;
            };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(SUFFIX) && path != kept {
                files.push((written, path));
            } else if name.ends_with(state_dir::DRAFT) && written < day_ago {
                // It may stay: the next run tries again.
                let _ = std::fs::remove_file(path);
            }
        }
        files.sort_unstable();
        let too_many = (files.len() + 1).saturating_sub(MOST_PROFILES);
        for (_, path) in files.into_iter().take(too_many) {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a profile, and says in a few words what is wrong with it.
fn parse(text: &[u8]) -> Result<Profile, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    if text.len() as u64 > MOST_BYTES {
        return Err("is too large for a profile".to_owned());
    }
    let damaged = |error: serde_json::Error| format!("is damaged ({error})");
    let Versioned { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version != VERSION {
        return Err(format!(
            "is of version {version}, and this mega knows version {VERSION}"
        ));
    }
    let profile: Profile = serde_json::from_slice(text).map_err(damaged)?;
    let within = |share: f64| (0.0..=1.0).contains(&share);
    let is_gain_sound = profile
        .saved_share
        .is_none_or(|share| share.holds(share.value));
    let is_sound = profile.mappings.iter().all(|known| {
        [known.filled, known.zeros, known.waste]
            .into_iter()
            .flatten()
            .all(within)
            && within(known.ended_huge)
            && known.filled_seconds >= 0.0
    });
    if !is_sound || !is_gain_sound {
        return Err("is damaged (a share is not within 0 to 1)".to_owned());
    }
    Ok(profile)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use mega_core::profile::{Key, MappingClass, MappingKind, MappingSummary, RunSummary};
    use proptest::prelude::*;

    use super::*;

    fn profile(program: &str) -> Profile {
        let mut profile = Profile::new(Key::new(program, ["serve"], None));
        profile.learn(&RunSummary {
            mappings: vec![MappingSummary {
                class: MappingClass::of(MappingKind::Anonymous, 1 << 30),
                touched_regions: 512,
                known_regions: 512,
                known_pages: 512 * 512,
                huge_regions: 512,
                filled_seconds: 1.5,
                zeros_when_full: Some(0.25),
                zeros_when_unknown: None,
            }],
            resident: 1 << 30,
            started_huge: false,
            seconds: 10.0,
        });
        profile
    }

    fn store() -> (Store, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Store::at(folder.path()), folder)
    }

    #[test]
    fn what_is_written_is_read_by_this_user_alone() {
        let (store, _folder) = store();
        assert!(store.names().unwrap().is_empty());
        let profile = profile("/usr/bin/prog");
        let name = &profile.key.name;
        assert_eq!(store.read(name).unwrap(), None);
        store.write(&profile).unwrap();
        let stored = store.read(name).unwrap().unwrap();
        assert_eq!(stored.profile, profile);
        assert!(stored.written > 0);
        let mode = std::fs::metadata(store.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0);
        assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 1);
        assert!(store.forget(name).unwrap());
        assert!(!store.forget(name).unwrap());
        assert!(store.names().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_profile_is_told_and_written_anew() {
        let (store, _folder) = store();
        let profile = profile("/usr/bin/prog");
        let name = &profile.key.name;
        store.write(&profile).unwrap();
        let path = store.path().join(format!("{name}.json"));
        let good = std::fs::read_to_string(&path).unwrap();
        let other_name = good.replace(name.as_str(), "other-1");
        let other_version = good.replace("\"version\": 1", "\"version\": 99");
        let no_share = good.replace("\"ended_huge\": 1.0", "\"ended_huge\": 1.5");
        let long = " ".repeat(70_000);
        for bad in [
            "",
            "{",
            "[]",
            &good[..good.len() / 2],
            &other_name,
            &other_version,
            &no_share,
            &long,
        ] {
            std::fs::write(&path, bad).unwrap();
            let error = store.read(name).unwrap_err().to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(error.contains(name.as_str()), "{error}");
            let (profiles, damaged) = store.all().unwrap();
            assert_eq!((profiles.len(), damaged.len()), (0, 1));
        }
        store.write(&profile).unwrap();
        assert_eq!(store.read(name).unwrap().unwrap().profile, profile);
    }

    #[test]
    fn the_oldest_go_first() {
        let (store, _folder) = store();
        let names: Vec<String> = (0..MOST_PROFILES + 3)
            .map(|number| {
                let profile = profile(&format!("/usr/bin/prog{number}"));
                store.write(&profile).unwrap();
                let path = store.path().join(format!("{}.json", profile.key.name));
                let written = UNIX_EPOCH + std::time::Duration::from_secs(1_000 + number as u64);
                let file = File::options().write(true).open(path).unwrap();
                file.set_modified(written).unwrap();
                profile.key.name
            })
            .collect();
        let mut kept = names[3..].to_vec();
        kept.sort_unstable();
        assert_eq!(store.names().unwrap(), kept);
    }

    #[test]
    fn a_name_leads_to_no_other_place() {
        let (store, folder) = store();
        let victim = folder.path().join("victim.json");
        std::fs::write(&victim, "{}").unwrap();
        for name in ["../victim", "/etc/passwd", "", ".", "..", ".victim", "a/b"] {
            assert!(!store.forget(name).unwrap(), "{name}");
            assert_eq!(store.read(name).unwrap(), None, "{name}");
        }
        assert!(victim.exists());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0..2_000_usize, byte: u8,
        ) {
            let _ = parse(&bytes);
            let mut text = serde_json::to_vec(&profile("/usr/bin/prog")).unwrap();
            let at = at % text.len();
            text[at] = byte;
            if let Ok(read) = parse(&text) {
                // What is taken is sound.
                prop_assert!(read.mappings.iter().all(|known| known.ended_huge <= 1.0));
            }
        }
    }
}
