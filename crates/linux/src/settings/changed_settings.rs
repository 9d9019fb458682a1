//! Several settings that are changed together for a while (khugepaged's, for an experiment).

use std::path::PathBuf;
use std::sync::Arc;

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::ledger::Guard;

/// Keeps settings changed for as long as it lives.
pub struct ChangedSettings {
    guards: Vec<Guard>,
}

impl ChangedSettings {
    /// Sets each of the files to its value, having recorded what it was.
    ///
    /// # Errors
    /// As [`Guard::set`]. Then none is changed.
    pub fn change(
        kernel: Arc<dyn Kernel>,
        run_dir: &RunDir,
        values: &[(PathBuf, String)],
    ) -> Result<Self, Error> {
        let guards = values
            .iter()
            .map(|(path, value)| Guard::set(Arc::clone(&kernel), run_dir, path, value))
            .collect::<Result<_, _>>()?;
        Ok(ChangedSettings { guards })
    }

    /// Puts them back. One that cannot be put back does not keep the others from it.
    ///
    /// # Errors
    /// As [`Guard::restore`], of the first that fails.
    pub fn put_back(self) -> Result<(), Error> {
        self.guards
            .into_iter()
            .map(Guard::restore)
            .fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeProcess};

    const SCAN: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan";
    const SLEEP: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";

    #[test]
    fn all_are_changed_and_put_back_or_none_is() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(folder.path()).unwrap();
        let kernel = Arc::new(FakeKernel::new());
        kernel.add(std::process::id(), FakeProcess::default());
        let insert = |path: &str, value: &[u8]| {
            kernel.state().files.insert(path.into(), value.to_vec());
        };
        let values = || [SCAN, SLEEP].map(|path| kernel.read(path.as_ref()).ok());
        let change = || {
            let wanted = [
                (SCAN.into(), "7".to_owned()),
                (SLEEP.into(), "0".to_owned()),
            ];
            ChangedSettings::change(kernel.clone(), &run_dir, &wanted)
        };

        insert(SCAN, b"4096");
        assert!(change().is_err(), "the second is not there");
        assert_eq!(values(), [Some(b"4096".to_vec()), None]);

        insert(SLEEP, b"10000");
        let changed = change().unwrap();
        assert_eq!(values(), [Some(b"7".to_vec()), Some(b"0".to_vec())]);
        changed.put_back().unwrap();
        assert_eq!(values(), [Some(b"4096".to_vec()), Some(b"10000".to_vec())]);
    }
}
