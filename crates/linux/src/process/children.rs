//! Children of processes, as the kernel lists them for each thread (`/proc/PID/task/TID/children`, Linux 3.5 and newer with
//! `CONFIG_PROC_CHILDREN`).

use std::collections::BTreeSet;

use mega_core::ProcessId;

use super::{path, stat};
use crate::kernel::Kernel;

/// All that descend from `root`, without it: as far as main threads started them, and the kernel lists children. Where a parent
/// has ended they are found only if `root` took them over as a subreaper. Some microseconds for each;
/// [`Table::descendants`](super::Table::descendants) finds all, and goes through all processes.
#[must_use]
pub fn descendants(kernel: &dyn Kernel, root: ProcessId) -> BTreeSet<ProcessId> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.pid];
    while let Some(parent) = waiting.pop() {
        for pid in of_main_thread(kernel, parent) {
            // A pid that is gone, or was used again, leads nowhere.
            let Ok(child) = stat(kernel, pid) else {
                continue;
            };
            if child.parent == parent && found.insert(child.process()) {
                waiting.push(pid);
            }
        }
    }
    found
}

/// What the main thread of a process started; nothing where that cannot be read.
fn of_main_thread(kernel: &dyn Kernel, pid: u32) -> Vec<u32> {
    let list = path(pid, &format!("task/{pid}/children"));
    let text = kernel.read(&list).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::kernel::LiveKernel;

    #[test]
    fn a_child_of_a_child_is_found() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & read line; kill $!"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let root = stat(&LiveKernel, shell.id()).unwrap().process();
        let started = std::time::Instant::now();
        let found = loop {
            let found = descendants(&LiveKernel, root);
            if !found.is_empty() || started.elapsed().as_secs() > 10 {
                break found;
            }
        };
        // Its end is the shell's input's.
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(found.len(), 1);
        assert!(!found.contains(&root));
    }
}
