//! The global mode of transparent huge pages, changed for a while.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::ledger;

/// Where the kernel keeps it.
pub const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The global mode of transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThpMode {
    /// Faults take huge pages wherever a region fits.
    Always,
    /// Faults take huge pages only where the program asked by `madvise`.
    Madvise,
    /// Faults take base pages.
    Never,
}

impl ThpMode {
    /// As the kernel spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ThpMode::Always => "always",
            ThpMode::Madvise => "madvise",
            ThpMode::Never => "never",
        }
    }

    /// The mode that the kernel spells so.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "always" => Some(ThpMode::Always),
            "madvise" => Some(ThpMode::Madvise),
            "never" => Some(ThpMode::Never),
            _ => None,
        }
    }

    /// What page faults take under it, in words.
    #[must_use]
    pub const fn faults_take(self) -> &'static str {
        match self {
            ThpMode::Always => "huge pages wherever a region fits",
            ThpMode::Madvise => "base pages, except where a program asks for huge ones by madvise",
            ThpMode::Never => "base pages",
        }
    }

    /// Reads the kernel's text, which has the mode in force in brackets. `None` where nothing is in brackets.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (_, rest) = text.split_once('[')?;
        Self::from_name(rest.split_once(']')?.0)
    }
}

impl std::fmt::Display for ThpMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the mode in force.
///
/// # Errors
/// [`Error::Missing`] where the kernel has no transparent huge pages.
pub fn read(kernel: &dyn Kernel) -> Result<ThpMode, Error> {
    let path = Path::new(PATH);
    let text = kernel
        .read(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => Error::Missing {
                feature: "transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)".to_owned(),
                remedy: "this kernel was built without them; use a distribution's kernel"
                    .to_owned(),
            },
            _ => Error::io("read", path)(error),
        })?;
    ThpMode::parse(&text).ok_or_else(|| Error::Malformed {
        path: path.to_owned(),
        reason: "names no mode in brackets".to_owned(),
    })
}

/// Keeps the global mode changed for as long as it lives.
pub struct Guard(ledger::Guard);

impl Guard {
    /// Changes the mode to `wants`, having recorded what it was.
    ///
    /// # Errors
    /// As [`read`] and [`ledger::Guard::set`]. Then nothing is changed.
    pub fn set(kernel: Arc<dyn Kernel>, run_dir: &RunDir, wants: ThpMode) -> Result<Self, Error> {
        // A kernel without huge pages is told apart here.
        read(kernel.as_ref())?;
        ledger::Guard::set(kernel, run_dir, Path::new(PATH), wants.name()).map(Guard)
    }

    /// Gives the mode up: it becomes what the remaining owners want, or what it was.
    ///
    /// # Errors
    /// As [`ledger::Guard::restore`].
    pub fn restore(self) -> Result<(), Error> {
        self.0.restore()
    }
}

/// What a killed mega left: the mode that it set, and the one to put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// The mode that it set.
    pub set: ThpMode,
    /// The mode there was before.
    pub original: ThpMode,
}

impl TryFrom<&ledger::Stale> for Stale {
    type Error = Error;

    fn try_from(stale: &ledger::Stale) -> Result<Self, Error> {
        let mode = |name: &str| {
            ThpMode::from_name(name).ok_or_else(|| Error::Malformed {
                path: stale.path.clone(),
                reason: format!("a killed mega recorded a mode that there is not: {name:?}"),
            })
        };
        Ok(Stale {
            set: mode(&stale.set)?,
            original: mode(&stale.original)?,
        })
    }
}

/// What a killed mega left changed, if any. Changes nothing.
///
/// # Errors
/// As [`ledger::stale`].
pub fn stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Option<Stale>, Error> {
    let stale = ledger::stale_of(kernel, run_dir, Path::new(PATH))?;
    stale.as_ref().map(Stale::try_from).transpose()
}

/// Puts back what killed megas left changed, and says what it was.
///
/// # Errors
/// As [`ledger::restore_stale`].
pub fn restore_stale(kernel: &dyn Kernel, run_dir: &RunDir) -> Result<Option<Stale>, Error> {
    let stale = ledger::restore_stale_of(kernel, run_dir, Path::new(PATH))?;
    stale.as_ref().map(Stale::try_from).transpose()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_mode_in_brackets_is_in_force() {
        assert_eq!(
            ThpMode::parse(b"[always] madvise never\n"),
            Some(ThpMode::Always)
        );
        assert_eq!(
            ThpMode::parse(b"always [madvise] never\n"),
            Some(ThpMode::Madvise)
        );
        assert_eq!(
            ThpMode::parse(b"always madvise [never]\n"),
            Some(ThpMode::Never)
        );
        assert_eq!(ThpMode::parse(b"always madvise never\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]a-z ]{0,40}") {
            let _ = ThpMode::parse(&bytes);
            let _ = ThpMode::parse(text.as_bytes());
        }
    }
}
