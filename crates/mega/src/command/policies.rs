//! `mega policies`: the policies and their parameters.

use std::fmt::Write;
use std::process::ExitCode;

use mega_core::compaction::{self, CompactionInfo, DEFAULT_COMPACTION};
use mega_core::promotion::{DEFAULT_POLICY, ParameterInfo, PolicyInfo, registry};
use mega_core::table::Table;
use serde::Serialize;

use crate::cli::Policies;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;

/// What `mega policies --json` prints.
#[derive(Serialize)]
struct Listing {
    version: u32,
    default: &'static str,
    policies: &'static [PolicyInfo],
    default_compaction: &'static str,
    compaction: &'static [CompactionInfo],
}

pub(super) fn run(args: &Policies) -> Result<ExitCode, Failure> {
    let listing = Listing {
        version: VERSION,
        default: DEFAULT_POLICY,
        policies: registry(),
        default_compaction: DEFAULT_COMPACTION,
        compaction: compaction::registry(),
    };
    if args.json {
        output::print_json(&listing)?;
    } else {
        output::print(&in_words())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words() -> String {
    let mut text =
        String::from("Policies of promotion and demotion (--policy of run and scan)\n\n");
    for policy in registry() {
        let is_default = policy.name == DEFAULT_POLICY;
        text += &entry(policy.name, is_default, policy.summary, policy.source);
        text += &parameters(policy.parameters);
    }
    text += "Policies of compaction (--policy of compact)\n\n";
    for policy in compaction::registry() {
        let is_default = policy.name == DEFAULT_COMPACTION;
        text += &entry(policy.name, is_default, policy.summary, policy.source);
        text += &parameters(policy.parameters);
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn entry(name: &str, is_default: bool, summary: &str, source: &str) -> String {
    let mark = if is_default { " (default)" } else { "" };
    format!("{name}{mark}\n  {summary}\n  Source: {source}\n")
}

/// The parameters of one policy, and the empty line after it.
fn parameters(parameters: &[ParameterInfo]) -> String {
    let mut text = String::new();
    if !parameters.is_empty() {
        let mut table = Table::new(&["parameter", "default", "range", "unit"]);
        for parameter in parameters {
            table.row(vec![
                parameter.name.to_owned(),
                parameter.default.to_string(),
                format!("{} to {}", parameter.min, parameter.max),
                parameter.unit.to_owned(),
            ]);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}", indent(&table.to_string()));
        for parameter in parameters {
            let _ = writeln!(text, "  {}: {}", parameter.name, parameter.summary);
        }
    }
    text + "\n"
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {}\n", line.trim_end()))
        .collect()
}
