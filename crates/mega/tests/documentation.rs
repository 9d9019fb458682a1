//! The documentation and `--help` say the same: every command and every option that an example uses exists, and the
//! guide names every command there is.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The pages for users, from the root of the repository.
const PAGES: [&str; 11] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/guide.md",
    "docs/operating.md",
    "docs/fleet.md",
    "docs/metrics.md",
    "docs/runbooks.md",
    "docs/experiments.md",
    "docs/simulator.md",
    "docs/results.md",
    "docs/hzmem.md",
];

/// A file, by its path from the root of the repository.
fn read(path: &str) -> String {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    std::fs::read_to_string(whole).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_mega"))
        .args(arguments)
        .arg("--help")
        .output()
        .expect("mega runs");
    assert!(
        output.status.success(),
        "mega {} --help failed",
        arguments.join(" ")
    );
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

/// The commands that `mega --help` lists, but for `help` itself.
fn commands() -> BTreeSet<String> {
    let help = help(&[]);
    let listed = help
        .split("Commands:")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next());
    listed
        .expect("mega --help lists its commands")
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Whether a help text has a command of that name.
fn lists_command(help: &str, name: &str) -> bool {
    let mut first_words = help
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    !name.starts_with('-') && first_words.any(|word| word == name)
}

/// The words of each example in a page's code, in blocks and in sentences, that runs mega, without what follows ` -- `, a
/// pipe or a comment: those are other programs' words.
fn examples(page: &str) -> Vec<Vec<String>> {
    let in_sentences = page
        .split("```")
        .step_by(2)
        .flat_map(|text| text.split('`').skip(1).step_by(2));
    let in_blocks = page.split("```").skip(1).step_by(2).flat_map(str::lines);
    in_blocks
        .chain(in_sentences)
        .filter_map(|line| {
            let line = line.trim_start_matches("$ ").trim_start_matches("sudo ");
            let words: Vec<String> = line
                .split_whitespace()
                .take_while(|word| !["--", "|", "#", "&"].contains(word))
                .map(str::to_owned)
                .collect();
            let runs_mega = words.first().is_some_and(|word| word == "mega") && words.len() > 1;
            // What holds for every command names none.
            let names_one = words.get(1).is_some_and(|word| word != "COMMAND");
            (runs_mega && names_one).then_some(words)
        })
        .collect()
}

#[test]
fn every_example_uses_commands_and_options_that_exist() {
    let commands = commands();
    for page in ["README.md", "docs/guide.md"] {
        assert!(!examples(&read(page)).is_empty(), "{page} has no example");
    }
    for page in PAGES {
        for words in examples(&read(page)) {
            every_word_exists(page, &words, &commands);
        }
    }
}

fn every_word_exists(page: &str, words: &[String], commands: &BTreeSet<String>) {
    let command = words[1].as_str();
    assert!(
        commands.contains(command),
        "{page} runs `mega {command}`, which does not exist"
    );
    let mut path = vec![command];
    let mut latest = help(&path);
    let mut help_text = latest.clone();
    for nested in &words[2..] {
        if !lists_command(&latest, nested) {
            break;
        }
        path.push(nested);
        latest = help(&path);
        help_text.push_str(&latest);
    }
    for option in words.iter().filter(|word| word.starts_with("--")) {
        let name = option.split('=').next().unwrap_or(option);
        assert!(
            help_text
                .split(|c: char| c.is_whitespace() || c == ',')
                .any(|word| word == name),
            "{page} gives `mega {command}` the option {name}, which it does not have"
        );
    }
}

#[test]
fn every_command_is_in_the_guide() {
    let guide = read("docs/guide.md");
    for command in commands() {
        assert!(
            guide.contains(&format!("mega {command}")),
            "`mega {command}` exists and is not in docs/guide.md"
        );
    }
}

#[test]
fn every_make_target_in_the_documentation_exists() {
    let makefile = read("Makefile");
    for page in PAGES {
        let text = read(page);
        for target in text.split("make ").skip(1) {
            let name: String = target
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            if text.contains(&format!("`make {name}`")) {
                assert!(
                    makefile
                        .lines()
                        .any(|line| line.starts_with(&format!("{name}:"))),
                    "{page} names `make {name}`, which the Makefile does not have"
                );
            }
        }
    }
}

/// The targets of links in a page that lead into the repository, without the part within a page.
fn relative_links(page: &str) -> Vec<&str> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in PAGES
        .iter()
        .chain(&["docs/architecture.md", "docs/interfaces.md"])
    {
        let folder = root.join(page);
        let folder = folder.parent().expect("a page lies in a folder");
        for target in relative_links(&read(page)) {
            assert!(
                folder.join(target).exists(),
                "{page} links to {target}, which does not exist"
            );
        }
    }
}

/// What stands between a page's markers of the results.
fn results_in(page: &str) -> &str {
    let (_, rest) = page.split_once("<!-- results: begin").expect("a begin");
    let (_, rest) = rest.split_once("-->\n").expect("the marker's end");
    let (results, _) = rest.split_once("<!-- results: end -->").expect("an end");
    results.trim()
}

#[test]
fn the_results_in_the_documentation_are_those_in_the_repository() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let copy = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(results).expect("docs/results").flatten() {
        let from = entry.path().join("results.json");
        if from.is_file() {
            let folder = copy.path().join(entry.file_name());
            std::fs::create_dir(&folder).expect("a folder");
            std::fs::copy(from, folder.join("results.json")).expect("a copy");
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_mega"))
        .args(["lab", "report"])
        .arg(copy.path())
        .output()
        .expect("mega runs");
    assert!(output.status.success());
    let summary = String::from_utf8(output.stdout).expect("Markdown is UTF-8");
    assert_eq!(
        results_in(&read("docs/results.md")),
        summary.trim(),
        "scripts/update-results brings them together"
    );
}
