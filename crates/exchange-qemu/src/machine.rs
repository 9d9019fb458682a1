//! Where QEMU maps the guest's memory, and whether it may be exchanged.

use std::fs;
use std::path::Path;

use mega_exchange::{BLOCK_BYTES, Range, Unserved};
use serde_json::{Value, json};

use crate::Error;
use crate::qmp::Qmp;

/// A part of the address space "memory" that is RAM.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    start: u64,
    end: u64,
    name: String,
}

/// The machine's own RAM: what its CPUs see as RAM now, of a memory backend that no device holds. Memory that can be unplugged
/// is left out, as its addresses may mean something else later. So is what is not wholly RAM, such as SMRAM that the firmware
/// has closed.
pub(crate) fn memory(qmp: &mut Qmp) -> Result<Vec<Range>, Error> {
    refuse_devices(Path::new("/proc/self/fd"))?;
    let pluggable = names(
        &qmp.execute("query-memory-devices", &json!({}))?,
        |device| device["data"]["memdev"].as_str(),
    );
    let backends = qmp.execute("query-memdev", &json!({}))?;
    let own: Vec<String> = names(&backends, |backend| backend["id"].as_str())
        .into_iter()
        .filter(|name| !pluggable.iter().any(|device| last(device) == name))
        .collect();
    for backend in backends.as_array().into_iter().flatten() {
        let name = backend["id"].as_str().unwrap_or("");
        if own.iter().any(|own| own == name) && backend["share"].as_bool().unwrap_or(true) {
            return Err(Error::Refused(
                Unserved::Memory,
                format!("the memory {name} is shared (share=on)"),
            ));
        }
    }
    let mut ranges = Vec::new();
    for part in parts(&qmp.human("info mtree -f")?)? {
        if own.iter().any(|name| last(&part.name) == name) && part.end - part.start >= BLOCK_BYTES {
            ranges.push(range(qmp, &part)?);
        }
    }
    if ranges.is_empty() {
        return Err(Error::Refused(
            Unserved::Memory,
            "QEMU names no memory of the machine that could be exchanged".into(),
        ));
    }
    Ok(ranges)
}

/// Assigned devices write to memory that they know by its physical place; encrypted memory is bound to its place. The kernel
/// would refuse each page, as they are pinned; this says why. `open` is a folder with a link for each open file.
fn refuse_devices(open: &Path) -> Result<(), Error> {
    let files = fs::read_dir(open).map_err(Error::system("read the folder of open files"))?;
    for file in files.flatten() {
        // One that was closed meanwhile.
        let Ok(target) = fs::read_link(file.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        if let Some((unserved, reason)) = reason_against(&target) {
            let said = format!("{reason}: {target} is open");
            return Err(Error::Refused(unserved, said));
        }
    }
    Ok(())
}

/// Why memory cannot be exchanged where QEMU has this file open. The kernel gives those without a path their names.
fn reason_against(target: &str) -> Option<(Unserved, &'static str)> {
    let is_vfio = target.starts_with("/dev/vfio/")
        || target.contains("[vfio-device]")
        || target.contains("kvm-vfio");
    if is_vfio || target == "/dev/iommu" {
        Some((Unserved::Devices, "a device is assigned (VFIO)"))
    } else if target.starts_with("/dev/sev") {
        Some((Unserved::Encrypted, "the guest is encrypted"))
    } else if target.contains("[kvm-gmem]") {
        let reason = "the guest's memory is its own (guest_memfd)";
        Some((Unserved::Encrypted, reason))
    } else {
        None
    }
}

/// Asks QEMU where a part begins and ends. Both must agree, or it is not mapped in one piece.
fn range(qmp: &mut Qmp, part: &Part) -> Result<Range, Error> {
    let first = host_address(qmp, part.start)?;
    let last = host_address(qmp, part.end)?;
    let bytes = part.end - part.start + 1;
    if last.checked_sub(first) != Some(bytes - 1) {
        return Err(Error::Refused(
            Unserved::Memory,
            format!(
                "the memory {} at {:#x} is not mapped in one piece",
                part.name, part.start
            ),
        ));
    }
    let host = usize::try_from(first).map_err(|_| {
        let said = "QEMU names an address beyond this process".into();
        Error::Refused(Unserved::Other, said)
    })?;
    // SAFETY: QEMU itself has just said that the guest's RAM is mapped there. It is RAM of the machine, which QEMU maps for
    // its whole life, and we look again after a reset. No Rust code has references to it.
    Ok(unsafe { Range::new(part.start, bytes, host) })
}

/// `Host virtual address for 0x200000 (pc.ram) is 0x7f7280000000`
fn host_address(qmp: &mut Qmp, guest: u64) -> Result<u64, Error> {
    let command = format!("gpa2hva {guest:#x}");
    let answer = qmp.human(&command)?;
    answer
        .trim()
        .starts_with("Host virtual address")
        .then(|| answer.trim().rsplit_once(" is 0x"))
        .flatten()
        .and_then(|(_, address)| u64::from_str_radix(address, 16).ok())
        .ok_or(Error::Answer { command, answer })
}

/// The RAM in the flat view of the address space "memory".
fn parts(mtree: &str) -> Result<Vec<Part>, Error> {
    let not_understood = |line: &str| Error::Answer {
        command: "info mtree -f".into(),
        answer: line.into(),
    };
    let view = mtree
        .split("FlatView #")
        .find(|view| {
            view.lines()
                .any(|line| line.trim_start().starts_with("AS \"memory\","))
        })
        .ok_or_else(|| not_understood(mtree.get(..200).unwrap_or(mtree)))?;
    let mut found = Vec::new();
    for line in view.lines().filter(|line| line.contains(", ram): ")) {
        found.push(part(line).ok_or_else(|| not_understood(line))?);
    }
    Ok(found)
}

/// `  0000000000100000-00000000bfffffff (prio 0, ram): pc.ram @0000000000100000 KVM`
fn part(line: &str) -> Option<Part> {
    let (addresses, rest) = line.trim().split_once(" (prio ")?;
    let (start, end) = addresses.split_once('-')?;
    let (_, name) = rest.split_once(", ram): ")?;
    let part = Part {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        name: name.split(' ').next()?.into(),
    };
    (part.start <= part.end).then_some(part)
}

fn names<'a>(list: &'a Value, name: impl Fn(&'a Value) -> Option<&'a str>) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(name)
        .map(String::from)
        .collect()
}

/// `/objects/mem0` is `mem0`.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// What is said of a QEMU that has these files open, and some that every one has.
    fn refusal(targets: &[&str]) -> Option<String> {
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Relaxed);
        let name = format!("mega-exchange-open-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("3"), "no link").unwrap();
        let usual = [
            "/dev/kvm",
            "/dev/null",
            "/var/lib/images/vfio.img",
            "/memfd:memory-backend-memfd (deleted)",
            "anon_inode:kvm-vm",
            "anon_inode:kvm-vcpu:0",
            "anon_inode:[eventfd]",
            "anon_inode:[userfaultfd]",
            "socket:[4711]",
        ];
        for (index, target) in usual.iter().chain(targets).enumerate() {
            symlink(target, folder.join(format!("{}", index + 10))).unwrap();
        }
        let refused = refuse_devices(&folder);
        fs::remove_dir_all(&folder).unwrap();
        refused.err().map(|error| error.to_string())
    }

    #[test]
    fn assigned_devices_and_encrypted_guests_are_refused_with_their_reason() {
        assert_eq!(refusal(&[]), None);
        let files = [
            ("/dev/vfio/vfio", "a device is assigned (VFIO)"),
            ("/dev/vfio/12", "a device is assigned (VFIO)"),
            ("/dev/vfio/devices/vfio0", "a device is assigned (VFIO)"),
            ("anon_inode:[vfio-device]", "a device is assigned (VFIO)"),
            ("anon_inode:kvm-vfio", "a device is assigned (VFIO)"),
            ("/dev/iommu", "a device is assigned (VFIO)"),
            ("/dev/sev", "the guest is encrypted"),
            (
                "anon_inode:[kvm-gmem]",
                "the guest's memory is its own (guest_memfd)",
            ),
        ];
        for (target, reason) in files {
            let said = format!("{reason}: {target} is open");
            assert_eq!(refusal(&[target]), Some(said));
        }
    }

    #[test]
    fn who_cannot_see_the_open_files_refuses() {
        assert!(refuse_devices(Path::new("/nowhere/fd")).is_err());
    }

    #[test]
    fn ram_is_read_from_the_flat_view_of_memory_alone() {
        let mtree = "FlatView #1\n AS \"I/O\", root: io\n Root memory region: io\n\
            \x20 0000000000000000-0000000000000007 (prio 0, ram): other\n\nFlatView #3\n AS \"memory\", root: system\n\
            \x20AS \"cpu-memory-0\", root: system\n Root memory region: system\n\
            \x20 0000000000000000-00000000000bffff (prio 0, ram): pc.ram KVM\n\
            \x20 00000000000c0000-00000000000dffff (prio 1, rom): pc.rom\n\
            \x20 0000000000100000-00000000bfffffff (prio 0, ram): pc.ram @0000000000100000\n\
            \x20 00000000fec00000-00000000fec00fff (prio 0, i/o): ioapic\n";
        let found = parts(mtree).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].end, 0xbffff);
        assert_eq!(found[0].name, "pc.ram");
        assert_eq!(found[1].start, 0x10_0000);
        assert!(parts("nothing of the kind").is_err());
        let odd = "FlatView #3\n AS \"memory\", root: system\n  zz-00000000000bffff (prio 0, ram): pc.ram\n";
        assert!(parts(odd).is_err());
    }
}
