//! Where the simulation and the paper disagree, in sentences that are made from the numbers.

use crate::sim::findings::{Findings, Table};
use crate::sim::verdict::{Comparison, Verdict, comparisons, reasons};

/// How many numbers could be compared, and how many agree.
pub(super) fn count(findings: &Findings) -> (usize, usize) {
    let all = findings.tables.iter().flat_map(comparisons);
    all.fold((0, 0), |(compared, agreeing), one| {
        let agrees = one.verdict == Verdict::Agrees;
        (compared + 1, agreeing + usize::from(agrees))
    })
}

/// A sentence for each comparison that does not agree.
pub(super) fn disagreements(findings: &Findings) -> Vec<String> {
    let of_table = |table| {
        let all = comparisons(table).into_iter();
        all.filter_map(move |one| sentence(findings, table, &one))
    };
    findings.tables.iter().flat_map(of_table).collect()
}

fn sentence(findings: &Findings, table: &Table, one: &Comparison) -> Option<String> {
    let kind = match one.verdict {
        Verdict::Agrees => return None,
        Verdict::OtherOrder => "another order".to_owned(),
        Verdict::OtherSize(factor) if factor.is_finite() && factor > 0.0 => {
            format!("another size, {} times the paper's", significant(factor))
        }
        Verdict::OtherSize(_) => "another size".to_owned(),
    };
    let system = &table.systems[one.system];
    let row = &table.rows[one.row].name;
    let reference = table.reference.map(|place| table.systems[place].as_str());
    let (ours, paper) = match reference {
        Some(name) => (
            format!("{} times {name}", significant(one.ours)),
            format!("{} times", significant(one.paper)),
        ),
        None => (table.unit.write(one.ours), table.unit.write(one.paper)),
    };
    let mut text = format!(
        "{}, {row}: {system} is {ours} here and {paper} in the paper ({kind}).",
        table.title
    );
    let why = reference.map(|other| reasons(findings, table, system, other));
    if let Some(why) = why.filter(|why| !why.is_empty()) {
        text += &format!(" What happened here: {}.", why.join("; "));
    }
    Some(text)
}

/// A ratio with three digits that count.
pub(in super::super) fn significant(ratio: f64) -> String {
    match ratio.abs() {
        100.0.. => format!("{ratio:.0}"),
        10.0.. => format!("{ratio:.1}"),
        0.1.. => format!("{ratio:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{ratio:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::metric::Unit;
    use crate::sim::findings::{Happened, Row};

    fn findings(ours: [f64; 2]) -> Findings {
        let happened = |system: &str, promoted| Happened {
            system: system.to_owned(),
            counts: vec![("regions promoted".to_owned(), promoted)],
        };
        Findings {
            memory_bytes: 0,
            tables: vec![Table {
                title: "speed".to_owned(),
                unit: Unit::PerSecond,
                systems: vec!["ingens".to_owned(), "mega".to_owned()],
                reference: Some(0),
                better: crate::live::metric::Better::Neither,
                is_course: false,
                is_counted: true,
                rows: vec![Row::beside(
                    "gups",
                    ours.map(Some).to_vec(),
                    vec![Some(1.0), Some(2.0)],
                )],
            }],
            happened: vec![happened("ingens", 7.0), happened("mega", 0.0)],
        }
    }

    #[test]
    fn what_disagrees_is_said_with_what_happened() {
        assert_eq!(
            disagreements(&findings([10.0, 5.0])),
            [
                "speed, gups: mega is 0.50 times ingens here and 2.00 times in the paper (another order). What happened here: regions promoted: mega 0, ingens 7.00."
            ]
        );
        let size = disagreements(&findings([10.0, 90.0]));
        assert!(size[0].contains("another size, 4.50 times"), "{size:?}");
    }

    #[test]
    fn what_agrees_is_only_counted() {
        let findings = findings([10.0, 18.0]);
        assert_eq!(count(&findings), (1, 1));
        assert!(disagreements(&findings).is_empty());
    }
}
