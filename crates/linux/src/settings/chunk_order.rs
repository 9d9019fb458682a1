//! The order in which the patched kernel empties chunks for giant pages. It starts with the chunk that holds the least.
//! An experiment has it take one chunk after the other, and so shows what the choice is worth.
//!
//! This is one setting for the whole machine. The [`ledger`](crate::settings::ledger) records it and puts it back.

use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::ledger::Guard;

/// Where the kernel keeps it.
pub const PATH: &str = "/sys/kernel/debug/anon_pud/sequential";

/// Has the kernel empty one chunk after the other until the guard is dropped.
///
/// # Errors
/// [`Error::Missing`] where the kernel has no such setting; as [`Guard::set`].
pub fn make_sequential(kernel: Arc<dyn Kernel>, run_dir: &RunDir) -> Result<Guard, Error> {
    let path = Path::new(PATH);
    if let Err(error) = kernel.read(path) {
        return Err(Error::Missing {
            feature: format!("the setting for the order of chunks ({PATH}: {error})"),
            remedy: "boot a kernel with the patches of kernel/linux-6.12 and CONFIG_ANON_PUD=y, and mount debugfs"
                .to_owned(),
        });
    }
    Guard::set(kernel, run_dir, path, "Y")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::{FakeKernel, FakeProcess};

    #[test]
    fn it_is_sequential_while_it_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(folder.path()).unwrap();
        let kernel = Arc::new(FakeKernel::new());
        kernel.add(std::process::id(), FakeProcess::default());
        let value = || kernel.read(Path::new(PATH)).unwrap();
        assert!(matches!(
            make_sequential(kernel.clone(), &run_dir),
            Err(Error::Missing { .. })
        ));

        kernel.state().files.insert(PATH.into(), b"N\n".to_vec());
        let held = make_sequential(kernel.clone(), &run_dir).unwrap();
        assert_eq!(value(), b"Y");
        held.restore().unwrap();
        assert_eq!(value(), b"N");
    }
}
