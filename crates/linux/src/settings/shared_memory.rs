//! Whether shared memory may be in huge pages (`shmem_enabled`), changed for a while.
//!
//! While it is `never`, the kernel places shared memory so that no huge page fits, for good. `advise` changes where it places
//! what programs map from then on; faults take huge pages there only where a program asks.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::ledger::Guard;

/// Where the kernel keeps it.
pub const PATH: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// What the machine's setting for shared memory is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedMemory {
    /// What it is.
    #[default]
    Inherit,
    /// `advise`, where it is `never`.
    Advise,
}

/// Has the kernel place shared memory so that huge pages fit, until the guard is dropped. `None` where it does so already, or
/// where `deny` forbids huge pages there: somebody wrote that on purpose.
///
/// # Errors
/// [`Error::Missing`] where the kernel has no such setting; as [`Guard::set`].
pub fn advise(kernel: &Arc<dyn Kernel>, run_dir: &RunDir) -> Result<Option<Guard>, Error> {
    let path = Path::new(PATH);
    let text = kernel.read(path).map_err(|error| Error::Missing {
        feature: format!("the setting for shared memory in huge pages ({PATH}: {error})"),
        remedy: "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y and CONFIG_SHMEM=y, or remove `shared_memory` from the configuration"
            .to_owned(),
    })?;
    // Another mega may have set it. Then both hold it.
    let is_changed = |text: &str| text.contains("[never]") || text.contains("[advise]");
    if !is_changed(&String::from_utf8_lossy(&text)) {
        return Ok(None);
    }
    Guard::set(Arc::clone(kernel), run_dir, path, "advise").map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeProcess};

    #[test]
    fn never_becomes_advise_and_comes_back_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(folder.path()).unwrap();
        let fake = Arc::new(FakeKernel::new());
        fake.add(std::process::id(), FakeProcess::default());
        let kernel: Arc<dyn Kernel> = fake.clone();
        let value = || fake.read(Path::new(PATH)).unwrap();
        assert!(matches!(
            advise(&kernel, &run_dir),
            Err(Error::Missing { .. })
        ));
        for stays in [
            "[always] within_size advise never deny force\n",
            "always [within_size] advise never deny force\n",
            "always within_size advise never [deny] force\n",
        ] {
            fake.state().files.insert(PATH.into(), stays.into());
            assert!(advise(&kernel, &run_dir).unwrap().is_none(), "{stays}");
            assert_eq!(value(), stays.as_bytes());
        }
        let never = "always within_size advise [never] deny force\n";
        fake.state().files.insert(PATH.into(), never.into());
        let held = advise(&kernel, &run_dir).unwrap().expect("it is changed");
        assert_eq!(value(), b"advise");
        held.restore().unwrap();
        assert_eq!(value(), b"never");
    }
}
