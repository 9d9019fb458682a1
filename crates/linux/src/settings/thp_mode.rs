//! The modes of transparent huge pages, the global one and those of each size (Linux 6.8), changed for a while.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mega_core::HUGE_PAGE_SIZE;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::ledger;

/// Where the kernel keeps the global mode.
pub const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Where the kernel keeps what it has for each size, in folders named after the size.
pub(crate) const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// A mode of transparent huge pages. In the words below, of huge pages; the mode of a smaller size says the same of folios of that
/// size.
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

/// The mode in force for folios of one size, and the file that decides on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The mode.
    pub mode: ThpMode,
    /// The size's own setting, or the global one where the size inherits it.
    pub path: PathBuf,
}

impl InForce {
    /// Whether the size's own setting decides, whatever the global mode is.
    #[must_use]
    pub fn is_of_size(&self) -> bool {
        self.path != Path::new(PATH)
    }
}

impl std::fmt::Display for InForce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_of_size() {
            true => write!(f, "mode `{}` in {}", self.mode, self.path.display()),
            false => write!(f, "THP mode `{}`", self.mode),
        }
    }
}

/// What the kernel keeps for folios of `size` bytes.
pub(crate) fn folder_of(size: u64) -> PathBuf {
    Path::new(FOLDER).join(format!("hugepages-{}kB", size >> 10))
}

/// The file with the mode of folios of `size` bytes.
fn path_of(size: u64) -> PathBuf {
    folder_of(size).join("enabled")
}

/// The sizes in bytes between a base page and a huge page that the kernel keeps anything for (Linux 6.8), ascending.
pub(crate) fn smaller_sizes(kernel: &dyn Kernel) -> Vec<u64> {
    let size_of = |name: OsString| -> Option<u64> {
        let size = name.to_str()?.strip_prefix("hugepages-")?;
        size.strip_suffix("kB")?
            .parse::<u64>()
            .ok()?
            .checked_mul(1 << 10)
    };
    let names = kernel.list(Path::new(FOLDER)).unwrap_or_default();
    let sizes: BTreeSet<u64> = names.into_iter().filter_map(size_of).collect();
    sizes.range(..HUGE_PAGE_SIZE).copied().collect()
}

/// Reads the mode in force for huge pages.
///
/// # Errors
/// As [`of_size`].
pub fn of_huge_pages(kernel: &dyn Kernel) -> Result<InForce, Error> {
    of_size(kernel, HUGE_PAGE_SIZE)
}

/// Reads the mode in force for folios of `size` bytes of private memory: the size's own, or the global mode where that says `inherit`
/// (what it says of huge pages if nobody has changed it). Before Linux 6.8 sizes have no modes, and the global one is that of huge pages
/// (Documentation/admin-guide/mm/transhuge.rst). A smaller size without a mode is none that private memory has: `never`.
///
/// # Errors
/// [`Error::Missing`] where the kernel has no transparent huge pages; [`Error::Io`], [`Error::Malformed`].
pub fn of_size(kernel: &dyn Kernel, size: u64) -> Result<InForce, Error> {
    let path = path_of(size);
    let text = match kernel.read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if size < HUGE_PAGE_SIZE {
                let mode = ThpMode::Never;
                return Ok(InForce { mode, path });
            }
            None
        }
        read => Some(read.map_err(Error::io("read", &path))?),
    };
    match text {
        Some(text) if !text.windows(INHERIT.len()).any(|part| part == INHERIT) => {
            let mode = ThpMode::parse(&text).ok_or_else(|| no_mode(&path))?;
            Ok(InForce { mode, path })
        }
        _ => Ok(InForce {
            mode: read(kernel)?,
            path: PATH.into(),
        }),
    }
}

/// How a size's setting says that the global mode holds.
const INHERIT: &[u8] = b"[inherit]";

fn no_mode(path: &Path) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        reason: "names no mode in brackets".to_owned(),
    }
}

/// Reads the global mode.
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
    ThpMode::parse(&text).ok_or_else(|| no_mode(path))
}

/// Keeps a mode changed for as long as it lives.
pub struct Guard(ledger::Guard);

impl Guard {
    /// Changes the mode in force for huge pages to `wants` where it is kept, having recorded what it was.
    ///
    /// # Errors
    /// As [`of_huge_pages`] and [`ledger::Guard::set`]. Then nothing is changed.
    pub fn set(kernel: Arc<dyn Kernel>, run_dir: &RunDir, wants: ThpMode) -> Result<Self, Error> {
        let in_force = of_huge_pages(kernel.as_ref())?;
        Self::change(kernel, run_dir, &in_force, wants)
    }

    /// Changes the mode that is `in_force` to `wants` where it is kept, having recorded what it was.
    ///
    /// # Errors
    /// As [`ledger::Guard::set`]. Then nothing is changed.
    pub fn change(
        kernel: Arc<dyn Kernel>,
        run_dir: &RunDir,
        in_force: &InForce,
        wants: ThpMode,
    ) -> Result<Self, Error> {
        ledger::Guard::set(kernel, run_dir, &in_force.path, wants.name()).map(Guard)
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
    use crate::kernel::fake::FakeKernel;

    #[test]
    fn a_size_has_its_own_mode_or_inherits_the_global_one() {
        let of_64_kb = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
        let in_force = |global: &str, own: &str| {
            let kernel = FakeKernel::with_files(&[(PATH, global), (of_64_kb, own)]);
            let in_force = of_size(&kernel, 64 << 10).unwrap();
            (in_force.mode, in_force.is_of_size())
        };
        let never = "always madvise [never]\n";
        let always = "[always] madvise never\n";
        let inherit = "always [inherit] madvise never\n";
        assert_eq!(in_force(never, inherit), (ThpMode::Never, false));
        assert_eq!(in_force(always, inherit), (ThpMode::Always, false));
        for (own, mode) in [
            ("[always] inherit madvise never\n", ThpMode::Always),
            ("always inherit [madvise] never\n", ThpMode::Madvise),
            ("always inherit madvise [never]\n", ThpMode::Never),
        ] {
            for global in [never, always] {
                assert_eq!(in_force(global, own), (mode, true));
            }
        }
    }

    #[test]
    fn before_6_8_the_global_mode_is_that_of_huge_pages() {
        let kernel = FakeKernel::with_files(&[(PATH, "always [madvise] never\n")]);
        let in_force = of_huge_pages(&kernel).unwrap();
        assert_eq!(in_force.mode, ThpMode::Madvise);
        assert!(!in_force.is_of_size());
        assert!(matches!(
            of_huge_pages(&FakeKernel::with_files(&[("/proc/x", "")])),
            Err(Error::Missing { .. })
        ));
    }

    #[test]
    fn a_smaller_size_without_a_mode_is_never_taken() {
        let kernel = FakeKernel::with_files(&[(PATH, "[always] madvise never\n")]);
        assert_eq!(of_size(&kernel, 8 << 10).unwrap().mode, ThpMode::Never);
    }

    #[test]
    fn a_setting_without_a_mode_is_an_error() {
        let own = path_of(HUGE_PAGE_SIZE);
        let kernel = FakeKernel::with_files(&[(own, "inherit\n")]);
        assert!(matches!(
            of_huge_pages(&kernel),
            Err(Error::Malformed { .. })
        ));
    }

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
