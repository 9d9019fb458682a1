//! The modes that an experiment runs in.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use mega_core::promotion::{self, PolicyInfo};
use mega_linux::act::giant::GiantPages;
use mega_linux::kernel::LiveKernel;

/// How a program gets its pages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Base pages: the THP mode of huge pages is `never`.
    Base,
    /// Huge pages at fault wherever a region fits: the THP mode of huge pages is `always`.
    Thp,
    /// Base pages at fault, and khugepaged as fast as it goes: the THP mode of huge pages is `madvise`, and the lab's own
    /// programs advise their memory once it is touched.
    Khugepaged,
    /// The same with khugepaged as the kernel sets it up.
    KhugepagedDefaults,
    /// Under `mega run` with this policy, faults taking base pages.
    Mega(&'static str),
}

impl Mode {
    /// The modes that nobody decides anything in while a program runs.
    pub(crate) const STATIC: [Mode; 3] = [Mode::Base, Mode::Thp, Mode::Khugepaged];

    /// All modes that every experiment can be run in.
    pub(crate) fn all() -> Vec<Mode> {
        Mode::with_policies(|_| true)
    }

    /// The modes that an experiment is run in when none is named: without the policies for giant pages where the
    /// machine has none, which would show once more what others do.
    pub(crate) fn usual() -> Vec<Mode> {
        let giant_pages = GiantPages::open(Arc::new(LiveKernel)).is_ok();
        Mode::with_policies(|info| giant_pages || !info.for_giant_pages)
    }

    fn with_policies(wanted: impl Fn(&PolicyInfo) -> bool) -> Vec<Mode> {
        let policies = promotion::registry().iter().filter(|info| wanted(info));
        Mode::STATIC
            .into_iter()
            .chain(policies.map(|info| Mode::Mega(info.name)))
            .collect()
    }

    /// Whether a manager runs beside the program.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self, Mode::Mega(_))
    }

    /// Whether huge pages may still come after the program's memory was touched.
    pub(crate) fn promotes_later(&self) -> bool {
        match self {
            Mode::Base | Mode::Mega("base") => false,
            Mode::Thp | Mode::Khugepaged | Mode::KhugepagedDefaults | Mode::Mega(_) => true,
        }
    }

    /// Whether the lab's own programs are to advise their memory once it is touched.
    pub(crate) fn advises(&self) -> bool {
        matches!(self, Mode::Khugepaged | Mode::KhugepagedDefaults)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Base => f.write_str("base"),
            Mode::Thp => f.write_str("thp"),
            Mode::Khugepaged => f.write_str("khugepaged"),
            Mode::KhugepagedDefaults => f.write_str("khugepaged-defaults"),
            Mode::Mega(policy) => write!(f, "mega:{policy}"),
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut known = Mode::all();
        known.push(Mode::KhugepagedDefaults);
        let found = known.iter().find(|mode| mode.to_string() == text);
        found.cloned().ok_or_else(|| {
            let names: Vec<String> = known.iter().map(Mode::to_string).collect();
            format!("there is no mode `{text}`; there are {}", names.join(", "))
        })
    }
}

impl serde::Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Mode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_reads_as_it_is_written() {
        for mode in Mode::all() {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert!("mega:fastest".parse::<Mode>().is_err());
        assert!("".parse::<Mode>().is_err());
    }
}
