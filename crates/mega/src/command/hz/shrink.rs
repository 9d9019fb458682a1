//! `mega hz shrink`: gives memory of hzmem's back to the kernel.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use mega_core::bytes;
use mega_linux::Error;
use mega_linux::hzmem::{Hzmem, Origin, Range};
use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::physical::memory_blocks;
use serde::Serialize;

use crate::cli::HzShrink;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;
use crate::value::HzRange;

/// What `mega hz shrink --json` prints. `docs/interfaces.md` describes it.
#[derive(Serialize)]
struct Report {
    version: u32,
    removed: u64,
    tried: Vec<Tried>,
}

/// A range, and what came of it.
#[derive(Serialize)]
struct Tried {
    start: u64,
    size: u64,
    node: u32,
    removed: bool,
    /// Bytes that mega put online; the rest was online already.
    put_online: u64,
    error: Option<String>,
}

pub(super) fn run(args: &HzShrink) -> Result<ExitCode, Failure> {
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let hzmem = Hzmem::open(Arc::clone(&kernel))?;
    let mut report = Report {
        version: VERSION,
        removed: 0,
        tried: Vec::new(),
    };
    for (start, range) in selected(&hzmem.ranges()?, args.range)? {
        let tried = give_back(kernel.as_ref(), &hzmem, start, &range)?;
        report.removed += if tried.removed { tried.size } else { 0 };
        report.tried.push(tried);
    }
    let whole = report.tried.iter().all(|tried| tried.error.is_none());
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&in_words(&report))?;
    }
    Ok(if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The range that begins at an address, or all that were given at run time.
fn selected(ranges: &[Range], wanted: HzRange) -> Result<Vec<(u64, Range)>, Failure> {
    let ranges = ranges
        .iter()
        .map(|range| range.start.map(|start| (start, *range)))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(unseen)?;
    let is_wanted = |(start, range): &(u64, Range)| match wanted {
        HzRange::All => range.origin == Origin::Added,
        HzRange::At(wanted) => *start == wanted,
    };
    let selected: Vec<_> = ranges.into_iter().filter(is_wanted).collect();
    match wanted {
        HzRange::At(start) if selected.is_empty() => Err(Failure::Failed(format!(
            "hzmem has no memory that begins at {start:#x}; `mega hz status` shows what it has"
        ))),
        _ => Ok(selected),
    }
}

fn unseen() -> Failure {
    Error::Missing {
        feature: "the privilege to see where hzmem's memory lies".to_owned(),
        remedy: "run as root".to_owned(),
    }
    .into()
}

/// Gives one range back and puts it online.
fn give_back(
    kernel: &dyn Kernel,
    hzmem: &Hzmem,
    start: u64,
    range: &Range,
) -> Result<Tried, Failure> {
    let mut tried = Tried {
        start,
        size: range.size,
        node: range.node,
        removed: false,
        put_online: 0,
        error: None,
    };
    match hzmem.remove(start) {
        Ok(()) => tried.removed = true,
        Err(missing @ Error::Missing { .. }) => return Err(missing.into()),
        Err(error) => {
            tried.error = Some(error.to_string());
            return Ok(tried);
        }
    }
    match memory_blocks::put_online(kernel, &(start..start + range.size)) {
        Ok(put) => tried.put_online = put,
        Err(error) => {
            tried.error = Some(format!("hzmem gave it back, but it is not in use: {error}"));
        }
    }
    Ok(tried)
}

fn in_words(report: &Report) -> String {
    if report.tried.is_empty() {
        return "hzmem has no memory that it was given while the machine ran\n".to_owned();
    }
    let mut text = format!("{} given back\n", bytes::format(report.removed));
    for tried in &report.tried {
        let outcome = tried
            .error
            .clone()
            .unwrap_or_else(|| format!("{} given back, online", bytes::format(tried.size)));
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:#x}, node {}: {outcome}", tried.start, tried.node);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGES: [Range; 2] = [
        Range {
            start: Some(1 << 30),
            size: 128 << 20,
            node: 0,
            origin: Origin::Added,
            free: 128 << 20,
        },
        Range {
            start: Some(4 << 30),
            size: 512 << 20,
            node: 0,
            origin: Origin::Boot,
            free: 0,
        },
    ];

    fn starts(wanted: HzRange) -> Result<Vec<u64>, String> {
        selected(&RANGES, wanted)
            .map(|ranges| ranges.iter().map(|(start, _)| *start).collect())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn all_is_what_was_given_at_run_time_and_an_address_is_one_range() {
        assert_eq!(starts(HzRange::All), Ok(vec![1 << 30]));
        assert_eq!(starts(HzRange::At(4 << 30)), Ok(vec![4 << 30]));
        let refusal = starts(HzRange::At(7)).expect_err("there is none");
        assert!(refusal.contains("0x7"), "{refusal}");
        let unseen = RANGES.map(|range| Range {
            start: None,
            ..range
        });
        assert!(
            selected(&unseen, HzRange::All).is_err(),
            "only root sees addresses"
        );
    }

    #[test]
    fn what_could_not_be_given_back_is_told() {
        let tried = |error: Option<&str>| Tried {
            start: 1 << 30,
            size: 128 << 20,
            node: 0,
            removed: error.is_none(),
            put_online: 0,
            error: error.map(str::to_owned),
        };
        let report = Report {
            version: VERSION,
            removed: 128 << 20,
            tried: vec![tried(None), tried(Some("in use"))],
        };
        let text = in_words(&report);
        assert!(text.starts_with("128 MiB given back\n"), "{text}");
        assert!(text.contains("0x40000000, node 0: in use"), "{text}");
    }
}
