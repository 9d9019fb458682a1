//! Which processes a selection takes.

use glob::{MatchOptions, Pattern};
use mega_linux::process::Facts;

/// `*` does not match `/` and `**` does; case and leading dots are nothing special.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// What the kernel appends to the path of a program file that was replaced or removed.
const DELETED: &str = " (deleted)";

/// Criteria that a process must meet, all that are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// The process is in a cgroup with such a path, or below one.
    pub(crate) cgroup: Option<Pattern>,
    /// It runs a program file with such a path.
    pub(crate) executable: Option<Pattern>,
    /// It runs as this user (effective user id).
    pub(crate) user: Option<u32>,
    /// It has at least as many bytes resident.
    pub(crate) min_resident: Option<u64>,
}

impl Selection {
    /// Whether it has no criterion and so would take every process.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Selection::default()
    }

    /// Whether it takes a process with these facts.
    pub(crate) fn takes(&self, facts: &Facts) -> bool {
        self.user.is_none_or(|user| user == facts.uid)
            && self
                .min_resident
                .is_none_or(|least| facts.resident >= least)
            && self
                .executable
                .as_ref()
                .is_none_or(|pattern| matches_executable(pattern, facts))
            && self
                .cgroup
                .as_ref()
                .is_none_or(|pattern| matches_cgroup(pattern, facts))
    }
}

fn matches_executable(pattern: &Pattern, facts: &Facts) -> bool {
    let Some(path) = facts.exe.as_ref().map(|exe| exe.to_string_lossy()) else {
        return false;
    };
    pattern.matches_with(path.strip_suffix(DELETED).unwrap_or(&path), GLOB)
}

fn matches_cgroup(pattern: &Pattern, facts: &Facts) -> bool {
    let Some(path) = facts.cgroup.as_deref() else {
        return false;
    };
    let ends = path
        .match_indices('/')
        .map(|(at, _)| at)
        .chain([path.len()]);
    ends.map(|end| &path[..end])
        .map(|ancestor| if ancestor.is_empty() { "/" } else { ancestor })
        .any(|ancestor| pattern.matches_with(ancestor, GLOB))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::ProcessId;

    fn facts() -> Facts {
        Facts {
            process: ProcessId {
                pid: 100,
                start_time: 1,
            },
            name: "redis-server".into(),
            exe: Some("/usr/bin/redis-server".into()),
            cgroup: Some("/system.slice/redis.service/worker".into()),
            uid: 103,
            resident: 1 << 30,
        }
    }

    fn pattern(text: &str) -> Option<Pattern> {
        Some(Pattern::new(text).expect("a pattern"))
    }

    #[test]
    fn a_cgroup_takes_what_is_below_it() {
        for taken in [
            "/system.slice",
            "/system.slice/redis.service",
            "/system.slice/redis*",
            "/*/redis.service",
            "/**/worker",
            "/",
        ] {
            let selection = Selection {
                cgroup: pattern(taken),
                ..Selection::default()
            };
            assert!(selection.takes(&facts()), "{taken}");
        }
        for left in [
            "/user.slice",
            "/system.slice/redis",
            "redis.service",
            "/*/worker",
        ] {
            let selection = Selection {
                cgroup: pattern(left),
                ..Selection::default()
            };
            assert!(!selection.takes(&facts()), "{left}");
        }
    }

    #[test]
    fn an_executable_matches_by_its_path_also_when_it_was_replaced() {
        let selection = Selection {
            executable: pattern("/usr/bin/redis-*"),
            ..Selection::default()
        };
        assert!(selection.takes(&facts()));
        let replaced = Facts {
            exe: Some("/usr/bin/redis-server (deleted)".into()),
            ..facts()
        };
        let exact = Selection {
            executable: pattern("/usr/bin/redis-server"),
            ..Selection::default()
        };
        assert!(exact.takes(&replaced));
        assert!(!selection.takes(&Facts {
            exe: Some("/usr/bin/x/redis-server".into()),
            ..facts()
        }));
        assert!(!selection.takes(&Facts {
            exe: None,
            ..facts()
        }));
    }

    #[test]
    fn every_criterion_given_must_be_met() {
        let selection = Selection {
            user: Some(103),
            min_resident: Some(1 << 30),
            ..Selection::default()
        };
        assert!(selection.takes(&facts()));
        assert!(!selection.takes(&Facts { uid: 0, ..facts() }));
        assert!(!selection.takes(&Facts {
            resident: (1 << 30) - 1,
            ..facts()
        }));
        assert!(Selection::default().is_empty() && !selection.is_empty());
    }
}
