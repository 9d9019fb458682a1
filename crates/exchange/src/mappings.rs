//! What kind of memory the guest's is, by `/proc/self/smaps`.

use std::fs;

use crate::Error;
use crate::memory::Range;

/// One mapping of this process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    permissions: String,
    inode: u64,
    path: String,
    flags: Vec<String>,
}

impl Mapping {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|have| have == flag)
    }

    /// Why the kernel would not move pages in or out of it.
    fn unsuitable(&self) -> Option<String> {
        if self.has("ht") {
            return Some(
                "it is of hugetlb; use ordinary memory with transparent huge pages".into(),
            );
        }
        if self.permissions.ends_with('s') || self.has("sh") {
            return Some(format!(
                "it is shared ({}); use private anonymous memory (share=off)",
                self.what()
            ));
        }
        if self.inode != 0 {
            return Some(format!(
                "it maps a file or memfd ({}); use private anonymous memory",
                self.what()
            ));
        }
        if !self.permissions.starts_with("rw") {
            return Some(format!(
                "it is not readable and writable ({})",
                self.permissions
            ));
        }
        if ["io", "pf", "mm", "ss"].iter().any(|flag| self.has(flag)) {
            return Some("it is a device's".into());
        }
        if ["um", "uw", "ui"].iter().any(|flag| self.has(flag)) {
            return Some("another userfaultfd is registered with it (post-copy migration or a background snapshot)".into());
        }
        None
    }

    fn what(&self) -> &str {
        if self.path.is_empty() {
            "no path"
        } else {
            &self.path
        }
    }
}

/// Refuses ranges that are not whole mapped private anonymous writable memory. Says whether all of it is locked.
pub(crate) fn check(ranges: &[Range]) -> Result<bool, Error> {
    let smaps =
        fs::read_to_string("/proc/self/smaps").map_err(Error::system("read /proc/self/smaps"))?;
    check_against(&parse(&smaps), ranges)
}

fn check_against(mappings: &[Mapping], ranges: &[Range]) -> Result<bool, Error> {
    let mut locked = None;
    for range in ranges {
        let (mut address, bytes) = range.blocks();
        let end = address + bytes;
        while address < end {
            let unsuitable = |reason: String| Error::Unsuitable {
                host: address,
                reason,
            };
            let mapping = mappings
                .iter()
                .find(|mapping| (mapping.start..mapping.end).contains(&address))
                .ok_or_else(|| unsuitable("nothing is mapped there".into()))?;
            if let Some(reason) = mapping.unsuitable() {
                return Err(unsuitable(reason));
            }
            if *locked.get_or_insert(mapping.has("lo")) != mapping.has("lo") {
                return Err(unsuitable(
                    "a part of the guest's memory is locked and a part is not; lock all or none"
                        .into(),
                ));
            }
            address = mapping.end;
        }
    }
    Ok(locked.unwrap_or(false))
}

fn parse(smaps: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if let Some(last) = mappings.last_mut() {
                last.flags = flags.split_whitespace().map(String::from).collect();
            }
        } else if let Some(mapping) = heading(line) {
            mappings.push(mapping);
        }
    }
    mappings
}

/// `7f00-7f10 rw-p 00000000 00:00 0   path`
fn heading(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        permissions: words.next()?.into(),
        inode: words.nth(2)?.parse().ok()?,
        path: words.collect::<Vec<_>>().join(" "),
        flags: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read_with_its_flags() {
        let smaps = "7f0000000000-7f0000200000 rw-s 00000000 00:01 77                         /memfd:guest (deleted)\n\
            Size:               2048 kB\n\
            VmFlags: rd wr sh mr mw me ms sd \n\
            7ffd5b1b2000-7ffd5b1d3000 rw-p 00000000 00:00 0                          [stack]\n\
            VmFlags: rd wr mr mw me gd ac \n";
        let mappings = parse(smaps);
        assert_eq!(mappings.len(), 2);
        assert_eq!(mappings[0].end, 0x7f00_0020_0000);
        assert_eq!(mappings[0].inode, 77);
        assert!(
            mappings[0]
                .unsuitable()
                .unwrap()
                .contains("shared (/memfd:guest (deleted))")
        );
        assert_eq!(mappings[1].unsuitable(), None);
    }
}
