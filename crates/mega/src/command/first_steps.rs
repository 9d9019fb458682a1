//! `mega` alone: what to do next here, in a few lines.

use std::path::Path;
use std::process::ExitCode;

use rustix::process::geteuid;

use crate::cli::DEFAULT_CONFIG;
use crate::config;
use crate::control;
use crate::exit::Failure;
use crate::output;

/// How things stand here.
#[derive(Clone, Copy, Debug)]
struct Situation {
    is_root: bool,
    /// Managers that answer; `None` where this user may not ask.
    managers: Option<usize>,
    /// One that selects something.
    has_configuration: bool,
}

pub(super) fn run() -> Result<ExitCode, Failure> {
    let situation = Situation {
        is_root: geteuid().is_root(),
        managers: control::ask_everyone()
            .map(|(managers, _)| managers.len())
            .ok(),
        has_configuration: config::selects_something(Path::new(DEFAULT_CONFIG)),
    };
    output::print(&situation.in_words())?;
    Ok(ExitCode::SUCCESS)
}

impl Situation {
    fn in_words(self) -> String {
        let mut text = self.state().to_owned();
        for (command, what) in self.commands() {
            text += &format!("  {command:<28} {what}\n");
        }
        text + "`mega --help` lists all commands.\n"
    }

    fn state(self) -> &'static str {
        match (self.is_root, self.managers) {
            (_, Some(1..)) => "mega manages programs here. Next:\n",
            (true, _) => "No mega manages programs here. Next:\n",
            (false, Some(0)) => {
                "No mega manages programs here, and it needs root to. Next, as root:\n"
            }
            (false, _) => {
                "You may not ask the mega that runs here. As root, or once the administrator has named a group of yours in \
                 its configuration (status_group = \"mega\"):\n"
            }
        }
    }

    fn commands(self) -> &'static [(&'static str, &'static str)] {
        const WATCH: [(&str, &str); 2] = [
            ("mega status", "is it fine? ten lines"),
            ("mega top", "watch it live"),
        ];
        match (self.is_root, self.managers, self.has_configuration) {
            (_, Some(1..), _) | (false, None, _) => &WATCH,
            (_, _, true) => &[
                (
                    "mega doctor",
                    "what this machine allows, and what to do first",
                ),
                ("mega daemon --check", "is /etc/mega/mega.toml right?"),
                (
                    "mega daemon",
                    "manage what it selects (or: systemctl start mega)",
                ),
                ("mega top", "watch it live"),
            ],
            (_, _, false) => &[
                (
                    "mega doctor",
                    "what this machine allows, and what to do first",
                ),
                ("mega top", "look at this machine; changes nothing"),
                ("mega run -- PROGRAM", "start one program and manage it"),
                ("mega init", "write a configuration from what runs here"),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_situation_has_its_next_steps() {
        let names: Vec<String> = Cli::command()
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        for is_root in [false, true] {
            for managers in [None, Some(0), Some(2)] {
                for has_configuration in [false, true] {
                    let situation = Situation {
                        is_root,
                        managers,
                        has_configuration,
                    };
                    let text = situation.in_words();
                    assert!(text.lines().count() <= 6, "{text}");
                    for (command, _) in situation.commands() {
                        let name = command.split(' ').nth(1).expect("a command");
                        assert!(names.iter().any(|known| known == name), "{command}");
                    }
                }
            }
        }
    }

    #[test]
    fn who_is_not_root_learns_what_to_ask_for() {
        let situation = Situation {
            is_root: false,
            managers: None,
            has_configuration: false,
        };
        assert!(situation.in_words().contains("status_group"));
        let nobody = Situation {
            managers: Some(0),
            ..situation
        };
        assert!(nobody.in_words().contains("as root"));
    }
}
