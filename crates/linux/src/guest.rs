//! Virtual machines, from within and from without. A guest's page tables say which pages it maps; its host's say by which
//! pages the memory behind them is mapped, and the TLB holds the smaller of the two. Neither can see the other's.

use std::path::Path;

use crate::kernel::Kernel;
use crate::process;

/// There while the kernel can run guests.
const KVM: &str = "/sys/devices/virtual/misc/kvm/uevent";
/// What a file of a guest is called among a process's open files.
const VM_FILE: &str = "anon_inode:kvm-vm";

/// Whether this machine is a guest, so that another one's page tables lie below its own. False where `/proc` does not say.
#[must_use]
pub fn is_guest(kernel: &dyn Kernel) -> bool {
    let cpuinfo = kernel.read(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let cpuinfo = String::from_utf8_lossy(&cpuinfo);
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let flags = fields.find(|(name, _)| name.trim() == "flags");
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The processes that run guests by KVM, so that their memory is what a guest takes for physical. Whether the kernel can run any
/// is asked once for all of them.
#[derive(Clone, Copy)]
pub struct Vmms<'a> {
    kernel: &'a dyn Kernel,
    has_kvm: bool,
}

impl<'a> Vmms<'a> {
    /// Those of this machine now.
    #[must_use]
    pub fn of(kernel: &'a dyn Kernel) -> Self {
        let has_kvm = kernel.read(Path::new(KVM)).is_ok();
        Vmms { kernel, has_kvm }
    }

    /// Whether a process is one. False where its open files cannot be read.
    #[must_use]
    pub fn contain(&self, pid: u32) -> bool {
        if !self.has_kvm {
            return false;
        }
        let files = process::path(pid, "fd");
        let open = self.kernel.list(&files).unwrap_or_default();
        let mut targets = open
            .iter()
            .filter_map(|file| self.kernel.read_link(&files.join(file)).ok());
        targets.any(|target| target == Path::new(VM_FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    #[test]
    fn a_guest_knows_that_it_is_one() {
        let says = |flags: &str| {
            let text = format!("processor\t: 0\nflags\t\t: fpu {flags}\nflags\t\t: fpu\n");
            is_guest(&FakeKernel::with_files(&[("/proc/cpuinfo", text.as_str())]))
        };
        assert!(says("hypervisor lahf_lm"));
        assert!(!says("hypervisors"));
        assert!(!is_guest(&FakeKernel::new()));
    }

    #[test]
    fn a_process_with_a_virtual_machine_is_told_from_others() {
        let kernel = FakeKernel::with_files(&[
            ("/proc/7/fd/0", "/dev/null"),
            ("/proc/7/fd/11", VM_FILE),
            ("/proc/8/fd/3", "anon_inode:kvm-vcpu-stats"),
        ]);
        let without = Vmms::of(&kernel);
        assert!(!without.contain(7), "a kernel without KVM runs none");
        kernel.state().files.insert(KVM.into(), Vec::new());
        let vmms = Vmms::of(&kernel);
        assert!(vmms.contain(7));
        assert!(!vmms.contain(8));
        assert!(!vmms.contain(9));
    }
}
