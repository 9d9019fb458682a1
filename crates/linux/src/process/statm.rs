//! `/proc/PID/statm`: what a process has resident, without walking its page tables.

use mega_core::BASE_PAGE_SIZE;

use super::path;
use crate::kernel::Kernel;

/// A process's resident memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// All of it.
    pub(crate) all: u64,
    /// Shared memory and files.
    pub(crate) shared: u64,
}

/// What `pid` has resident. `None` where it cannot be read.
pub(crate) fn resident(kernel: &dyn Kernel, pid: u32) -> Option<Resident> {
    parse(&kernel.read(&path(pid, "statm")).ok()?)
}

fn parse(text: &[u8]) -> Option<Resident> {
    let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut bytes = |nth| {
        fields
            .nth(nth)?
            .parse::<u64>()
            .ok()?
            .checked_mul(BASE_PAGE_SIZE)
    };
    // The first field is the size of the address space.
    Some(Resident {
        all: bytes(1)?,
        shared: bytes(0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_bytes() {
        let resident = Resident {
            all: 3 << 12,
            shared: 2 << 12,
        };
        assert_eq!(parse(b"9 3 2 1 0 5 0\n"), Some(resident));
        for wrong in [
            &b""[..],
            b"9 3",
            b"9 x 2",
            b"9 99999999999999999999 2",
            b"\xff",
        ] {
            assert_eq!(parse(wrong), None);
        }
    }
}
