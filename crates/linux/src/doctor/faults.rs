//! What page faults take under the present THP mode, and what to set where they take huge pages.

use serde::Serialize;

use crate::settings::thp_mode::ThpMode;

/// What page faults take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// The global THP mode.
    pub thp_mode: ThpMode,
    /// What faults take under it.
    pub take: &'static str,
    /// What to set so that they take base pages; `None` where they do.
    pub advice: Option<&'static str>,
}

/// What faults take under `mode`.
pub(super) fn under(mode: ThpMode) -> Faults {
    let advice = "`mega run` has its program's faults take base pages; for what the daemon manages, write fault = \"base\" \
        into its configuration, or set the THP mode to `madvise`";
    Faults {
        thp_mode: mode,
        take: mode.faults_take(),
        advice: (mode == ThpMode::Always).then_some(advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_advice_only_where_faults_take_huge_pages() {
        for mode in [ThpMode::Always, ThpMode::Madvise, ThpMode::Never] {
            let faults = under(mode);
            assert_eq!(faults.advice.is_some(), faults.take.starts_with("huge"));
        }
    }
}
