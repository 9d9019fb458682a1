//! What happens when no file can be opened. In a program of its own: the others' files are this process's, too.

use mega_linux::kernel::LiveKernel;
use mega_linux::process::{self, Table};

#[test]
fn the_table_of_processes_stays_as_it_was() {
    let mut table = Table::default();
    table.refresh(&LiveKernel, true).unwrap();
    let own = process::identify(&LiveKernel, std::process::id()).unwrap();
    let files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let failed = table.refresh(&LiveKernel, true);
    drop(files);
    failed.unwrap_err();
    let mut all = table.processes().iter();
    assert!(all.any(|known| known.facts.process == own));
    table.refresh(&LiveKernel, true).unwrap();
}
