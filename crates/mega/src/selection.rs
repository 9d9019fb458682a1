//! Which processes a selection takes.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};
use mega_linux::process::{Facts, Pod};

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
    /// It belongs to a pod in a namespace with such a name.
    pub(crate) namespace: Option<Pattern>,
    /// It belongs to a pod with such a name.
    pub(crate) pod: Option<Pattern>,
    /// It belongs to a pod that shows all of these labels.
    pub(crate) pod_labels: BTreeMap<String, Pattern>,
    /// It belongs to a pod that shows all of these annotations.
    pub(crate) pod_annotations: BTreeMap<String, Pattern>,
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
            && (!self.asks_for_pod() || facts.pod.as_ref().is_some_and(|pod| self.takes_pod(pod)))
    }

    fn asks_for_pod(&self) -> bool {
        self.namespace.is_some()
            || self.pod.is_some()
            || !self.pod_labels.is_empty()
            || !self.pod_annotations.is_empty()
    }

    fn takes_pod(&self, pod: &Pod) -> bool {
        let fits = |pattern: &Option<Pattern>, name: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
        };
        fits(&self.namespace, &pod.namespace)
            && fits(&self.pod, &pod.name)
            && shows(&pod.labels, &self.pod_labels)
            && shows(&pod.annotations, &self.pod_annotations)
    }
}

/// Whether each of these keys is among `shown`, with a value that fits.
fn shows(shown: &BTreeMap<String, String>, wanted: &BTreeMap<String, Pattern>) -> bool {
    wanted
        .iter()
        .all(|(key, pattern)| shown.get(key).is_some_and(|value| pattern.matches(value)))
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

    fn pod() -> Pod {
        let pairs = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        Pod {
            namespace: "databases".to_owned(),
            name: "redis-0".to_owned(),
            labels: pairs("app", "redis"),
            annotations: pairs("mega/policy", "a/b"),
        }
    }

    fn facts() -> Facts {
        Facts {
            process: ProcessId {
                pid: 100,
                start_time: 1,
            },
            name: "redis-server".into(),
            exe: Some("/usr/bin/redis-server".into()),
            cgroup: Some("/system.slice/redis.service/worker".into()),
            pod: Some(pod()),
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

    /// A selection of the pods that show this.
    fn showing(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Selection {
        let patterns = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| ((*key).to_owned(), pattern(value).expect("a pattern")))
                .collect()
        };
        Selection {
            pod_labels: patterns(labels),
            pod_annotations: patterns(annotations),
            ..Selection::default()
        }
    }

    #[test]
    fn a_pod_is_taken_by_its_namespace_its_name_and_what_it_shows() {
        let named = |namespace, pod| Selection {
            namespace: pattern(namespace),
            pod: pattern(pod),
            ..Selection::default()
        };
        for taken in [
            named("databases", "redis-*"),
            named("*", "redis-[0-9]"),
            showing(&[("app", "redis")], &[]),
            showing(&[("app", "r*")], &[("mega/policy", "*")]),
        ] {
            assert!(taken.takes(&facts()), "{taken:?}");
            assert!(!taken.is_empty());
            let no_pod = Facts {
                pod: None,
                ..facts()
            };
            assert!(!taken.takes(&no_pod), "{taken:?}");
        }
        for left in [
            named("data", "*"),
            named("databases", "redis"),
            showing(&[("app", "web")], &[]),
            showing(&[("app", "redis"), ("tier", "*")], &[]),
            showing(&[("mega/policy", "*")], &[]),
            showing(&[], &[("app", "redis")]),
        ] {
            assert!(!left.takes(&facts()), "{left:?}");
        }
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
