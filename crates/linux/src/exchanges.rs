//! What came of the exchanges that this machine, a guest, asked its host for: `mega.ko` counts them since the device was
//! found.

use std::collections::BTreeMap;
use std::path::Path;

use crate::kernel::Kernel;

/// Where the driver has its devices, of which it serves one.
const DRIVER: &str = "/sys/bus/pci/drivers/mega_exchange";
/// The folder of the counts, below a device.
const COUNTS: &str = "mega_exchange";
/// Why a pair was not exchanged, and the file that counts them.
const REASONS: [(&str, &str); 10] = [
    ("invalid", "refused_invalid"),
    ("not_guest", "refused_not_guest"),
    ("unsupported", "refused_unsupported"),
    ("busy", "refused_busy"),
    ("paused", "refused_paused"),
    ("no_memory", "refused_no_memory"),
    ("failed", "refused_failed"),
    ("too_late", "cancelled"),
    ("not_serving", "not_asked"),
    ("old_request", "busy"),
];
/// The file that says why the host serves nobody, and what it says while it does.
const REFUSAL: &str = "refusal";
const SERVES: &str = "none";
/// Those that the host refused without one of the reasons that there are, and all that a module refused that counts no
/// reasons.
const UNKNOWN: &str = "unknown";

/// Pairs of huge pages that the host was asked to exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// Requests made, each of up to 512 pairs.
    pub requests: u64,
    /// Pairs that were exchanged.
    pub exchanged: u64,
    /// Pairs that were not, by reason; these were copied. Only reasons that there were.
    pub not_exchanged: BTreeMap<&'static str, u64>,
    /// Pairs of which the host said something else than what had happened.
    pub lied: u64,
    /// Pairs that the host left in the middle.
    pub unsettled: u64,
    /// Why the host exchanges nothing at all: `devices`, `encrypted`, `memory`, `host`, `other` or `unknown`. `None` while it does, or
    /// where the module is older.
    pub refusal: Option<String>,
}

impl Exchanges {
    /// What came of all so far; `None` without such a device.
    #[must_use]
    pub fn read(kernel: &dyn Kernel) -> Option<Self> {
        let devices = kernel.list(Path::new(DRIVER)).ok()?;
        devices
            .iter()
            .find_map(|device| Self::of(kernel, &Path::new(DRIVER).join(device).join(COUNTS)))
    }

    fn of(kernel: &dyn Kernel, folder: &Path) -> Option<Self> {
        let read = |name: &str| -> Option<String> {
            let text = kernel.read(&folder.join(name)).ok()?;
            Some(String::from_utf8_lossy(&text).trim().to_owned())
        };
        let count = |name: &str| -> Option<u64> { read(name)?.parse().ok() };
        let named = |(reason, file): (&'static str, &str)| Some((reason, count(file)?));
        let mut not_exchanged: BTreeMap<&'static str, u64> =
            REASONS.into_iter().filter_map(named).collect();
        let told: u64 = REASONS
            .iter()
            .filter(|(_, file)| file.starts_with("refused_"))
            .filter_map(|(reason, _)| not_exchanged.get(reason))
            .sum();
        not_exchanged.insert(UNKNOWN, count("refused")?.saturating_sub(told));
        not_exchanged.retain(|_, pairs| *pairs > 0);
        Some(Exchanges {
            requests: count("requests")?,
            exchanged: count("exchanged")?,
            not_exchanged,
            lied: count("lied")?,
            unsettled: count("unsettled")?,
            refusal: read(REFUSAL).filter(|reason| reason != SERVES),
        })
    }

    /// What came since `before`. All of it, where the device is another one since.
    #[must_use]
    pub fn since(&self, before: &Exchanges) -> Exchanges {
        if self.requests < before.requests {
            return self.clone();
        }
        let mut not_exchanged = self.not_exchanged.clone();
        for (reason, pairs) in &mut not_exchanged {
            *pairs = pairs.saturating_sub(before.not_exchanged.get(reason).copied().unwrap_or(0));
        }
        not_exchanged.retain(|_, pairs| *pairs > 0);
        Exchanges {
            requests: self.requests - before.requests,
            exchanged: self.exchanged.saturating_sub(before.exchanged),
            not_exchanged,
            lied: self.lied.saturating_sub(before.lied),
            unsettled: self.unsettled.saturating_sub(before.unsettled),
            refusal: self.refusal.clone(),
        }
    }
}

/// Why a host exchanges nothing, [`Exchanges::refusal`], in words. A reason that is not known is its own word.
#[must_use]
pub fn refusal_in_words(refusal: &str) -> &str {
    match refusal {
        "devices" => "devices are assigned to this guest",
        "encrypted" => "this guest is encrypted",
        "memory" => "this guest's memory is shared, of a file or hugetlb",
        "host" => "its kernel or its daemon cannot",
        "other" => "for a reason that this kernel module does not know",
        "unknown" => "it does not say why",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;

    /// A device that has counted so much; its folder lies beside the driver's own files.
    fn counted(counts: &[(&str, u64)]) -> FakeKernel {
        let kernel = FakeKernel::with_files(&[(format!("{DRIVER}/bind"), "")]);
        let mut files = vec!["requests", "exchanged", "refused", "lied", "unsettled"];
        files.extend(REASONS.iter().map(|(_, file)| *file));
        for file in files {
            let count = counts.iter().find(|(name, _)| *name == file);
            let text = format!("{}\n", count.map_or(0, |(_, count)| *count));
            let path = format!("{DRIVER}/0000:00:05.0/{COUNTS}/{file}");
            kernel.state().files.insert(path.into(), text.into_bytes());
        }
        kernel
    }

    #[test]
    fn each_reason_is_told() {
        let kernel = counted(&[
            ("requests", 4),
            ("exchanged", 900),
            ("refused", 12),
            ("refused_busy", 7),
            ("refused_not_guest", 3),
            ("cancelled", 512),
            ("busy", 1),
            ("lied", 2),
            ("unsettled", 5),
        ]);
        let all = Exchanges::read(&kernel).unwrap();
        let reasons = [
            ("busy", 7),
            ("not_guest", 3),
            ("old_request", 1),
            ("too_late", 512),
            ("unknown", 2),
        ];
        assert_eq!(
            all,
            Exchanges {
                requests: 4,
                exchanged: 900,
                not_exchanged: BTreeMap::from(reasons),
                lied: 2,
                unsettled: 5,
                refusal: None,
            }
        );

        let before = counted(&[("requests", 3), ("refused", 7), ("refused_busy", 7)]);
        let since = all.since(&Exchanges::read(&before).unwrap());
        assert_eq!((since.requests, since.exchanged), (1, 900));
        assert_eq!(since.not_exchanged.get("busy"), None);
        assert_eq!(since.not_exchanged["not_guest"], 3);
        let another_device = counted(&[("requests", 9)]);
        assert_eq!(all.since(&Exchanges::read(&another_device).unwrap()), all);
    }

    #[test]
    fn a_host_that_exchanges_nothing_says_why() {
        let kernel = counted(&[]);
        let says = |reason: &str| {
            let path = format!("{DRIVER}/0000:00:05.0/{COUNTS}/{REFUSAL}");
            let mut state = kernel.state();
            state.files.insert(path.into(), reason.into());
            drop(state);
            Exchanges::read(&kernel).unwrap().refusal
        };
        assert_eq!(says("none\n"), None);
        assert_eq!(says("memory\n").as_deref(), Some("memory"));
    }

    #[test]
    fn a_module_that_counts_no_reasons_is_understood() {
        let kernel = counted(&[("requests", 1), ("refused", 6)]);
        let counts_reasons =
            |path: &std::path::PathBuf| path.to_string_lossy().contains("refused_");
        let mut state = kernel.state();
        state.files.retain(|path, _| !counts_reasons(path));
        drop(state);
        let all = Exchanges::read(&kernel).unwrap();
        assert_eq!(all.not_exchanged, BTreeMap::from([("unknown", 6)]));
    }

    #[test]
    fn without_a_device_there_is_nothing() {
        assert_eq!(Exchanges::read(&FakeKernel::new()), None);
        let no_device = FakeKernel::with_files(&[(format!("{DRIVER}/bind"), "")]);
        assert_eq!(Exchanges::read(&no_device), None);
    }
}
