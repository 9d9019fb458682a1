//! The programs that an experiment starts, and the packages they come from.

use std::path::PathBuf;

use crate::error::Error;

/// A program that must be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its file name.
    pub(crate) name: &'static str,
    pub(crate) package: Package,
}

/// What has a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// A package of Debian's, by its name.
    Debian(&'static str),
    /// One of Python's that Debian does not have.
    OfPython(&'static str),
}

impl Package {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Package::Debian(name) | Package::OfPython(name) => name,
        }
    }
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
                let installs = match self.package {
                    Package::Debian(package) => format!("`apt-get install {package}`"),
                    Package::OfPython(_) => {
                        "`scripts/install-lab-programs` of mega's sources".to_owned()
                    }
                };
                Error::Missing(format!(
                    "{} is not installed; {installs} installs it",
                    self.name
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
            package: Package::Debian("no-such-package"),
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
