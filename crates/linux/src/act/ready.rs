//! Making regions huge before the program comes to them.
//!
//! A collapse needs a page table, which an untouched region has none of. Reading one byte from outside gives it one: the
//! kernel maps its page of zeros there, as for the program's own read. A collapse then takes a fresh huge page, zeroes it
//! and copies nothing. The mapping must have a page of its own already (`anon_vma`), so the program's first write comes
//! first. All of that was seen on 6.18.
//!
//! The huge page is new to the program's page table with its Accessed bit set. It is cleared, so that it is seen when the
//! program comes.

use std::ops::Range;
use std::path::Path;

use mega_core::{Cause, HUGE_PAGE_SIZE, Region};

use crate::act::promote::{self, Answer};
use crate::kernel::{Advice, Kernel, ProcessHandle};

/// Regions in one call at most. The program goes through memory that is ready at some 10 GiB/s: in a longer call it could come to
/// regions, and leave them, before their Accessed bits are cleared. One of 16 takes 2 ms.
const LONGEST_CALL: usize = 16;

/// Makes untouched regions huge; they come in address order. Returns why the kernel refused one, if it did: no memory, or no
/// region for huge pages. The caller sees for itself which are huge now.
pub(crate) fn make_ready(
    kernel: &dyn Kernel,
    process: &ProcessHandle,
    regions: &[Region],
) -> Option<Cause> {
    let mut refused = None;
    for neighbours in regions.chunk_by(|a, b| a.end() == b.start()) {
        for call in neighbours.chunks(LONGEST_CALL) {
            let [first, ..] = call else { continue };
            for region in call {
                // Where it cannot be read, the collapse fails.
                let _ = kernel.read_memory(process.pid(), region.start(), &mut [0]);
            }
            let answer = promote::promote(kernel, process, *first, call.len());
            let length = (call.len() as u64).saturating_mul(HUGE_PAGE_SIZE);
            let range = first.start()..first.start().saturating_add(length);
            // Where it fails they look used, and are the program's to keep.
            let _ = kernel.advise(process, &[range], Advice::Cold);
            match answer {
                Answer::All => {}
                Answer::SomeNot(cause) => refused = Some(cause),
                Answer::Stopped(cause) => return Some(cause),
            }
        }
    }
    refused
}

/// Whether nobody but the kernel supplies the pages of the mapping at `address`: to read memory that is registered with
/// userfaultfd would wait for whoever does. Reads `/proc/PID/smaps`, which walks all of the process's page tables.
pub(crate) fn is_the_kernels(kernel: &dyn Kernel, pid: u32, address: u64) -> bool {
    let path = crate::process::path(pid, "smaps");
    kernel
        .read(Path::new(&path))
        .is_ok_and(|text| is_plain(&String::from_utf8_lossy(&text), address))
}

/// Whether the mapping at `address` in the text of `smaps` has no flag of userfaultfd.
fn is_plain(smaps: &str, address: u64) -> bool {
    let mut inside = false;
    for line in smaps.lines() {
        if let Some(range) = header(line) {
            inside = range.contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            // um, uw, ui: registered for missing pages, write protection, minor faults.
            let registered = |flag: &str| matches!(flag, "um" | "uw" | "ui");
            return !flags.split_ascii_whitespace().any(registered);
        }
    }
    false
}

/// The addresses of a mapping, where the line begins one: `start-end rwxp ...`.
fn header(line: &str) -> Option<Range<u64>> {
    let (range, _) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMAPS: &str = "7f00-7f10 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr \n\
                         8000-9000 rw-p 00000000 00:00 0 [anon: x]\nSize: 4 kB\nVmFlags: rd wr um ac \n";

    #[test]
    fn memory_that_somebody_supplies_is_told() {
        assert!(is_plain(SMAPS, 0x7f00));
        assert!(!is_plain(SMAPS, 0x8800));
        // What is not there is not taken for anything.
        assert!(!is_plain(SMAPS, 0x9000));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,300}", address: u64) {
            let _ = is_plain(&text, address);
        }
    }
}
