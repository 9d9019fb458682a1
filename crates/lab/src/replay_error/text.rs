//! Predictions beside the truth, in words.

use mega_core::bytes;

use super::compare::{Comparison, Findings};
use crate::columns::{Side, align};

pub(super) fn in_words(findings: &Findings) -> String {
    let headings = [
        "program",
        "policy",
        "huge: predicted",
        "seen",
        "resident: predicted",
        "seen",
        "regions: predicted",
        "seen",
        "overlap",
        "",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(findings.comparisons.iter().map(row));
    let lines = align(&rows, &[Side::Left, Side::Left, Side::Right]);
    let held = findings.comparisons.iter().filter(|one| one.holds).count();
    let order = match findings.other_order.as_slice() {
        [] => "The policies come in the predicted order for each program.".to_owned(),
        programs => format!(
            "The policies come in another order than predicted: {}.",
            programs.join(", ")
        ),
    };
    format!(
        "{}\n\nProgram by program recorded on base pages, replayed and run, {} each, compared after {:.0} s with a look every {:.1} s.\n\
         {held} of {} predictions hold: coverage and resident memory within 2 %, 0.9 of the regions the same.\n{order}\n",
        lines.join("\n"),
        bytes::format(findings.size),
        findings.seconds,
        findings.interval_seconds,
        findings.comparisons.len()
    )
}

fn row(one: &Comparison) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    vec![
        one.program.clone(),
        one.policy.clone(),
        percent(one.predicted_coverage),
        percent(one.coverage),
        bytes::format(one.predicted_resident),
        bytes::format(one.resident),
        one.predicted_regions.to_string(),
        one.regions.to_string(),
        format!("{:.2}", one.overlap),
        if one.holds { "" } else { "off" }.to_owned(),
    ]
}
