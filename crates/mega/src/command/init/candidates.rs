//! Which processes one selection should take together.

use std::collections::BTreeMap;

use mega_linux::process::Facts;

/// What selects some processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Criterion {
    /// A unit of the service manager, by its path in the cgroup tree.
    Unit(String),
    /// A program file.
    Executable(String),
}

/// A selection that would take some processes that run.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// A unique name.
    pub(super) name: String,
    pub(super) criterion: Criterion,
    pub(super) processes: Vec<Facts>,
}

impl Candidate {
    pub(super) fn resident(&self) -> u64 {
        let processes = self.processes.iter();
        processes.map(|facts| facts.resident).sum()
    }
}

/// Groups processes by unit or executable, the one with the most resident first. What has neither is left out.
pub(super) fn of(processes: &[Facts]) -> Vec<Candidate> {
    let mut groups: BTreeMap<Criterion, Vec<Facts>> = BTreeMap::new();
    for facts in processes {
        if let Some(criterion) = criterion(facts) {
            groups.entry(criterion).or_default().push(facts.clone());
        }
    }
    let mut candidates: Vec<Candidate> = groups
        .into_iter()
        .map(|(criterion, processes)| Candidate {
            name: name(&criterion),
            criterion,
            processes,
        })
        .collect();
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.resident()));
    make_names_unique(&mut candidates);
    candidates
}

/// The unit, where it is a service: a session, a scope and a container have another name each time.
fn criterion(facts: &Facts) -> Option<Criterion> {
    if let Some(unit) = facts.cgroup.as_deref().and_then(unit) {
        return Some(Criterion::Unit(unit.to_owned()));
    }
    let path = facts.exe.as_ref()?.to_str()?;
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    // One of another mount namespace, or of a memfd, has no path that a selection could name.
    path.starts_with('/')
        .then(|| Criterion::Executable(path.to_owned()))
}

/// The part of a cgroup's path up to its unit, if that is a system service.
fn unit(cgroup: &str) -> Option<&str> {
    const SERVICE: &str = ".service";
    if !cgroup.starts_with("/system.slice/") {
        return None;
    }
    let end = cgroup
        .match_indices(SERVICE)
        .map(|(at, _)| at + SERVICE.len())
        .find(|&end| cgroup[end..].is_empty() || cgroup[end..].starts_with('/'))?;
    Some(&cgroup[..end])
}

fn name(criterion: &Criterion) -> String {
    let (path, suffix) = match criterion {
        Criterion::Unit(path) => (path, ".service"),
        Criterion::Executable(path) => (path, ""),
    };
    let last = path.rsplit('/').next().unwrap_or(path);
    let name = last.strip_suffix(suffix).unwrap_or(last);
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => name.to_owned(),
    }
}

fn make_names_unique(candidates: &mut [Candidate]) {
    let mut taken = std::collections::BTreeSet::new();
    for candidate in candidates {
        let name = candidate.name.clone();
        let mut number = 1;
        while !taken.insert(candidate.name.clone()) {
            number += 1;
            candidate.name = format!("{name}-{number}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use mega_core::ProcessId;

    pub(in crate::command::init) fn facts(
        pid: u32,
        exe: &str,
        cgroup: &str,
        resident: u64,
    ) -> Facts {
        Facts {
            process: ProcessId { pid, start_time: 1 },
            name: "x".to_owned(),
            exe: (!exe.is_empty()).then(|| exe.into()),
            cgroup: Some(cgroup.to_owned()),
            pod: None,
            uid: 0,
            resident,
        }
    }

    #[test]
    fn services_are_named_by_unit_and_all_else_by_executable() {
        let candidates = of(&[
            facts(
                1,
                "/usr/bin/redis-server",
                "/system.slice/redis-server.service",
                10,
            ),
            facts(
                2,
                "/usr/lib/postgresql/17/bin/postgres",
                "/system.slice/system-postgresql.slice/postgresql@17-main.service",
                30,
            ),
            facts(
                3,
                "/usr/lib/postgresql/17/bin/postgres",
                "/system.slice/system-postgresql.slice/postgresql@17-main.service",
                40,
            ),
            facts(
                4,
                "/usr/bin/java",
                "/user.slice/user-0.slice/session-3.scope",
                50,
            ),
            facts(
                5,
                "/opt/java (deleted)",
                "/system.slice/docker-0123.scope",
                5,
            ),
            facts(6, "", "/", 99),
        ]);
        let found: Vec<(&str, u64)> = candidates
            .iter()
            .map(|candidate| (candidate.name.as_str(), candidate.resident()))
            .collect();
        let expected = [
            ("postgresql@17-main", 70),
            ("java", 50),
            ("redis-server", 10),
            ("java-2", 5),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            candidates[3].criterion,
            Criterion::Executable("/opt/java".to_owned())
        );
    }

    #[test]
    fn a_unit_ends_at_its_own_name() {
        for (cgroup, expected) in [
            ("/system.slice/a.service", Some("/system.slice/a.service")),
            (
                "/system.slice/a.service/sub/b",
                Some("/system.slice/a.service"),
            ),
            ("/system.slice/a.servicex", None),
            ("/system.slice/a.scope", None),
            ("/user.slice/user@0.service/app.slice/b.service", None),
            ("/", None),
        ] {
            assert_eq!(unit(cgroup), expected, "{cgroup}");
        }
    }
}
