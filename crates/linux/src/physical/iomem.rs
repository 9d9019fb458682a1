//! `/proc/iomem`: who has which physical addresses.
//!
//! Memory that is taken from the kernel for good is cut out of a `System RAM` resource. Other resources may lie inside that
//! one: the kernel's own image, a crash kernel. Then Linux can cut only above all of them, or at the very beginning, below
//! all of them. Elsewhere it warns, and afterwards nobody has the memory.

use std::ops::Range;
use std::path::Path;

use crate::Error;
use crate::kernel::Kernel;

/// What the kernel calls its memory.
const MEMORY: &str = "System RAM";

/// An outermost resource that is memory, and what lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemRam {
    /// Its addresses.
    pub range: Range<u64>,
    /// The addresses of each resource directly inside.
    pub inside: Vec<Range<u64>>,
}

impl SystemRam {
    /// Whether Linux can cut `range` out.
    #[must_use]
    pub fn can_lose(&self, range: &Range<u64>) -> bool {
        if range.start < self.range.start || range.end > self.range.end {
            return false;
        }
        let above = |inner: &Range<u64>| inner.start >= range.end;
        let below = |inner: &Range<u64>| inner.end <= range.start;
        if range.start == self.range.start {
            self.inside.iter().all(above)
        } else {
            self.inside.iter().all(below)
        }
    }
}

/// Reads which physical addresses are memory.
///
/// # Errors
/// [`Error::Missing`] where the addresses are not shown; [`Error::Io`].
pub fn read(kernel: &dyn Kernel) -> Result<Vec<SystemRam>, Error> {
    let path = Path::new("/proc/iomem");
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    let found = parse(&String::from_utf8_lossy(&text));
    // Who may not see the addresses is shown zeros.
    if found.iter().all(|memory| memory.range.end <= 1) {
        return Err(Error::Missing {
            feature: format!("the privilege to read addresses in {}", path.display()),
            remedy: "run as root (it needs CAP_SYS_ADMIN)".to_owned(),
        });
    }
    Ok(found)
}

/// The memory in the text of `/proc/iomem`, in its order. Lines of another form are passed over.
#[must_use]
pub fn parse(text: &str) -> Vec<SystemRam> {
    let mut found: Vec<SystemRam> = Vec::new();
    let mut in_memory = false;
    for line in text.lines() {
        let depth = line.len() - line.trim_start_matches(' ').len();
        let Some((range, name)) = parse_line(line) else {
            continue;
        };
        // Each level is indented by two.
        match (depth, found.last_mut()) {
            (0, _) => {
                in_memory = name == MEMORY;
                if in_memory {
                    found.push(SystemRam {
                        range,
                        inside: Vec::new(),
                    });
                }
            }
            (2, Some(memory)) if in_memory => memory.inside.push(range),
            _ => {}
        }
    }
    found
}

/// "  100000000-15fffffff : System RAM", the last address included.
fn parse_line(line: &str) -> Option<(Range<u64>, &str)> {
    let (addresses, name) = line.trim_start().split_once(" : ")?;
    let (start, last) = addresses.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(last, 16).ok()?.checked_add(1)?;
    Some((start..end, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
00001000-0009fbff : System RAM
000a0000-000bffff : PCI Bus 0000:00
00100000-1fffffff : System RAM
fee00000-fee00fff : Local APIC
100000000-15fffffff : System RAM
  150000000-150dfffff : Kernel code
    150000000-1500fffff : something deeper
  151000000-1514bbfff : Kernel rodata
";

    const BLOCK: u64 = 128 << 20;

    #[test]
    fn memory_is_found_with_what_lies_directly_in_it() {
        let found = parse(TEXT);
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].range, 0x10_0000..0x2000_0000);
        assert_eq!(found[1].inside, []);
        let kernel = [0x1_5000_0000..0x1_50e0_0000, 0x1_5100_0000..0x1_514b_c000];
        assert_eq!(found[2].inside, kernel);
    }

    #[test]
    fn what_lies_below_the_kernel_cannot_be_cut_out_but_at_the_beginning() {
        let memory = &parse(TEXT)[2];
        let block = |start: u64| start..start + BLOCK;
        assert!(memory.can_lose(&block(0x1_0000_0000)), "the beginning");
        assert!(!memory.can_lose(&block(0x1_0800_0000)), "below the kernel");
        assert!(!memory.can_lose(&block(0x1_5000_0000)), "the kernel itself");
        assert!(memory.can_lose(&block(0x1_5800_0000)), "above the kernel");
        assert!(!memory.can_lose(&block(0x1_6000_0000)), "not in it");
    }

    #[test]
    fn where_nothing_lies_inside_all_can_be_cut_out() {
        let memory = &parse(TEXT)[1];
        assert!(memory.can_lose(&(0x800_0000..0x1000_0000)));
        assert!(!memory.can_lose(&(0..BLOCK)), "begins below it");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|( {0,5}[0-9a-f]{0,17}-[0-9a-f]{0,17} : (System RAM|x)\n){0,6}") {
            for memory in parse(&text) {
                let _ = memory.can_lose(&(0..BLOCK));
            }
        }
    }
}
