//! What page faults take under the present THP mode, and what to set where they take huge pages.

use std::path::PathBuf;

use serde::Serialize;

use crate::settings::thp_mode::{InForce, ThpMode};

/// What page faults take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// The THP mode in force for huge pages.
    pub thp_mode: ThpMode,
    /// The kernel's file that decides on it: the global one, or from Linux 6.8 on that of huge pages alone.
    pub setting: PathBuf,
    /// What faults take under it.
    pub take: &'static str,
    /// What to set so that they take base pages; `None` where they do.
    pub advice: Option<String>,
}

/// What faults take under the mode that is `in_force` for huge pages.
pub(super) fn under(in_force: &InForce) -> Faults {
    let for_all = match in_force.is_of_size() {
        false => "set the THP mode to `madvise`",
        true => {
            "write madvise to hugepages-2048kB/enabled, which decides whatever the global THP mode is"
        }
    };
    let advice = || {
        format!(
            "`mega run` has its program's faults take base pages; for what the daemon manages, write fault = \"base\" \
             into its configuration, or {for_all}"
        )
    };
    Faults {
        thp_mode: in_force.mode,
        setting: in_force.path.clone(),
        take: in_force.mode.faults_take(),
        advice: (in_force.mode == ThpMode::Always).then(advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_advice_only_where_faults_take_huge_pages() {
        for mode in [ThpMode::Always, ThpMode::Madvise, ThpMode::Never] {
            let faults = under(&InForce {
                mode,
                path: crate::settings::thp_mode::PATH.into(),
            });
            assert_eq!(faults.advice.is_some(), faults.take.starts_with("huge"));
        }
    }

    #[test]
    fn where_huge_pages_have_a_mode_of_their_own_the_advice_is_about_that() {
        let faults = under(&InForce {
            mode: ThpMode::Always,
            path: "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled".into(),
        });
        assert!(faults.advice.unwrap().contains("hugepages-2048kB"));
    }
}
