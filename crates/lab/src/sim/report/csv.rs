//! Every number as comma-separated values.

use std::fmt::Write;

use super::Report;
use crate::csv::field;

/// A line for each number, ours and the paper's, under a line of names.
pub(super) fn draw(report: &Report) -> String {
    let mut text = String::from("experiment,table,row,system,ours,paper\n");
    let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    for table in &report.findings.tables {
        for row in &table.rows {
            for ((system, &ours), &paper) in table.systems.iter().zip(&row.ours).zip(&row.paper) {
                // Writing to a String does not fail.
                let _ = writeln!(
                    text,
                    "{},{},{},{},{},{}",
                    field(&report.experiment),
                    field(&table.title),
                    field(&row.name),
                    field(system),
                    number(ours),
                    number(paper),
                );
            }
        }
    }
    for happened in &report.findings.happened {
        for (name, count) in &happened.counts {
            let _ = writeln!(
                text,
                "{},what happened,{},{},{count},",
                field(&report.experiment),
                field(name),
                field(&happened.system),
            );
        }
    }
    text
}
