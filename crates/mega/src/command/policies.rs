//! `mega policies`: the policies and their parameters.

use std::fmt::Write;
use std::process::ExitCode;

use mega_core::policy::{DEFAULT_POLICY, PolicyInfo, registry};
use serde::Serialize;

use crate::cli::Policies;
use crate::exit::Failure;
use crate::output::{self, Table};
use crate::report::VERSION;

/// What `mega policies --json` prints.
#[derive(Serialize)]
struct Listing {
    version: u32,
    default: &'static str,
    policies: &'static [PolicyInfo],
}

pub(super) fn run(args: &Policies) -> Result<ExitCode, Failure> {
    let listing = Listing {
        version: VERSION,
        default: DEFAULT_POLICY,
        policies: registry(),
    };
    if args.json {
        output::print_json(&listing)?;
    } else {
        output::print(&in_words(listing.policies))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(policies: &[PolicyInfo]) -> String {
    let mut text = String::new();
    for policy in policies {
        let mark = if policy.name == DEFAULT_POLICY {
            " (default)"
        } else {
            ""
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}{mark}\n  {}\n  Source: {}",
            policy.name, policy.summary, policy.source
        );
        if !policy.parameters.is_empty() {
            let mut table = Table::new(&["parameter", "default", "range", "unit"]);
            for parameter in policy.parameters {
                table.row(vec![
                    parameter.name.to_owned(),
                    parameter.default.to_string(),
                    format!("{} to {}", parameter.min, parameter.max),
                    parameter.unit.to_owned(),
                ]);
            }
            let _ = writeln!(text, "\n{}", indent(&table.to_string()));
            for parameter in policy.parameters {
                let _ = writeln!(text, "  {}: {}", parameter.name, parameter.summary);
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {}\n", line.trim_end()))
        .collect()
}
