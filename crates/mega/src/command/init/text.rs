//! The text of a configuration, with comments.

use std::fmt::Write;

use glob::Pattern;
use mega_core::bytes;
use mega_core::promotion::DEFAULT_POLICY;

use super::candidates::{Candidate, Criterion};
use super::look::{Look, Seen};

/// What every configuration begins with. It sets nothing: it may be read after a file that does.
const HEAD: &str = "\
# Written by `mega init` from what ran here then. Edit it: keep the selections that you want managed, and remove the others.
# mega manages a process by the first [[select]] that fits it. `mega daemon --check` checks all files together; the
# documentation (interfaces.md) describes every key. A selection may have settings of its own, as
#   policy = \"adaptive\"    # `mega policies` lists all
#   cpu_budget = \"25%\"     # of one core, for the manager
";

/// The configuration. `least` is what a process had to have resident to be looked at.
pub(super) fn configuration(candidates: &[Candidate], seen: &Seen, least: u64) -> String {
    let mut text = HEAD.to_owned();
    if candidates.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n# No process had {} resident. This takes every one that will have 1 GiB.\n\
             [[select]]\nname = \"large\"\nmin_resident = \"1GiB\"\n",
            bytes::format(least)
        );
        return text;
    }
    for candidate in candidates {
        text.push('\n');
        text += &selection(candidate, seen);
    }
    text += "\n# Whatever else is large:\n# [[select]]\n# name = \"large\"\n# min_resident = \"1GiB\"\n";
    text
}

fn selection(candidate: &Candidate, seen: &Seen) -> String {
    let (key, path) = match &candidate.criterion {
        Criterion::Unit(path) => ("cgroup", path),
        Criterion::Executable(path) => ("executable", path),
    };
    format!(
        "# {}\n[[select]]\nname = {}\n{key} = {}\n",
        comment(candidate, seen),
        quoted(&candidate.name),
        quoted(&Pattern::escape(path))
    )
}

/// "2 processes (pids 7, 9), 3 GiB resident; 10.0 % of 2 GiB in huge pages, adaptive would make 1 GiB more huge"
fn comment(candidate: &Candidate, seen: &Seen) -> String {
    const NAMED: usize = 5;
    let processes = &candidate.processes;
    let pids = processes.iter().map(|facts| facts.process.pid.to_string());
    let mut pids: Vec<String> = pids.take(NAMED).collect();
    if processes.len() > NAMED {
        pids.push("...".to_owned());
    }
    let mut text = match processes.len() {
        1 => format!("pid {}", pids[0]),
        count => format!("{count} processes (pids {})", pids.join(", ")),
    };
    let _ = write!(text, ", {} resident", bytes::format(candidate.resident()));
    let looks = processes
        .iter()
        .filter_map(|facts| seen.get(&facts.process));
    let sum = looks.fold(None, |sum: Option<Look>, look| {
        let sum = sum.unwrap_or_default();
        Some(Look {
            mapped: sum.mapped + look.mapped,
            huge: sum.huge + look.huge,
            wanted: sum.wanted + look.wanted,
        })
    });
    if let Some(look) = sum {
        let _ = write!(
            text,
            "; {} of {} in huge pages, {DEFAULT_POLICY} would make {} more huge if it is all in use",
            bytes::format(look.huge),
            bytes::format(look.mapped),
            bytes::format(look.wanted)
        );
    }
    text
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(letter);
            }
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::init::candidates::{self, tests::facts};
    use crate::config::{self, Config};
    use proptest::prelude::*;

    fn load(text: &str) -> Config {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mega.toml");
        std::fs::write(&path, text).expect("written");
        config::load(&path).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn what_it_writes_selects_what_it_saw() {
        let redis = facts(
            7,
            "/usr/bin/redis-server",
            "/system.slice/redis.service",
            3 << 30,
        );
        let java = facts(8, "/opt/a [b]/java*", "/user.slice", 2 << 30);
        let processes = [redis, java];
        let found = candidates::of(&processes);
        let look = Look {
            mapped: 2 << 30,
            huge: 1 << 30,
            wanted: 512 << 20,
        };
        let seen = Seen::from([(processes[0].process, look)]);
        let text = configuration(&found, &seen, 256 << 20);
        assert!(
            text.contains(
                "# pid 7, 3 GiB resident; 1 GiB of 2 GiB in huge pages, adaptive would make 512 MiB more huge"
            ),
            "{text}"
        );
        let config = load(&text);
        assert_eq!(config.selects.len(), 2);
        for (select, facts) in config.selects.iter().zip(&processes) {
            assert!(select.selection.takes(facts), "{select:?}");
        }
        assert!(
            !config.selects[1]
                .selection
                .takes(&facts(9, "/opt/a b/javac", "/", 1))
        );
    }

    #[test]
    fn without_a_large_process_it_is_right_too() {
        let config = load(&configuration(&[], &Seen::new(), 256 << 20));
        assert_eq!(config.selects[0].selection.min_resident, Some(1 << 30));
    }

    proptest! {
        #[test]
        fn any_names_are_written_so_that_they_are_read(
            paths in proptest::collection::vec("/[ -~é\\\\\"\\[\\]*?\n\t]{1,20}", 1..8),
            is_unit: bool,
        ) {
            let process = |(pid, path): (u32, &String)| match is_unit {
                true => facts(pid, "/x", &format!("/system.slice{path}.service"), 1 << 30),
                false => facts(pid, path, "/", 1 << 30),
            };
            let processes: Vec<_> = (1..).zip(&paths).map(process).collect();
            let found = candidates::of(&processes);
            let config = load(&configuration(&found, &Seen::new(), 1));
            for facts in &processes {
                let taken = config.selects.iter().any(|select| select.selection.takes(facts));
                prop_assert!(taken, "{facts:?}");
            }
        }
    }
}
