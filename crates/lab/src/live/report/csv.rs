//! Every run as comma-separated values.

use std::fmt::Write;

use crate::csv::field;
use crate::live::metric::Unit;
use crate::live::results::Results;

/// One line for each run and metric under a line of names, quoted as RFC 4180 says; values as full as they are.
pub(super) fn draw(results: &Results) -> String {
    let mut text = String::from("experiment,round,mode,metric,unit,value\n");
    for run in &results.runs {
        for metric in &results.metrics {
            let Some(value) = run.values.get(&metric.id) else {
                continue;
            };
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{value}",
                field(&results.experiment),
                run.round,
                field(&run.mode.to_string()),
                field(&metric.id),
                unit(metric.unit),
            );
        }
    }
    text
}

/// A unit as `results.json` has it.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::PerSecond => "per_second",
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "nanoseconds",
        Unit::Seconds => "seconds",
        Unit::Share => "share",
        Unit::Count => "count",
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn every_run_and_metric_has_a_line() {
        let results = example::three_rounds();
        let text = draw(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 3 * results.modes.len() * 2);
        assert_eq!(
            lines[1],
            "gups,1,base,operations_per_second,per_second,12000000"
        );
        assert_eq!(lines[2], "gups,1,base,resident_bytes,bytes,0.5");
    }

    #[test]
    fn units_are_named_as_in_the_json() {
        for each in [
            Unit::PerSecond,
            Unit::Bytes,
            Unit::Nanoseconds,
            Unit::Seconds,
            Unit::Share,
            Unit::Count,
        ] {
            assert_eq!(serde_json::to_value(each).unwrap(), unit(each));
        }
    }
}
