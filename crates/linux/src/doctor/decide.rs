//! Judges what was seen. Each feature says what it is for, what its lack costs, and how to get it.

use std::io;

use super::module::SECURE_BOOT;
use super::probe::{CAP_SYS_NICE, CAP_SYS_PTRACE, Capability, Probes};
use super::tested::untested;
use super::{Feature, State, TrackerChoice};
use crate::error::other_module;
use crate::kernel::Refused;
use crate::observe::tracker_choice::Choice;
use crate::{Error, TrackerKind};

/// The series of Debian's kernels on which hzmem's own tests were seen to pass (`kernel/vm/suites/run hzmem`).
const HZMEM_TESTED: [&str; 3] = ["6.12", "7.2", "7.3"];

/// Every feature, in the order in which they matter.
pub(super) fn features(probes: &Probes, choice: &Choice) -> Vec<Feature> {
    let mut features = vec![
        huge_pages(probes),
        look_privilege(probes),
        act_privilege(probes),
        collapse(probes),
        split(probes),
        zeros_given_back(probes),
    ];
    features.extend(TrackerKind::ALL.map(|kind| tracker_feature(kind, choice)));
    features.extend([
        pagemap_scan(probes),
        clear_refs(probes),
        fault_control(probes),
        read_memory(probes),
        shared_memory(probes),
    ]);
    features.extend(
        probes
            .program_text
            .as_ref()
            .map(super::program_text::feature),
    );
    features.extend([
        cgroups(probes),
        whole_blocks(probes),
        tlb_miss_counter(probes),
        super::module::feature(probes),
        giant_pages(probes),
    ]);
    features.extend(probes.exchanges.as_ref().map(super::exchange::feature));
    features.push(hzmem(probes));
    features
}

/// Which tracker, and why.
pub(super) fn tracker(choice: &Choice) -> TrackerChoice {
    let chosen = choice.tracker.as_ref().ok().map(|tracker| tracker.kind());
    let better: Vec<String> = choice
        .unavailable
        .iter()
        .take_while(|(kind, _)| chosen != Some(*kind))
        .filter(|(kind, _)| chosen.is_none_or(|chosen| rank(*kind) < rank(chosen)))
        .map(|(kind, _)| format!("`{kind}` is missing"))
        .collect();
    let why = match chosen {
        Some(_) if better.is_empty() => {
            "the best there is, and it passes its checks here".to_owned()
        }
        _ => better.join("; "),
    };
    TrackerChoice { chosen, why }
}

fn rank(kind: TrackerKind) -> usize {
    TrackerKind::ALL
        .iter()
        .position(|&other| other == kind)
        .unwrap_or(usize::MAX)
}

/// The state of something that was tried, and what was seen.
fn tried(result: &io::Result<()>) -> (State, String) {
    match result {
        Ok(()) => (State::Available, "tried: it works".to_owned()),
        Err(error) if Refused::is(error) => (State::Unknown, "not tried in a dry run".to_owned()),
        Err(error) => (State::Missing, format!("tried: {error}")),
    }
}

fn huge_pages(probes: &Probes) -> Feature {
    let (state, seen) = match &probes.mode {
        Ok(in_force) => (State::Available, in_force.to_string()),
        Err(error) => (State::Missing, error.to_string()),
    };
    Feature {
        name: "transparent huge pages",
        state,
        seen,
        needed_for: "everything",
        cost_if_missing: "nothing can be promoted",
        remedy: "boot a kernel built with CONFIG_TRANSPARENT_HUGEPAGE=y, as every distribution's is",
        required: true,
    }
}

fn privilege(probes: &Probes, capability: Capability) -> (State, String) {
    match probes.has(capability) {
        Some(true) => (
            State::Available,
            format!("{} is effective", capability.name),
        ),
        Some(false) => (
            State::Missing,
            format!("{} is not effective", capability.name),
        ),
        None => (
            State::Unknown,
            "/proc/self/status could not be read".to_owned(),
        ),
    }
}

fn look_privilege(probes: &Probes) -> Feature {
    let (state, seen) = privilege(probes, CAP_SYS_PTRACE);
    Feature {
        name: "privilege to look at other processes",
        state,
        seen,
        needed_for: "observing",
        cost_if_missing: "only a user's own processes can be observed",
        remedy: "run as root; or look at your own processes with `mega top --observe`, `mega scan --dry-run` or `mega coverage`; or ask the administrator for a [[select]] with your `user` in the daemon's configuration",
        // Of their own processes the kernel tells everybody what is mapped, and lets them change it with the other privilege.
        required: !probes.read_only && probes.has(CAP_SYS_NICE) != Some(true),
    }
}

fn act_privilege(probes: &Probes) -> Feature {
    let (state, seen) = privilege(probes, CAP_SYS_NICE);
    Feature {
        name: "privilege to act on other processes",
        state,
        seen,
        needed_for: "promoting, demoting, clearing in pieces",
        cost_if_missing: "mega can only look",
        remedy: "run as root; or look only, with --dry-run; or ask the administrator for a [[select]] with your `user` in the daemon's configuration, or for CAP_SYS_NICE as an ambient capability",
        required: !probes.read_only,
    }
}

fn collapse(probes: &Probes) -> Feature {
    let (state, seen) = match &probes.experiment.collapse {
        Ok(true) => (State::Available, "tried on own memory: it works".to_owned()),
        Ok(false) => (
            State::Unknown,
            "tried on own memory: no error, but no huge page".to_owned(),
        ),
        Err(error) if Refused::is(error) => (State::Unknown, "not tried in a dry run".to_owned()),
        // No free block just now says nothing about the kernel.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOMEM | libc::EBUSY | libc::EAGAIN)
            ) =>
        {
            (State::Unknown, format!("tried on own memory: {error}"))
        }
        Err(error) => (State::Missing, format!("tried on own memory: {error}")),
    };
    Feature {
        name: "promotion on request (process_madvise, MADV_COLLAPSE)",
        state,
        seen,
        needed_for: "promoting",
        cost_if_missing: "mega cannot promote",
        remedy: "boot Linux 6.1 or newer; where it is, see that THP is not disabled for mega itself (prctl)",
        required: !probes.read_only,
    }
}

fn split(probes: &Probes) -> Feature {
    let (state, seen) = match &probes.experiment.split {
        Some(Ok(true)) => (State::Available, "tried on own memory: it works".to_owned()),
        Some(Ok(false)) => (
            State::Missing,
            "tried on own memory: no error, but no split".to_owned(),
        ),
        Some(Err(error)) if Refused::is(error) => {
            (State::Unknown, "not tried in a dry run".to_owned())
        }
        Some(Err(error)) => (State::Missing, format!("tried on own memory: {error}")),
        None => (State::Unknown, "no huge page to try it on".to_owned()),
    };
    Feature {
        name: "demotion by split (process_madvise, MADV_COLD)",
        state,
        seen,
        needed_for: "demoting, giving bloat back",
        cost_if_missing: "a promotion is not undone and its bloat stays",
        remedy: "boot Linux 5.10 or newer",
        required: false,
    }
}

fn zeros_given_back(probes: &Probes) -> Feature {
    let (state, seen) = match probes.experiment.zeros_given_back {
        Some(true) => (State::Available, "tried on own memory: it works".to_owned()),
        Some(false) => (
            State::Missing,
            "tried on own memory: the zeros stayed resident".to_owned(),
        ),
        None => (State::Unknown, "nothing was split to try it on".to_owned()),
    };
    Feature {
        name: super::ZEROS_GIVEN_BACK,
        state,
        seen,
        needed_for: "giving bloat back",
        cost_if_missing: "demotion gives no memory back at once; the kernel reclaims the pages later",
        remedy: "boot Linux 6.12 or newer",
        required: false,
    }
}

fn tracker_feature(kind: TrackerKind, choice: &Choice) -> Feature {
    let refused = choice.unavailable.iter().find(|(other, _)| *other == kind);
    let (state, seen) = match refused {
        Some((_, reason)) => (State::Missing, reason.clone()),
        None if choice.available.contains(&kind) => {
            (State::Available, "passes its checks".to_owned())
        }
        None => (
            State::Unknown,
            "not tried: another was asked for".to_owned(),
        ),
    };
    let (name, needed_for, cost_if_missing, remedy) = match kind {
        TrackerKind::Module => (
            "tracker `module`",
            "accesses read and cleared in one pass; compaction that knows what is hot",
            "bpf is used instead, and accesses are cleared in a second pass",
            "build the kernel module and load it: `make -C kernel/module`, `insmod kernel/module/mega.ko`",
        ),
        TrackerKind::Bpf => (
            "tracker `bpf`",
            "exact accesses of every base page, at the least cost",
            "page_idle or mapped is used instead",
            "boot a kernel with BTF and BPF (6.1 or newer) and run as root, or with CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE",
        ),
        TrackerKind::PageIdle => (
            "tracker `page_idle`",
            "accesses where `bpf` does not work",
            "nothing, where `bpf` works; else accesses are not known",
            "boot a kernel built with CONFIG_IDLE_PAGE_TRACKING=y",
        ),
        TrackerKind::Mapped => (
            "tracker `mapped`",
            "knowing what is mapped where no better tracker works",
            "nothing, where a better one works; else no process can be observed",
            "mount /proc, and run as root",
        ),
    };
    Feature {
        name,
        state,
        seen,
        needed_for,
        cost_if_missing,
        remedy,
        // That one of them works is seen to when the host is opened.
        required: false,
    }
}

fn pagemap_scan(probes: &Probes) -> Feature {
    let (state, seen) = tried(&probes.pagemap_scan);
    Feature {
        name: "PAGEMAP_SCAN",
        state,
        seen,
        needed_for: "telling the shared page of zeros from zero-filled pages; a cheaper `mapped` tracker",
        cost_if_missing: "pagemap is read whole instead, at several times the cost",
        remedy: "boot Linux 6.7 or newer",
        required: false,
    }
}

fn clear_refs(probes: &Probes) -> Feature {
    let (state, seen) = tried(&probes.clear_refs);
    Feature {
        name: "clear_refs",
        state,
        seen,
        needed_for: "starting an interval in processes small enough for the lock bound",
        cost_if_missing: "accesses of small processes are not known",
        remedy: "boot a kernel built with CONFIG_PROC_PAGE_MONITOR=y, as every distribution's is",
        required: false,
    }
}

fn fault_control(probes: &Probes) -> Feature {
    let (state, seen) = match probes.per_process_fault_control {
        Some(true) => (State::Available, "tried: it works".to_owned()),
        Some(false) => (
            State::Missing,
            "tried: the kernel does not know it".to_owned(),
        ),
        None => (State::Unknown, "not tried in a dry run".to_owned()),
    };
    Feature {
        name: "base faults per process (PR_THP_DISABLE_EXCEPT_ADVISED)",
        state,
        seen,
        needed_for: "`--fault base` without a change to other processes",
        cost_if_missing: "where the THP mode is `always`, it is `madvise` for that time, for all processes",
        remedy: "boot Linux 6.18 or newer",
        required: false,
    }
}

fn read_memory(probes: &Probes) -> Feature {
    let (state, seen) = match (probes.ptrace_scope, probes.has(CAP_SYS_PTRACE)) {
        (Some(3), _) => (State::Missing, "kernel.yama.ptrace_scope is 3".to_owned()),
        (_, None) => (
            State::Unknown,
            "/proc/self/status could not be read".to_owned(),
        ),
        (_, Some(false)) => (State::Missing, "CAP_SYS_PTRACE is not effective".to_owned()),
        (None, Some(true)) => (State::Available, "there is no Yama".to_owned()),
        (Some(scope), Some(true)) => (
            State::Available,
            format!("kernel.yama.ptrace_scope is {scope}, which root passes"),
        ),
    };
    Feature {
        name: "reading other processes' memory (process_vm_readv)",
        state,
        seen,
        needed_for: "counting zero-filled pages",
        cost_if_missing: "bloat is not known",
        remedy: "run as root with kernel.yama.ptrace_scope below 3 (it stays 3 until the next boot)",
        required: false,
    }
}

fn shared_memory(probes: &Probes) -> Feature {
    let (state, seen) = match probes.shmem_enabled.as_deref() {
        None => (
            State::Missing,
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled cannot be read".to_owned(),
        ),
        Some(setting @ ("never" | "deny")) => {
            (State::Missing, format!("shmem_enabled is {setting}"))
        }
        Some(setting) => (State::Available, format!("shmem_enabled is {setting}")),
    };
    Feature {
        name: "huge pages for shared memory (shmem_enabled)",
        state,
        seen,
        needed_for: "promoting memory that processes share (MAP_SHARED | MAP_ANONYMOUS, memfd, System V), PostgreSQL's say",
        cost_if_missing: "what is mapped meanwhile gets addresses that no huge page fits, mostly, and stays so; `mega scan` lists it",
        remedy: "write advise to /sys/kernel/mm/transparent_hugepage/shmem_enabled before the programs start",
        required: false,
    }
}

fn cgroups(probes: &Probes) -> Feature {
    let (state, seen) = match probes.unified_cgroups {
        true => (State::Available, "/proc/self/cgroup names one".to_owned()),
        false => (State::Missing, "/proc/self/cgroup names none".to_owned()),
    };
    Feature {
        name: "cgroup v2",
        state,
        seen,
        needed_for: "selecting processes by cgroup",
        cost_if_missing: "selections by cgroup match nothing",
        remedy: "mount cgroup2, or boot with systemd.unified_cgroup_hierarchy=1",
        required: false,
    }
}

fn whole_blocks(probes: &Probes) -> Feature {
    let (state, seen) = match probes.defrag_mode {
        None => (
            State::Missing,
            "the kernel has no vm.defrag_mode".to_owned(),
        ),
        Some(0) => (State::Missing, "vm.defrag_mode is 0".to_owned()),
        Some(mode) => (State::Available, format!("vm.defrag_mode is {mode}")),
    };
    Feature {
        name: "blocks kept whole by the kernel (vm.defrag_mode)",
        state,
        seen,
        needed_for: "free blocks in weeks from now: the kernel compacts and reclaims before it puts pages that cannot move into blocks of those that can",
        cost_if_missing: "unmovable pages spread over the blocks, and such a block never becomes a huge page",
        remedy: "on Linux 6.15 or newer, write 1 to /proc/sys/vm/defrag_mode, where the time that it adds to some allocations is borne",
        required: false,
    }
}

fn tlb_miss_counter(probes: &Probes) -> Feature {
    let (state, seen) = tried(&probes.tlb_miss_counter);
    Feature {
        name: "hardware counter of TLB misses",
        state,
        seen,
        needed_for: "nothing yet: with it, what `mega doctor --calibrate` measures could be checked",
        cost_if_missing: "none: what huge pages would gain is predicted from times and Accessed bits alone",
        remedy: "in a virtual machine, have the hypervisor offer the processor's counters (KVM: a virtual PMU)",
        required: false,
    }
}

/// What an error says is missing, without how to get it: a feature has its own remedy.
pub(super) fn what_is_missing(error: &Error) -> String {
    match error {
        Error::Missing { feature, .. } => format!("{feature} is missing"),
        Error::OtherModule { theirs } => other_module(*theirs),
        error => error.to_string(),
    }
}

fn giant_pages(probes: &Probes) -> Feature {
    let (state, seen) = match &probes.giant_pages {
        Ok(()) => (
            State::Available,
            "the kernel has them, and mega.ko can make them".to_owned(),
        ),
        Err(error) => (State::Missing, what_is_missing(error)),
    };
    Feature {
        name: "transparent 1 GiB pages",
        state,
        seen,
        needed_for: "giant pages: promoting 1 GiB of a program to one translation",
        cost_if_missing: "2 MiB pages are the largest: a program that uses more than its TLB reaches by them keeps missing it",
        remedy: crate::act::giant::REMEDY,
        required: false,
    }
}

fn hzmem(probes: &Probes) -> Feature {
    let (state, mut seen) = match &probes.hzmem {
        Ok(bytes) => (
            State::Available,
            format!("it is loaded, with {} MiB of memory", bytes >> 20),
        ),
        Err(error) => (State::Missing, error.to_string()),
    };
    let refused = probes.hzmem.is_err() && probes.secure_boot;
    if refused {
        seen.push_str(SECURE_BOOT);
    }
    if let Some(untested) = untested(&probes.release, &HZMEM_TESTED) {
        seen.push_str("; ");
        seen.push_str(&untested);
    }
    Feature {
        name: "hzmem",
        state,
        seen,
        needed_for: "`mega hz`: huge pages that are compressed when they are cold",
        cost_if_missing: "nothing, for programs that mega manages",
        remedy: if refused {
            "install the package hzmem-dkms, and have the firmware enrol the key that DKMS signs it with: `mokutil --import /var/lib/dkms/mok.pub`, reboot, choose Enroll MOK"
        } else {
            "install the package hzmem-dkms, or build the module and load it: `make -C kernel/hzmem`, `modprobe lz4_compress`, `insmod kernel/hzmem/hzmem.ko`"
        },
        required: false,
    }
}
