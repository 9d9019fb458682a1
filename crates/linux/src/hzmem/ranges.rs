//! `/sys/fs/hzmem/ranges`: the memory that the module owns.

use mega_core::HUGE_PAGE_SIZE;
use serde::Serialize;

use super::number;

/// Where a range came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Kept from the kernel at boot (`memmap=`).
    Boot,
    /// Taken from the kernel while it ran.
    Added,
}

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Its first address.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its NUMA node.
    pub node: u32,
    /// Where it came from.
    pub origin: Origin,
    /// Bytes of it in free huge pages.
    pub free: u64,
}

/// The ranges in the text of the file, a line each: `PHYS SIZE NODE boot|added FREE_PAGES`. The error says which line
/// is of another form.
pub(super) fn parse(text: &str) -> Result<Vec<Range>, String> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            parse_line(line).ok_or_else(|| format!("has a line that is no range: {line:?}"))
        })
        .collect()
}

fn parse_line(line: &str) -> Option<Range> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[start, size, node, origin, free] = words.as_slice() else {
        return None;
    };
    Some(Range {
        start: number(start)?,
        size: number(size)?,
        node: u32::try_from(number(node)?).ok()?,
        origin: match origin {
            "boot" => Origin::Boot,
            "added" => Origin::Added,
            _ => return None,
        },
        free: number(free)?.checked_mul(HUGE_PAGE_SIZE)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_for_each_range() {
        let text = "0x100000000 0x20000000 0 boot 256\n0x8000000 134217728 1 added 3\n";
        let boot = Range {
            start: 4 << 30,
            size: 512 << 20,
            node: 0,
            origin: Origin::Boot,
            free: 512 << 20,
        };
        let added = Range {
            start: 128 << 20,
            size: 128 << 20,
            node: 1,
            origin: Origin::Added,
            free: 6 << 20,
        };
        assert_eq!(parse(text), Ok(vec![boot, added]));
        assert_eq!(parse("\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_line_of_another_form_is_named() {
        for bad in [
            "0x0 1 0 boot",
            "0x0 1 0 boot 1 2",
            "0x0 1 0 found 1",
            "0x0 1 -1 boot 1",
            "x 1 0 boot 1",
            "0x0 1 0 boot 18446744073709551615",
        ] {
            let refusal = parse(&format!("0x0 1 0 boot 1\n{bad}\n"));
            assert!(refusal.is_err_and(|reason| reason.contains(bad)), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|([0-9a-fx]{1,20} [0-9]{1,20} [0-9-]{1,3} (boot|added) [0-9]{1,20}\n){0,4}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read(start: u64, size: u64, node in 0u32..1024, pages in 0u64..1 << 40) {
            let read = parse(&format!("{start:#x} {size:#x} {node} added {pages}\n")).expect("a range");
            let expected = Range { start, size, node, origin: Origin::Added, free: pages * HUGE_PAGE_SIZE };
            prop_assert_eq!(read, [expected]);
        }
    }
}
