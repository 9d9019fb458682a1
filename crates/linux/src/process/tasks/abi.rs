//! The bytes that come from `tasks.bpf.c`; each layout here is one struct there.

use std::collections::HashMap;

use mega_core::ProcessId;

/// `sizeof(struct thread)`.
const THREAD_BYTES: usize = 24;
/// `sizeof(struct process)`.
const PROCESS_BYTES: usize = THREAD_BYTES + 40;
/// Nanoseconds in a clock tick as `/proc` counts them (`USER_HZ`, 100 on x86).
pub(crate) const TICK: u64 = 10_000_000;

/// One process, as the kernel had it in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Which life of which process.
    pub(crate) process: ProcessId,
    /// Its parent's pid.
    pub(crate) parent: u32,
    /// Its effective user id.
    pub(crate) uid: u32,
    /// Counts the programs it started.
    pub(crate) exec_id: u64,
    /// The id of its cgroup v2.
    pub(crate) cgroup: u64,
    /// Which memory map it has; several processes may share one (`vfork`, `CLONE_VM`).
    pub(crate) memory: u64,
    /// CPU time, in nanoseconds, of all threads with this memory map.
    pub(crate) runtime: u64,
    /// Differs once a mapping changed; 0 where the kernel cannot tell (before 6.4).
    pub(crate) layout: u32,
}

/// The processes in what one pass wrote. `None` where that is not what `tasks.bpf.c` writes. Those that have exited, or
/// have no memory, are left out.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Task>> {
    let mut tasks = Vec::new();
    let mut runtimes: HashMap<u64, u64> = HashMap::new();
    while !bytes.is_empty() {
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let int = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let memory = long(0)?;
        *runtimes.entry(memory).or_default() += long(8)?;
        if int(20)? == 0 {
            bytes = &bytes[THREAD_BYTES..];
            continue;
        }
        let exit_state = int(60)?;
        if memory != 0 && exit_state == 0 {
            tasks.push(Task {
                process: ProcessId {
                    pid: int(16)?,
                    start_time: long(24)? / TICK,
                },
                exec_id: long(32)?,
                cgroup: long(40)?,
                parent: int(48)?,
                uid: int(52)?,
                layout: int(56)?,
                memory,
                runtime: 0,
            });
        }
        bytes = &bytes[PROCESS_BYTES..];
    }
    for task in &mut tasks {
        task.runtime = runtimes.get(&task.memory).copied().unwrap_or(0);
    }
    Some(tasks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thread(memory: u64, runtime: u64, pid: u32, process: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(memory.to_ne_bytes());
        bytes.extend(runtime.to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes.extend(process.to_ne_bytes());
        bytes
    }

    fn process(memory: u64, runtime: u64, pid: u32, exit_state: u32) -> Vec<u8> {
        let mut bytes = thread(memory, runtime, pid, 1);
        for long in [70 * TICK + 5, 3, 4] {
            bytes.extend(long.to_ne_bytes());
        }
        for int in [1_u32, 1000, 8, exit_state] {
            bytes.extend(int.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn what_ran_in_a_memory_map_counts_for_all_who_have_it() {
        let pass = [
            process(0xa, 100, 7, 0),
            thread(0xa, 20, 7, 0),
            process(0xa, 3, 9, 0),
            process(0xb, 5, 10, 0),
        ]
        .concat();
        let tasks = decode(&pass).unwrap();
        let runtimes: Vec<_> = tasks.iter().map(|task| task.runtime).collect();
        assert_eq!(runtimes, [123, 123, 5]);
        assert_eq!(
            tasks[0].process,
            ProcessId {
                pid: 7,
                start_time: 70
            }
        );
        assert_eq!((tasks[0].parent, tasks[0].uid), (1, 1000));
        assert_eq!(
            (tasks[0].exec_id, tasks[0].cgroup, tasks[0].layout),
            (3, 4, 8)
        );
    }

    #[test]
    fn who_has_exited_is_left_out() {
        let pass = [process(0xa, 1, 7, 16), process(0, 1, 8, 0)].concat();
        assert_eq!(decode(&pass), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn no_cut_makes_it_panic(cut in 0_usize..88) {
            let pass = [process(1, 1, 7, 0), thread(1, 1, 7, 0)].concat();
            prop_assert_eq!(decode(&pass[..cut]).is_some(), cut == 0 || cut == 64);
        }
    }
}
