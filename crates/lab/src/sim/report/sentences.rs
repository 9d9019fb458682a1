//! Where the simulation and the paper disagree, in sentences that are made from the numbers, and the reasons that are known.

use serde::{Deserialize, Serialize};

use crate::sim::findings::{Findings, Table};
use crate::sim::reason::Reason;
use crate::sim::verdict::{Comparison, Verdict, comparisons, set_apart};

/// How many comparisons there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Those of a finding.
    pub(super) compared: usize,
    /// Those of them that agree.
    pub(super) agreeing: usize,
    /// Those whose number was put in: nothing is found by comparing it.
    pub(super) inputs: usize,
}

pub(super) fn count(findings: &Findings, reasons: &[Reason]) -> Count {
    let mut count = Count::default();
    for table in &findings.tables {
        for one in comparisons(table) {
            if covering(reasons, table, &one).is_some_and(|(_, reason)| reason.is_input()) {
                count.inputs += 1;
            } else {
                count.compared += 1;
                count.agreeing += usize::from(one.verdict == Verdict::Agrees);
            }
        }
    }
    count
}

/// Comparisons that disagree, or that nothing is found by, with what they have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Explained {
    /// Why, and how that is known.
    pub(super) why: String,
    /// Whether that is known.
    pub(super) is_known: bool,
    /// A sentence for each row.
    pub(super) comparisons: Vec<String>,
}

/// What is said of a comparison that no reason covers.
const NOT_KNOWN: &str = "Why is not known.";

/// All comparisons that do not agree, by reason; those without one come last.
pub(super) fn disagreements(findings: &Findings, reasons: &[Reason]) -> Vec<Explained> {
    let is_wanted = |one: &Comparison, reason: Option<&Reason>| {
        one.verdict != Verdict::Agrees && !reason.is_some_and(Reason::is_input)
    };
    explained(findings, reasons, is_wanted)
}

/// All comparisons whose number was put in.
pub(super) fn inputs(findings: &Findings, reasons: &[Reason]) -> Vec<Explained> {
    let is_wanted = |_: &Comparison, reason: Option<&Reason>| reason.is_some_and(Reason::is_input);
    explained(findings, reasons, is_wanted)
}

fn explained(
    findings: &Findings,
    reasons: &[Reason],
    is_wanted: impl Fn(&Comparison, Option<&Reason>) -> bool,
) -> Vec<Explained> {
    // By the place of the reason: the last is of those without one.
    let mut sentences: Vec<Vec<String>> = vec![Vec::new(); reasons.len() + 1];
    for table in &findings.tables {
        let mut rows: Vec<Same<'_>> = Vec::new();
        for one in comparisons(table) {
            let covering = covering(reasons, table, &one);
            if is_wanted(&one, covering.map(|(_, reason)| reason)) {
                let reason = covering.map_or((reasons.len(), false), |(place, _)| (place, true));
                Same::add(&mut rows, findings, table, &one, reason);
            }
        }
        for row in rows {
            sentences[row.reason].push(row.sentence(table));
        }
    }
    let words = reasons
        .iter()
        .map(|reason| (reason.in_words(findings), !reason.is_unknown()));
    let words = words.chain([(NOT_KNOWN.to_owned(), false)]);
    let all = words
        .zip(sentences)
        .filter(|(_, sentences)| !sentences.is_empty());
    all.map(|((why, is_known), comparisons)| Explained {
        why,
        is_known,
        comparisons,
    })
    .collect()
}

/// The first reason that covers a comparison, and its place.
pub(super) fn covering<'a>(
    reasons: &'a [Reason],
    table: &Table,
    one: &Comparison,
) -> Option<(usize, &'a Reason)> {
    let mut all = reasons.iter().enumerate();
    all.find(|(_, reason)| reason.covers(table, one.row, one.system))
}

/// Comparisons of a row that say the same of several systems, for one reason.
struct Same<'a> {
    reason: usize,
    row: usize,
    systems: Vec<&'a str>,
    /// What they are here and in the paper.
    said: String,
    /// What happened, where no reason is known.
    happened: Vec<String>,
}

impl<'a> Same<'a> {
    /// Adds a comparison to those that are the same, or as one of its own.
    fn add(
        all: &mut Vec<Self>,
        findings: &Findings,
        table: &'a Table,
        one: &Comparison,
        (reason, is_explained): (usize, bool),
    ) {
        let system = table.systems[one.system].as_str();
        let said = said(table, one);
        let same = all
            .iter_mut()
            .find(|same| (same.reason, same.row) == (reason, one.row) && same.said == said);
        if let Some(same) = same {
            same.systems.push(system);
            return;
        }
        let other = table.reference.filter(|_| !is_explained);
        let happened = other.map(|place| {
            let other = table.systems[place].as_str();
            set_apart(findings, table, system, other)
        });
        all.push(Same {
            reason,
            row: one.row,
            systems: vec![system],
            said,
            happened: happened.unwrap_or_default(),
        });
    }

    fn sentence(&self, table: &Table) -> String {
        let (row, systems) = (&table.rows[self.row].name, self.systems.join(", "));
        let mut text = format!("{}, {row}: {systems} {}.", table.title, self.said);
        if !self.happened.is_empty() {
            text += &format!(" What happened here: {}.", self.happened.join("; "));
        }
        text
    }
}

/// What a system is here and in the paper, in words.
fn said(table: &Table, one: &Comparison) -> String {
    let reference = table.reference.map(|place| table.systems[place].as_str());
    let (ours, paper) = match reference {
        Some(name) => (
            format!("{} times {name}", significant(one.ours)),
            format!("{} times", significant(one.paper)),
        ),
        None => (table.unit.write(one.ours), table.unit.write(one.paper)),
    };
    let kind = match one.verdict {
        Verdict::Agrees => return format!("{ours} here and {paper} in the paper"),
        Verdict::OtherOrder => "another order".to_owned(),
        Verdict::OtherSize(factor) if factor.is_finite() && factor > 0.0 => {
            format!("another size, {} times the paper's", significant(factor))
        }
        Verdict::OtherSize(_) => "another size".to_owned(),
    };
    format!("{ours} here and {paper} in the paper ({kind})")
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
    use crate::sim::reason::{Known, Number, Part};

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

    const MEGA_OF_GUPS: &[Part] = &[Part {
        tables: &["sp"],
        rows: &["gups"],
        systems: &["mega"],
    }];

    fn reason(known: &'static [Known]) -> Reason {
        Reason {
            of: MEGA_OF_GUPS,
            why: "It rained.",
            known,
        }
    }

    #[test]
    fn what_disagrees_without_a_reason_is_said_with_what_happened() {
        let [one] = &disagreements(&findings([10.0, 5.0]), &[])[..] else {
            panic!("one disagrees");
        };
        assert_eq!((one.why.as_str(), one.is_known), (NOT_KNOWN, false));
        assert_eq!(
            one.comparisons,
            [
                "speed, gups: mega 0.50 times ingens here and 2.00 times in the paper (another order). What happened here: regions promoted: mega 0, ingens 7.00."
            ]
        );
        let size = disagreements(&findings([10.0, 90.0]), &[]);
        let sentence = &size[0].comparisons[0];
        assert!(sentence.contains("another size, 4.50 times"), "{size:?}");
    }

    #[test]
    fn a_reason_is_said_with_what_shows_it() {
        const SHOWS: &[Known] = &[
            Known::Paper("section 1"),
            Known::Run(&[
                Number::Count("regions promoted", "mega"),
                Number::Cell("speed", "gups", "mega"),
            ]),
        ];
        let all = disagreements(&findings([10.0, 5.0]), &[reason(SHOWS)]);
        assert!(!all[0].comparisons[0].contains("What happened"));
        assert_eq!(
            all[0].why,
            "It rained. So the paper (section 1). In this run: regions promoted, mega: 0; speed, gups, mega: 5.00/s."
        );
        assert!(all[0].is_known);
        let unknown = disagreements(
            &findings([10.0, 5.0]),
            &[reason(&[Known::Unknown("a dry day.")])],
        );
        assert_eq!(
            unknown[0].why,
            "It rained. Why is not known. Tried: a dry day."
        );
        assert!(!unknown[0].is_known);
    }

    #[test]
    fn a_reason_of_something_else_explains_nothing() {
        const OTHERS: &[Part] = &[
            Part {
                tables: &["tail"],
                rows: &[],
                systems: &[],
            },
            Part {
                tables: &[],
                rows: &["chase"],
                systems: &["mega"],
            },
            Part {
                tables: &[],
                rows: &["gups"],
                systems: &["thp"],
            },
        ];
        let other = Reason {
            of: OTHERS,
            ..reason(&[])
        };
        let all = disagreements(&findings([10.0, 5.0]), &[other]);
        assert_eq!(all[0].why, NOT_KNOWN);
    }

    #[test]
    fn what_was_put_in_is_not_compared() {
        let reasons = [reason(&[Known::Input])];
        for ours in [[10.0, 5.0], [10.0, 18.0]] {
            let findings = findings(ours);
            let expected = Count {
                inputs: 1,
                ..Count::default()
            };
            assert_eq!(count(&findings, &reasons), expected);
            assert!(disagreements(&findings, &reasons).is_empty());
            assert_eq!(inputs(&findings, &reasons)[0].comparisons.len(), 1);
        }
    }

    #[test]
    fn systems_that_say_the_same_are_said_together() {
        let mut findings = findings([10.0, 5.0]);
        findings.happened.clear();
        let table = &mut findings.tables[0];
        table.systems.push("thp".to_owned());
        table.rows[0].ours.push(Some(5.0));
        table.rows[0].paper.push(Some(2.0));
        let all = disagreements(&findings, &[]);
        assert_eq!(all[0].comparisons.len(), 1);
        assert!(all[0].comparisons[0].contains("mega, thp 0.50 times"));
    }

    #[test]
    fn what_agrees_is_only_counted() {
        let findings = findings([10.0, 18.0]);
        let expected = Count {
            compared: 1,
            agreeing: 1,
            inputs: 0,
        };
        assert_eq!(count(&findings, &[]), expected);
        assert!(disagreements(&findings, &[]).is_empty());
    }
}
