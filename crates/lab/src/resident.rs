//! What a process has in memory, from `/proc/PID/smaps_rollup`.

use std::fs;

use crate::error::Error;

/// Memory of one process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes in memory (`Rss`).
    pub resident_bytes: u64,
    /// Bytes of anonymous memory mapped by huge pages (`AnonHugePages`).
    pub huge_bytes: u64,
    /// Bytes of anonymous memory mapped by giant pages (`AnonPudMapped`, which kernels without them do not have).
    pub giant_bytes: u64,
}

/// Reads it for the calling process.
///
/// # Errors
/// When `/proc` is not readable.
pub fn of_self() -> Result<Resident, Error> {
    read("/proc/self/smaps_rollup")
}

/// Reads it for another process. It holds the target's mmap lock while it walks all of its page tables: for
/// experiments only.
///
/// # Errors
/// When the process is gone or may not be read.
pub fn of(pid: u32) -> Result<Resident, Error> {
    read(&format!("/proc/{pid}/smaps_rollup"))
}

fn read(path: &str) -> Result<Resident, Error> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(format!("reading {path}"), e))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Resident {
    Resident {
        resident_bytes: field(text, "Rss:"),
        huge_bytes: field(text, "AnonHugePages:"),
        giant_bytes: field(text, "AnonPudMapped:"),
    }
}

/// The bytes of a `Name:  123 kB` line; 0 where there is none.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok())
        .map_or(0, |kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup() {
        let text = "1000-2000 ---p 0 00:00 0 [rollup]\nRss:   1234 kB\nAnonHugePages:  2048 kB\n";
        let expected = Resident {
            resident_bytes: 1234 << 10,
            huge_bytes: 2 << 20,
            giant_bytes: 0,
        };
        assert_eq!(parse(text), expected);
        let giant = format!("{text}AnonPudMapped:  1048576 kB\n");
        assert_eq!(parse(&giant).giant_bytes, 1 << 30);
    }

    #[test]
    fn our_own() {
        assert!(of_self().unwrap().resident_bytes > 0);
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
