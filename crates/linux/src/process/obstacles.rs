//! What a process says about huge pages itself, and what stands in their way therefore.

use std::ops::Range;

use super::path;
use crate::Error;
use crate::kernel::Kernel;

/// The mappings of a process that `MADV_NOHUGEPAGE` keeps huge pages from, in address order. It reads `smaps`, for which the
/// kernel walks all page tables of the process (some 10 ms for each GiB of base pages): not for every interval.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`].
pub fn advised_against(kernel: &dyn Kernel, pid: u32) -> Result<Vec<Range<u64>>, Error> {
    let path = path(pid, "smaps");
    let text = kernel
        .read(&path)
        .map_err(|error| Error::of_process(pid, &path, error))?;
    Ok(with_flag(&String::from_utf8_lossy(&text), "nh"))
}

/// Whether `prctl(PR_SET_THP_DISABLE)` keeps huge pages from all of a process's memory. `None` where the kernel does not say
/// (before Linux 5.0).
///
/// # Errors
/// As [`advised_against`].
pub fn is_disabled(kernel: &dyn Kernel, pid: u32) -> Result<Option<bool>, Error> {
    let path = path(pid, "status");
    let text = kernel
        .read(&path)
        .map_err(|error| Error::of_process(pid, &path, error))?;
    let text = String::from_utf8_lossy(&text);
    let enabled = text
        .lines()
        .find_map(|line| line.strip_prefix("THP_enabled:"));
    Ok(enabled.map(|value| value.trim() == "0"))
}

/// The mappings in the text of `smaps` that have a flag.
fn with_flag(smaps: &str, flag: &str) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut mapping = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some(range) = range(first) {
            mapping = Some(range);
        } else if first == "VmFlags:" && words.any(|word| word == flag) {
            found.extend(mapping.take());
        }
    }
    found
}

fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_belongs_to_the_mapping_above_it() {
        let smaps = "400000-800000 rw-p 0 00:00 0\nSize: 4096 kB\nVmFlags: rd wr nh sd\n\
                     800000-a00000 rw-p 0 00:00 0 [heap]\nSize: 2048 kB\nVmFlags: rd wr sd\n";
        let found = with_flag(smaps, "nh");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0], 0x40_0000..0x80_0000);
        assert_eq!(with_flag(smaps, "sd").len(), 2);
        assert!(with_flag("VmFlags: nh\nnonsense", "nh").is_empty());
    }
}
