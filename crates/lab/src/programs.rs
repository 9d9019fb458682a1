//! The two programs that an experiment starts by itself: this one, for its workloads, and mega, which manages them.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where mega may be, seen from the folder of this program: beside it, or where `libexec/mega` and `lib/mega` have it.
const FOLDERS: [&str; 2] = ["", "../../bin"];

/// This program's own file.
///
/// # Errors
/// Where the kernel does not tell it.
pub(crate) fn own() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|e| Error::io("finding this program, to start it as the measured one", e))
}

/// The file of mega.
///
/// # Errors
/// [`Error::Missing`] where it is neither near this program nor on `PATH`.
pub(crate) fn mega() -> Result<PathBuf, Error> {
    let own = own()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let near = own.parent().map(near).into_iter().flatten();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("mega"));
    near.chain(on_path).find(|file| file.is_file()).ok_or_else(|| {
        Error::Missing(format!(
            "mega is neither beside {}, nor in ../../bin from there, nor on PATH; `make install` installs both, `make build` builds both",
            own.display()
        ))
    })
}

fn near(folder: &Path) -> [PathBuf; 2] {
    FOLDERS.map(|place| folder.join(place).join("mega"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mega_is_beside_or_where_it_is_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let libexec = folder.path().join("libexec/mega");
        std::fs::create_dir_all(folder.path().join("bin")).expect("made");
        std::fs::create_dir_all(&libexec).expect("made");
        std::fs::write(folder.path().join("bin/mega"), "").expect("written");
        let found = |folder: &Path| near(folder).into_iter().find(|file| file.is_file());
        assert_eq!(found(&libexec), Some(libexec.join("../../bin/mega")));
        std::fs::write(libexec.join("mega"), "").expect("written");
        assert_eq!(found(&libexec), Some(libexec.join("mega")));
    }
}
