//! The programs that an experiment starts, and the Debian packages they come from.

use std::path::PathBuf;

use crate::error::Error;

/// A program that must be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its file name.
    pub(crate) name: &'static str,
    /// The Debian package that has it.
    pub(crate) package: &'static str,
}

/// Folders that hold programs though `PATH` may not name them.
const FURTHER: [&str; 2] = ["/usr/sbin", "/sbin"];

impl Program {
    /// Where it is.
    ///
    /// # Errors
    /// [`Error::Missing`], naming the package, where it is not installed.
    pub(crate) fn find(self) -> Result<PathBuf, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(FURTHER.map(PathBuf::from))
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
            .ok_or_else(|| {
                Error::Missing(format!(
                    "{} is not installed; `apt-get install {}` installs it",
                    self.name, self.package
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let program = Program {
            name: "no-such-program",
            package: "no-such-package",
        };
        let error = program.find().unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(
            error
                .to_string()
                .contains("apt-get install no-such-package")
        );
    }
}
