//! When processes change their mappings, between two looks at them: a BPF program at the system calls that do it.

mod abi;

use std::collections::BTreeMap;
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object};
use mega_core::{Call, ProcessId};

use crate::bpf::{self, LoadError};
use crate::kernel::Kernel;

/// The compiled program; build.rs makes it.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calls.bpf.o"));

/// The program at the tracepoint of all system calls, and that at forks; the others are at one system call each.
const AT_ANY_CALL: &str = "any_returns";
const AT_FORKS: &str = "forks";

/// The first PID namespace, in which BPF sees processes (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Where the programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the return of each system call that changes mappings (fexit): other calls take no longer. The kernel needs
    /// `CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS`.
    OwnCalls,
    /// At the tracepoint of all system calls: each one of the whole machine takes a little longer
    /// (`cargo bench -p mega-linux --bench calls`).
    AllCalls,
}

impl Place {
    /// Whether the program of this name is wanted there.
    fn wants(self, program: &str) -> bool {
        match self {
            Place::OwnCalls => program != AT_ANY_CALL,
            Place::AllCalls => program == AT_ANY_CALL || program == AT_FORKS,
        }
    }
}

/// Sees such calls of the processes that are watched, of 64 KiB or more. It keeps 1024 of them until they are taken.
pub struct Calls {
    /// What is given up first, so that nothing calls the programs any more.
    _links: Vec<Link>,
    _object: Object,
    queue: MapHandle,
    watched: MapHandle,
    lost: MapHandle,
    /// Who is watched.
    known: BTreeMap<u32, u64>,
    /// How many were lost until now.
    lost_before: u64,
}

impl Calls {
    /// Begins to see calls, of nobody yet.
    ///
    /// # Errors
    /// In words, where the kernel or the privileges do not allow it.
    pub fn open(place: Place, kernel: &dyn Kernel) -> Result<Self, String> {
        // In another namespace the kernel's numbers of processes are not those of /proc.
        let namespace = kernel.read_link(Path::new("/proc/self/ns/pid"));
        if namespace.ok().as_deref() != Some(Path::new(FIRST_PID_NAMESPACE)) {
            return Err("mega is in a PID namespace of its own".to_owned());
        }
        let is_wanted = |name: &str| place.wants(name);
        let object = bpf::load_some(OBJECT, is_wanted).map_err(|error| match error {
            LoadError::NotPermitted => {
                "the kernel does not permit it; BPF programs need root, or CAP_BPF and CAP_PERFMON, \
                 and lockdown or a security module may forbid them to root as well"
                    .to_owned()
            }
            LoadError::Rejected { reason } => {
                format!("the kernel refused the BPF program: {reason}")
            }
        })?;
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == name);
            let handle = found.as_ref().map(MapHandle::try_from);
            match handle {
                Some(Ok(handle)) => Ok(handle),
                _ => Err(format!("the BPF program has no map {name}")),
            }
        };
        let (queue, watched, lost) = (map("calls")?, map("watched")?, map("lost")?);
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !is_wanted(&name) {
                continue;
            }
            let link = program.attach();
            links.push(
                link.map_err(|error| format!("cannot attach the BPF program {name}: {error}"))?,
            );
        }
        Ok(Calls {
            _links: links,
            _object: object,
            queue,
            watched,
            lost,
            known: BTreeMap::new(),
            lost_before: 0,
        })
    }

    /// Watches these processes and no other. One too many for the kernel's table is not watched.
    pub fn watch(&mut self, processes: impl Iterator<Item = ProcessId>) {
        let wanted: BTreeMap<u32, u64> = processes.map(|one| (one.pid, one.start_time)).collect();
        for pid in self.known.keys().filter(|pid| !wanted.contains_key(pid)) {
            // It may have no room, or have lost it: nothing is to be done about that.
            let _ = self.watched.delete(&pid.to_ne_bytes());
        }
        for (pid, start_time) in &wanted {
            if self.known.get(pid) != Some(start_time) {
                let (key, value) = (pid.to_ne_bytes(), start_time.to_ne_bytes());
                let _ = self.watched.update(&key, &value, MapFlags::ANY);
            }
        }
        self.known = wanted;
    }

    /// The calls since the last time, the oldest first, and how many more there were.
    pub fn take(&mut self) -> (Vec<Call>, u64) {
        let mut calls = Vec::new();
        while let Ok(Some(bytes)) = self.queue.lookup_and_delete(&[]) {
            calls.extend(abi::decode(&bytes));
        }
        // On several CPUs they may have come in another order.
        calls.sort_by_key(|call| call.at);
        let count = self.lost.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let count = count.ok().flatten().and_then(|bytes| bytes.try_into().ok());
        let lost = count.map_or(self.lost_before, u64::from_ne_bytes);
        let more = lost.saturating_sub(self.lost_before);
        self.lost_before = lost;
        (calls, more)
    }
}
