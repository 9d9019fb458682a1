//! Looks at what there is. Judges nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;

use mega_core::BASE_PAGE_SIZE;

use super::experiment::{self, Experiment};
use super::program_text::Tried;
use crate::Error;
use crate::act::giant::GiantPages;
use crate::exchanges::Exchanges;
use crate::hzmem;
use crate::kernel::{Kernel, PagemapScan, category};
use crate::module::Device;
use crate::module::interface::Info;
use crate::settings::thp_mode::{self, InForce};

/// A capability by its number in `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capability {
    pub(super) name: &'static str,
    number: u32,
}

/// What acting on other processes takes.
pub(super) const CAP_SYS_NICE: Capability = Capability {
    name: "CAP_SYS_NICE",
    number: 23,
};
/// What looking at other processes takes.
pub(super) const CAP_SYS_PTRACE: Capability = Capability {
    name: "CAP_SYS_PTRACE",
    number: 19,
};

/// All that was seen.
#[derive(Debug)]
pub(super) struct Probes {
    pub(super) release: String,
    pub(super) read_only: bool,
    /// The THP mode in force for huge pages.
    pub(super) mode: Result<InForce, Error>,
    /// The effective capabilities, a bit each; `None` where they could not be read.
    pub(super) capabilities: Option<u64>,
    pub(super) experiment: Experiment,
    /// `None` where it was not asked: mega needs it for nothing.
    pub(super) program_text: Option<Tried>,
    pub(super) pagemap_scan: io::Result<()>,
    pub(super) clear_refs: io::Result<()>,
    pub(super) per_process_fault_control: Option<bool>,
    /// Yama's restriction on reading other processes' memory, 0 to 3; `None` without Yama.
    pub(super) ptrace_scope: Option<u8>,
    /// The setting in force for the kernel's own tmpfs; `None` where the kernel has none.
    pub(super) shmem_enabled: Option<String>,
    pub(super) unified_cgroups: bool,
    /// `vm.defrag_mode`, 0 or 1; `None` where the kernel does not know it (before 6.15).
    pub(super) defrag_mode: Option<u8>,
    /// hzmem's memory in bytes; an error where its module is not loaded, or cannot be asked.
    pub(super) hzmem: Result<u64, Error>,
    /// What mega.ko says of itself; an error where it is not loaded, or cannot be asked.
    pub(super) module: Result<Info, Error>,
    /// Whether Secure Boot is on: then the kernel loads no module that is signed by a key it does not know.
    pub(super) secure_boot: bool,
    /// Whether the processor counts what misses the TLB.
    pub(super) tlb_miss_counter: io::Result<()>,
    /// Whether giant pages can be made.
    pub(super) giant_pages: Result<(), Error>,
    /// What the host exchanges; `None` where it has not given this machine the device for that.
    pub(super) exchanges: Option<Exchanges>,
}

impl Probes {
    /// Whether this process has a capability; `None` where that could not be read.
    pub(super) fn has(&self, capability: Capability) -> Option<bool> {
        Some(self.capabilities? & (1 << capability.number) != 0)
    }
}

/// Looks.
pub(super) fn look(boundary: &Arc<dyn Kernel>) -> Probes {
    let kernel = boundary.as_ref();
    Probes {
        release: line(kernel, "/proc/sys/kernel/osrelease").unwrap_or_default(),
        read_only: kernel.is_read_only(),
        mode: thp_mode::of_huge_pages(kernel),
        capabilities: capabilities(kernel),
        experiment: experiment::run(kernel),
        program_text: None,
        pagemap_scan: pagemap_scan(kernel),
        clear_refs: kernel.write(Path::new("/proc/self/clear_refs"), b"1"),
        per_process_fault_control: crate::settings::fault::knows_per_process_control(kernel),
        ptrace_scope: line(kernel, "/proc/sys/kernel/yama/ptrace_scope")
            .and_then(|text| text.parse().ok()),
        shmem_enabled: line(kernel, "/sys/kernel/mm/transparent_hugepage/shmem_enabled")
            .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
        unified_cgroups: kernel
            .read(Path::new("/proc/self/cgroup"))
            .is_ok_and(|text| {
                text.split(|&byte| byte == b'\n')
                    .any(|line| line.starts_with(b"0::"))
            }),
        defrag_mode: line(kernel, "/proc/sys/vm/defrag_mode").and_then(|text| text.parse().ok()),
        hzmem: hzmem::read_ranges(kernel).map(|ranges| ranges.iter().map(|range| range.size).sum()),
        secure_boot: secure_boot(kernel),
        tlb_miss_counter: kernel.try_tlb_miss_counter(),
        module: Device::open(Arc::clone(boundary)).map(|device| *device.info()),
        giant_pages: GiantPages::open(Arc::clone(boundary)).map(drop),
        exchanges: Exchanges::read(kernel),
    }
}

/// The firmware's variable `SecureBoot`, in the name space of UEFI's own variables: four bytes of attributes, then the value.
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

fn secure_boot(kernel: &dyn Kernel) -> bool {
    kernel
        .read(Path::new(SECURE_BOOT))
        .is_ok_and(|variable| variable.get(4) == Some(&1))
}

fn line(kernel: &dyn Kernel, path: &str) -> Option<String> {
    let text = kernel.read(Path::new(path)).ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

fn capabilities(kernel: &dyn Kernel) -> Option<u64> {
    let status = kernel.read(Path::new("/proc/self/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

fn pagemap_scan(kernel: &dyn Kernel) -> io::Result<()> {
    let pagemap = kernel.open(Path::new("/proc/self/pagemap"))?;
    let scan = PagemapScan {
        range: 0..BASE_PAGE_SIZE,
        any_of: category::PRESENT,
        report: category::PRESENT,
    };
    kernel.pagemap_scan(&pagemap, &scan, &mut Vec::new())
}
