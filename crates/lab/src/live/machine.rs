//! The machine that an experiment ran on, for whoever reads its results later.

use std::fs;
use std::path::Path;

use mega_linux::kernel::LiveKernel;
use mega_linux::observe::memory::meminfo_bytes;
use mega_linux::settings::thp_mode;
use serde::{Deserialize, Serialize};

use super::cpus;

/// A machine, its kernel, and the mega that was measured. What cannot be found out is an empty string or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// As `/proc/cpuinfo` names it.
    pub(crate) cpu: String,
    /// Logical CPUs that may be used.
    pub(crate) cpus: usize,
    /// Bytes of memory.
    pub(crate) memory_bytes: u64,
    pub(crate) numa_nodes: usize,
    /// Release and version.
    pub(crate) kernel: String,
    /// The distribution.
    pub(crate) system: String,
    /// The hypervisor it runs under says so by the CPU flag; its name is not told to guests.
    pub(crate) virtual_machine: bool,
    /// The THP mode of huge pages before the experiment.
    pub(crate) thp_mode: String,
    /// Whether `mega.ko` is loaded.
    pub(crate) module: bool,
    /// The version of mega.
    pub(crate) mega: String,
    /// The commit that mega was built from.
    pub(crate) commit: String,
    /// When the experiment began, in UTC: 2026-11-21T17:00:00Z.
    pub(crate) began: String,
}

impl Machine {
    /// This machine, now.
    pub(crate) fn this() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            cpuinfo
                .lines()
                .find(|line| line.starts_with(name))
                .and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
                .unwrap_or_default()
        };
        let uname = rustix::system::uname();
        Machine {
            cpu: field("model name"),
            cpus: cpus::count(),
            memory_bytes: meminfo_bytes(read("/proc/meminfo").as_bytes(), "MemTotal")
                .unwrap_or_default(),
            numa_nodes: numa_nodes(),
            kernel: format!(
                "{} {}",
                uname.release().to_string_lossy(),
                uname.version().to_string_lossy()
            ),
            system: system(&read("/etc/os-release")),
            virtual_machine: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            thp_mode: thp_mode::of_huge_pages(&LiveKernel)
                .map_or_else(|_| String::new(), |in_force| in_force.mode.to_string()),
            module: Path::new("/dev/mega").exists(),
            mega: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("MEGA_COMMIT").unwrap_or_default().to_owned(),
            began: now(),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn numa_nodes() -> usize {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let digits = name.to_string_lossy();
            digits
                .strip_prefix("node")
                .is_some_and(|rest| rest.parse::<u32>().is_ok())
        })
        .count()
}

fn system(os_release: &str) -> String {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .unwrap_or_default()
}

/// The time in UTC to the second.
fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    utc(seconds)
}

/// Seconds since 1970 as a date and a time. The calendar's arithmetic is Howard Hinnant's `civil_from_days`.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_memory_and_cpus() {
        let machine = Machine::this();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0);
        assert!(!machine.kernel.is_empty());
    }

    #[test]
    fn seconds_are_a_date() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_280_400), "2026-11-21T17:00:00Z");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = system(&text);
        }
    }
}
