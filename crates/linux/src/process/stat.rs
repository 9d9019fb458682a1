//! `/proc/PID/stat`.

use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, ProcessId};

use super::path;
use super::tasks::TICK;
use crate::Error;
use crate::kernel::Kernel;

/// `PF_KTHREAD` of `linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The fields of `/proc/PID/stat` that are of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 1.
    pub pid: u32,
    /// Field 2, without its parentheses.
    pub name: String,
    /// Field 3: `Z` for one that has exited and not been waited for.
    pub state: char,
    /// Field 4.
    pub parent: u32,
    /// Field 9, `PF_*`.
    pub flags: u64,
    /// Fields 14 and 15: CPU time that it used, all its threads together, in clock ticks.
    pub cpu_ticks: u64,
    /// Field 20: the number of threads.
    pub threads: u64,
    /// Field 22, in clock ticks since boot.
    pub start_time: u64,
    /// Field 24, in bytes.
    pub resident: u64,
    /// Field 39: the processor that it ran on last.
    pub processor: Option<u32>,
    /// Where the program lies in memory (fields 26 to 28 and 45 to 51): differs after `execve`, as long as
    /// addresses are randomised or the program or its arguments differ. All 0 without permission.
    pub layout: Vec<u64>,
}

impl Stat {
    /// Reads the text of `/proc/PID/stat`. `None` where it is not one.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        // The name may hold spaces, parentheses and newlines: it ends at the last `)`.
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let name = text.get(open + 1..close)?;
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // `fields[0]` is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let value = |number: usize| field(number).and_then(|text| text.parse::<u64>().ok());
        Some(Stat {
            pid: std::str::from_utf8(text.get(..open)?)
                .ok()?
                .trim()
                .parse()
                .ok()?,
            name: String::from_utf8_lossy(name).into_owned(),
            state: field(3)?.chars().next()?,
            parent: u32::try_from(value(4)?).ok()?,
            flags: value(9)?,
            cpu_ticks: value(14)?.saturating_add(value(15)?),
            threads: value(20)?,
            start_time: value(22)?,
            resident: value(24)?.saturating_mul(BASE_PAGE_SIZE),
            processor: value(39).and_then(|processor| u32::try_from(processor).ok()),
            layout: (26..=28).chain(45..=51).filter_map(value).collect(),
        })
    }

    /// CPU time that it used, all its threads together, to a hundredth of a second.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.cpu_ticks.saturating_mul(TICK))
    }

    /// Which life of a process this is.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_time: self.start_time,
        }
    }

    /// Whether it is a thread of the kernel, which has no memory of its own.
    #[must_use]
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Whether it has exited, though its parent has not waited for it yet.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads `/proc/PID/stat`.
///
/// # Errors
/// [`Error::Gone`], [`Error::NotPermitted`], [`Error::Io`], [`Error::Malformed`].
pub fn stat(kernel: &dyn Kernel, pid: u32) -> Result<Stat, Error> {
    let path = path(pid, "stat");
    let text = kernel
        .read(&path)
        .map_err(|error| Error::of_process(pid, &path, error))?;
    Stat::parse(&text).ok_or(Error::Malformed {
        path,
        reason: "not in the format of proc(5)".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REST: &str = "S 12 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 4242 1000 77 18446744073709551615 21 22 23 \
                        0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 45 46 47 48 49 50 51 0";

    #[test]
    fn fields_are_counted_from_the_last_parenthesis() {
        let stat = Stat::parse(format!("7 (a (b) c) {REST}\n").as_bytes()).unwrap();
        assert_eq!(
            (stat.pid, stat.parent, stat.threads, stat.start_time),
            (7, 12, 3, 4242)
        );
        assert_eq!(stat.name, "a (b) c");
        assert_eq!(stat.resident, 77 * BASE_PAGE_SIZE);
        assert_eq!(stat.cpu_time(), Duration::from_millis(110));
        assert_eq!(stat.processor, Some(1));
        assert_eq!(stat.layout, [21, 22, 23, 45, 46, 47, 48, 49, 50, 51]);
        assert!(!stat.is_kernel_thread() && !stat.has_exited());
    }

    proptest! {
        #[test]
        fn any_name_is_read_whole(name in "[ -~\n]{0,15}", pid in 1_u32..4_194_304) {
            let stat = Stat::parse(format!("{pid} ({name}) {REST}").as_bytes()).unwrap();
            prop_assert_eq!(&stat.name, &name);
            prop_assert_eq!(stat.process(), ProcessId { pid, start_time: 4242 });
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Stat::parse(&bytes);
        }

        #[test]
        fn no_cut_makes_it_panic(length in 0_usize..250) {
            let text = format!("7 (a) {REST}");
            let _ = Stat::parse(&text.as_bytes()[..length.min(text.len())]);
        }
    }
}
