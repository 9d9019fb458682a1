//! Which CPUs run what. The lab and the manager use the first CPU, the measured programs the others. So a manager
//! affects a program's speed only by what it does to the memory; its CPU time is a metric of its own. A server of one
//! thread shares the last CPU with its clients: the time in which one CPU wakes another changes by a factor of two with
//! where a hypervisor runs them, and would hide everything else.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Error;
use crate::workload::pin::keep_to;

/// The CPUs that this process might use when it was started, in order.
fn all() -> &'static [usize] {
    static ALL: OnceLock<Vec<usize>> = OnceLock::new();
    ALL.get_or_init(|| {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect()
    })
}

/// How many CPUs this process might use when it was started.
pub(super) fn count() -> usize {
    all().len()
}

/// Keeps the calling thread, and what it starts from now on, on the first CPU; where there is but one, nothing changes.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn keep_to_first() -> Result<(), Error> {
    let [first, _, ..] = all() else {
        return Ok(());
    };
    keep_to(&[*first]).map_err(|e| Error::io(format!("keeping the lab on CPU {first}"), e))
}

/// Where what is measured runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Apart from the lab and the manager, as this module says.
    Apart,
    /// As on anybody's machine: everything on every CPU, the clients and the manager too.
    Everywhere,
}

impl Placement {
    /// The CPUs of a program, as taskset(1) reads them.
    pub(super) fn of_program(self) -> String {
        match self {
            Placement::Apart => for_programs(),
            Placement::Everywhere => every(),
        }
    }

    /// Those of a server of one thread.
    pub(super) fn of_server(self) -> String {
        match self {
            Placement::Apart => last(),
            Placement::Everywhere => every(),
        }
    }

    /// Moves the calling thread to where clients run, for as long as what it returns lives.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn move_client(self) -> Result<Moved, Error> {
        match self {
            Placement::Apart => Moved::to(all().last().map_or(&[], std::slice::from_ref)),
            Placement::Everywhere => Moved::to(all()),
        }
    }
}

/// The calling thread on other CPUs, for as long as this lives.
pub(super) struct Moved {
    before: CpuSet,
}

impl Moved {
    fn to(cpus: &[usize]) -> Result<Self, Error> {
        let before = sched_getaffinity(None)
            .map_err(|e| Error::io("reading which CPUs the lab may use", e))?;
        if !cpus.is_empty() {
            keep_to(cpus).map_err(|e| {
                Error::io(
                    format!("moving a server's clients to CPU {}", list(cpus)),
                    e,
                )
            })?;
        }
        Ok(Moved { before })
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // Where that fails the lab goes on beside its programs: slower, and no less right.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The last CPU, as taskset(1) reads it.
pub(super) fn last() -> String {
    list(all().last().map_or(&[], std::slice::from_ref))
}

/// All CPUs, as taskset(1) reads them.
pub(super) fn every() -> String {
    list(all())
}

/// All CPUs but the first, as taskset(1) reads them; the only one where there is but one.
pub(super) fn for_programs() -> String {
    match all() {
        [_, rest @ ..] if !rest.is_empty() => list(rest),
        few => list(few),
    }
}

fn list(cpus: &[usize]) -> String {
    let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_leave_the_first_cpu_to_the_lab() {
        assert!(count() > 0);
        let every = every();
        let programs = for_programs();
        assert!(every.ends_with(&programs));
        assert_eq!(every == programs, count() == 1);
        assert!(programs.ends_with(&last()));
    }

    #[test]
    fn clients_work_on_the_last_cpu_and_the_lab_then_where_it_did() {
        let allowed = || sched_getaffinity(None).expect("the thread's CPUs");
        let before = allowed();
        let on_last = Placement::Apart.move_client().expect("the last CPU");
        let there = allowed();
        assert_eq!(there.count(), 1);
        assert!(there.is_set(*all().last().expect("a CPU")));
        drop(on_last);
        assert_eq!(allowed(), before);
    }
}
