//! Promotion and demotion tried on memory of our own.

use std::io;
use std::ops::Range;
use std::path::Path;

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE};

use crate::kernel::{Advice, Kernel};

const REGION: usize = 2 << 20;
const PAGE: usize = 4 << 10;

/// One base page in this many is written, so that a split has zeros to give back.
const WRITTEN: usize = 8;

/// What came of it.
#[derive(Debug)]
pub(super) struct Experiment {
    /// Whether collapse made the region huge.
    pub(super) collapse: io::Result<bool>,
    /// Whether the split made it base pages again; `None` where it could not be tried.
    pub(super) split: Option<io::Result<bool>>,
    /// Whether the split gave its zeros back; `None` where there was none.
    pub(super) zeros_given_back: Option<bool>,
}

/// Collapses and splits one region of our own.
pub(super) fn run(kernel: &dyn Kernel) -> Experiment {
    let failed = |error| Experiment {
        collapse: Err(error),
        split: None,
        zeros_given_back: None,
    };
    // The allocator takes this much straight from the kernel, so untouched.
    let mut memory = vec![0_u8; 2 * REGION];
    let base = memory.as_ptr().addr() as u64;
    let start = base.next_multiple_of(HUGE_PAGE_SIZE);
    let region = start..start + HUGE_PAGE_SIZE;
    let Ok(offset) = usize::try_from(start - base) else {
        return failed(io::ErrorKind::Unsupported.into());
    };
    for page in memory[offset..offset + REGION].chunks_exact_mut(PAGE * WRITTEN) {
        page[0] = 1;
    }
    let experiment = collapse_and_split(kernel, &region).unwrap_or_else(failed);
    // The memory has to outlive what is done to it.
    drop(std::hint::black_box(memory));
    experiment
}

fn collapse_and_split(kernel: &dyn Kernel, region: &Range<u64>) -> io::Result<Experiment> {
    let ourselves = kernel.open_process(std::process::id())?;
    kernel.advise(&ourselves, std::slice::from_ref(region), Advice::Collapse)?;
    let collapsed = sizes(kernel, region)?;
    let mut experiment = Experiment {
        collapse: Ok(collapsed.huge >= HUGE_PAGE_SIZE),
        split: None,
        zeros_given_back: None,
    };
    let page = region.start..region.start + BASE_PAGE_SIZE;
    experiment.split = Some(
        kernel
            .advise(&ourselves, &[page], Advice::Cold)
            .and_then(|_| sizes(kernel, region))
            .map(|split| {
                let is_split = split.huge + HUGE_PAGE_SIZE <= collapsed.huge;
                if is_split {
                    // Seven of eight pages hold zeros; half of that is proof enough beside what else happens in
                    // this mapping.
                    let given_back = split.resident + HUGE_PAGE_SIZE / 2 <= collapsed.resident;
                    experiment.zeros_given_back = Some(given_back);
                }
                is_split
            }),
    );
    Ok(experiment)
}

/// Bytes of one of our mappings.
pub(crate) struct Sizes {
    resident: u64,
    /// Of those, in huge pages of private memory.
    pub(crate) huge: u64,
    /// Of those, in huge pages of files.
    pub(super) huge_of_files: u64,
}

/// What `smaps` says of our own mapping that holds `region`.
pub(crate) fn sizes(kernel: &dyn Kernel, region: &Range<u64>) -> io::Result<Sizes> {
    let text = kernel.read(Path::new("/proc/self/smaps"))?;
    parse(&String::from_utf8_lossy(&text), region).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(smaps: &str, region: &Range<u64>) -> Option<Sizes> {
    let holds = |line: &str| {
        let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        Some(start <= region.start && region.end <= end)
    };
    let mapping: Vec<&str> = smaps
        .lines()
        .skip_while(|line| holds(line) != Some(true))
        .skip(1)
        .take_while(|line| holds(line).is_none())
        .collect();
    let field = |name: &str| {
        let value = mapping.iter().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        kilobytes.checked_mul(1024)
    };
    Some(Sizes {
        resident: field("Rss:")?,
        huge: field("AnonHugePages:")?,
        huge_of_files: field("FilePmdMapped:").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_mapping_that_holds_the_region() {
        let smaps = "00200000-00400000 rw-p 00000000 00:00 0\nRss:  4 kB\nAnonHugePages: 0 kB\n\
                     00400000-00a00000 rw-p 00000000 00:00 0\nRss:  2052 kB\nAnonHugePages: 2048 kB\nFilePmdMapped: 4096 kB\nVmFlags: rd\n\
                     00a00000-00b00000 rw-p 00000000 00:00 0\nRss:  8 kB\nAnonHugePages: 0 kB\n";
        let sizes = parse(smaps, &(0x60_0000..0x80_0000)).unwrap();
        assert_eq!((sizes.resident, sizes.huge), (2052 << 10, 2 << 20));
        assert_eq!(sizes.huge_of_files, 4 << 20);
        assert!(parse(smaps, &(0xa0_0000..0xc0_0000)).is_none());
        assert!(parse("", &(0..1)).is_none());
    }
}
