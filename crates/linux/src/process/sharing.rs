//! Shared memory is observed and acted on through one of the processes that map it.
//!
//! The backends of a server map the same pages. If mega looked at them through each backend, it would count, pay for and
//! promote them as many times as there are backends. So each part of a file in the kernel's own tmpfs belongs to one process,
//! of whichever selection: the one with the most shared memory resident, until it is gone or another has more than twice
//! as much. A promotion through it is for all: the kernel takes the page out of the page tables of the others, which map it huge when they touch it
//! next. (Before 6.6 it does so only where it gets their mmap locks at once; else they go on with what they map by base
//! pages already.)
//!
//! What this does not see: the Accessed bits in the page tables of the others. Memory that only another process uses
//! looks cold.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use mega_core::ProcessId;

use super::not_eligible::{NotEligible, Reason};

/// What names a file for as long as it is mapped: the device's major and minor number, and the inode.
pub type FileId = ((u32, u32), u64);

/// Shared memory that huge pages may map, in whole regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// Its addresses.
    pub range: Range<u64>,
    /// The file that it is part of.
    pub file: FileId,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
}

/// What the processes of each machine map.
type Mapped = BTreeMap<ProcessId, Vec<SharedRange>>;

/// Which process each file belongs to, of those of all machines on a host.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    owners: BTreeMap<FileId, ProcessId>,
    /// By the machine's number.
    mapped: BTreeMap<u64, Mapped>,
    next: u64,
}

/// The part that one machine has in the sharing of its host.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Mutex<Sharing>>,
    machine: u64,
}

impl Share {
    /// The part of a machine that manages nothing yet.
    pub(crate) fn new(of: &Arc<Mutex<Sharing>>) -> Self {
        let mut sharing = of.lock().unwrap_or_else(PoisonError::into_inner);
        sharing.next += 1;
        Share {
            of: Arc::clone(of),
            machine: sharing.next,
        }
    }

    /// What each process of this machine has to leave to another one, whose machine that may be; `mapped` is all that they
    /// map now. `resident` is asked for the shared memory that a process has resident, in bytes, where it matters.
    pub(crate) fn divide(
        &self,
        mapped: Mapped,
        resident: impl FnMut(ProcessId) -> u64,
    ) -> BTreeMap<ProcessId, Vec<NotEligible>> {
        // What is in it is replaced as a whole, so a poisoned lock holds a good one.
        let mut sharing = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        sharing.divide(self.machine, mapped, resident)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut sharing = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        sharing.replace(self.machine, Mapped::new(), &BTreeSet::new());
    }
}

impl Sharing {
    fn divide(
        &mut self,
        machine: u64,
        mapped: Mapped,
        mut resident: impl FnMut(ProcessId) -> u64,
    ) -> BTreeMap<ProcessId, Vec<NotEligible>> {
        let files = files(&mapped);
        self.replace(machine, mapped, &files);
        let mapped = self.who_maps(machine, &files);
        let mut mappers: BTreeMap<FileId, Vec<ProcessId>> = BTreeMap::new();
        for (&process, ranges) in &mapped {
            for range in ranges {
                let of_file = mappers.entry(range.file).or_default();
                if of_file.last() != Some(&process) {
                    of_file.push(process);
                }
            }
        }
        let mut sizes: BTreeMap<ProcessId, u64> = BTreeMap::new();
        let mut left: BTreeMap<ProcessId, Vec<NotEligible>> = BTreeMap::new();
        let mut owners = Vec::new();
        for (file, mut processes) in mappers {
            if processes.len() > 1 {
                let mut size = |process| *sizes.entry(process).or_insert_with(|| resident(process));
                processes.sort_by_key(|&process| (Reverse(size(process)), process));
                let old = self.owners.get(&file).copied();
                let old = processes.iter().position(|&process| Some(process) == old);
                if let Some(old) = old
                    && size(processes[0]) <= size(processes[old]).saturating_mul(2)
                {
                    processes[..=old].rotate_right(1);
                }
            }
            let of_file = |process: &ProcessId| {
                let ranges = mapped.get(process).into_iter().flatten();
                ranges.filter(|range| range.file == file)
            };
            let mut taken = Taken::default();
            for process in &processes {
                for range in of_file(process) {
                    let lost = taken.take(*process, range);
                    left.entry(*process).or_default().extend(lost);
                }
            }
            owners.extend(processes.first().map(|&first| (file, first)));
        }
        self.owners.extend(owners);
        left
    }

    /// All that is mapped of these files. What `machine` says of a process stands before what another one said of it.
    fn who_maps(
        &self,
        machine: u64,
        files: &BTreeSet<FileId>,
    ) -> BTreeMap<ProcessId, Vec<&SharedRange>> {
        let mut mapped = BTreeMap::new();
        let others = self.mapped.iter().filter(|(of, _)| **of != machine);
        let all = others.chain(self.mapped.get_key_value(&machine));
        for (&process, ranges) in all.flat_map(|(_, mapped)| mapped) {
            let ranges: Vec<&SharedRange> = ranges
                .iter()
                .filter(|range| files.contains(&range.file))
                .collect();
            mapped.insert(process, ranges);
        }
        mapped
    }

    /// Takes note of what the processes of a machine map, which is of the files `now`, and forgets the files that nobody maps
    /// any more.
    fn replace(&mut self, machine: u64, mapped: Mapped, now: &BTreeSet<FileId>) {
        let before = match mapped.is_empty() {
            true => self.mapped.remove(&machine),
            false => self.mapped.insert(machine, mapped),
        };
        let before = before.unwrap_or_default();
        if before
            .values()
            .flatten()
            .any(|range| !now.contains(&range.file))
        {
            let mapped: BTreeSet<FileId> = self.mapped.values().flat_map(files).collect();
            self.owners.retain(|file, _| mapped.contains(file));
        }
    }
}

fn files(mapped: &Mapped) -> BTreeSet<FileId> {
    mapped.values().flatten().map(|range| range.file).collect()
}

/// The parts of one file that somebody has: offsets, and who.
#[derive(Default)]
struct Taken(Vec<(Range<u64>, ProcessId)>);

impl Taken {
    /// Gives `process` of `wanted` what nobody has, and says what others have.
    fn take(&mut self, process: ProcessId, wanted: &SharedRange) -> Vec<NotEligible> {
        let length = wanted.range.end - wanted.range.start;
        let whole = wanted.offset..wanted.offset.saturating_add(length);
        let address = |offset: u64| wanted.range.start + (offset - wanted.offset);
        let mut lost = Vec::new();
        let mut free = vec![whole];
        for (part, holder) in &self.0 {
            let before = std::mem::take(&mut free);
            for piece in before {
                let common = piece.start.max(part.start)..piece.end.min(part.end);
                if common.is_empty() {
                    free.push(piece);
                    continue;
                }
                lost.push(NotEligible {
                    range: address(common.start)..address(common.end),
                    reason: Reason::CountedWith { pid: holder.pid },
                });
                let rest = [piece.start..common.start, common.end..piece.end];
                free.extend(rest.into_iter().filter(|rest| !rest.is_empty()));
            }
        }
        self.0.extend(free.into_iter().map(|part| (part, process)));
        lost
    }
}

#[cfg(test)]
mod tests {
    use mega_core::HUGE_PAGE_SIZE as HUGE;
    use proptest::prelude::*;

    use super::*;

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_time: 1 }
    }

    /// `regions` of file `inode` from `offset` on, mapped at `at`; all in regions.
    fn shared(inode: u64, at: u64, offset: u64, regions: u64) -> SharedRange {
        SharedRange {
            range: at * HUGE..(at + regions) * HUGE,
            file: ((0, 1), inode),
            offset: offset * HUGE,
        }
    }

    fn all_map(pids: &[u32]) -> BTreeMap<ProcessId, Vec<SharedRange>> {
        let ranges = |pid: u32| vec![shared(9, u64::from(pid) * 100, 0, 4)];
        pids.iter()
            .map(|&pid| (process(pid), ranges(pid)))
            .collect()
    }

    /// Who keeps the file that all of these map.
    fn owner(sharing: &mut Sharing, pids: &[u32], sizes: &[u64]) -> u32 {
        let mapped = all_map(pids);
        let size = |of: ProcessId| {
            let index = pids.iter().position(|&pid| pid == of.pid).unwrap();
            sizes[index]
        };
        let left = sharing.divide(1, mapped.clone(), size);
        let keeps = |process: &&ProcessId| left.get(process).is_none_or(Vec::is_empty);
        let keepers: Vec<&ProcessId> = mapped.keys().filter(keeps).collect();
        assert_eq!(keepers.len(), 1);
        for (process, left) in &left {
            let whole = mapped[process][0].range.clone();
            let reason = Reason::CountedWith {
                pid: keepers[0].pid,
            };
            let expected = NotEligible {
                range: whole,
                reason,
            };
            assert!(left.is_empty() || *left == [expected]);
        }
        keepers[0].pid
    }

    #[test]
    fn the_largest_has_it_until_another_is_more_than_twice_as_large_or_it_is_gone() {
        let mut sharing = Sharing::default();
        assert_eq!(owner(&mut sharing, &[1, 2, 3], &[5, 20, 10]), 2);
        assert_eq!(owner(&mut sharing, &[1, 2, 3], &[40, 20, 10]), 2);
        assert_eq!(owner(&mut sharing, &[1, 2, 3], &[41, 20, 10]), 1);
        assert_eq!(owner(&mut sharing, &[1, 2, 3], &[41, 50, 10]), 1);
        assert_eq!(owner(&mut sharing, &[2, 3], &[10, 10]), 2);
        assert_eq!(owner(&mut sharing, &[3], &[0]), 3);
    }

    #[test]
    fn nobody_is_asked_for_sizes_where_nothing_is_shared() {
        let mut sharing = Sharing::default();
        let left = sharing.divide(1, all_map(&[7]), |_| panic!("it was asked"));
        assert!(left.values().all(Vec::is_empty));
    }

    #[test]
    fn a_file_mapped_twice_by_one_process_is_counted_once() {
        let mapped =
            BTreeMap::from([(process(1), vec![shared(9, 100, 0, 4), shared(9, 200, 0, 4)])]);
        let left = Sharing::default().divide(1, mapped, |_| 0);
        let expected = NotEligible {
            range: 200 * HUGE..204 * HUGE,
            reason: Reason::CountedWith { pid: 1 },
        };
        assert_eq!(left[&process(1)], [expected]);
    }

    #[test]
    fn machines_of_one_host_share_what_their_processes_map() {
        let sharing = Arc::new(Mutex::new(Sharing::default()));
        let (one, two) = (Share::new(&sharing), Share::new(&sharing));
        let size = |of: ProcessId| u64::from(of.pid);
        let is_left = |left: BTreeMap<ProcessId, Vec<NotEligible>>, pid: u32| {
            left.get(&process(pid)).is_some_and(|left| !left.is_empty())
        };
        assert!(!is_left(one.divide(all_map(&[5]), size), 5));
        // The first has it, and the other is not twice as large.
        assert!(is_left(two.divide(all_map(&[7]), size), 7));
        assert!(!is_left(one.divide(all_map(&[5]), size), 5));
        // Its machine is gone, so another takes over.
        drop(one);
        assert!(!is_left(two.divide(all_map(&[7]), size), 7));
        drop(two);
        let sharing = sharing.lock().unwrap();
        assert!(sharing.owners.is_empty() && sharing.mapped.is_empty());
    }

    proptest! {
        #[test]
        fn every_part_of_a_file_is_kept_exactly_once(
            maps in prop::collection::vec((1_u32..5, 1_u64..3, 0_u64..12, 1_u64..6), 1..12),
            sizes in prop::collection::vec(0_u64..5, 5),
        ) {
            let mut mapped: BTreeMap<ProcessId, Vec<SharedRange>> = BTreeMap::new();
            for (index, &(pid, inode, offset, regions)) in (1_u64..).zip(&maps) {
                mapped.entry(process(pid)).or_default().push(shared(inode, index * 100, offset, regions));
            }
            let left = Sharing::default().divide(1, mapped.clone(), |process| sizes[process.pid as usize]);
            let mut all = BTreeSet::new();
            let mut kept = Vec::new();
            for (process, ranges) in &mapped {
                for range in ranges {
                    for region in 0..(range.range.end - range.range.start) / HUGE {
                        let name = (range.file, range.offset + region * HUGE);
                        let address = range.range.start + region * HUGE;
                        all.insert(name);
                        let is_left = left[process].iter().filter(|left| left.range.contains(&address)).count();
                        prop_assert!(is_left <= 1);
                        if is_left == 0 {
                            kept.push(name);
                        }
                    }
                }
            }
            kept.sort_unstable();
            prop_assert_eq!(kept, all.into_iter().collect::<Vec<_>>());
        }
    }
}
