//! Whether the simulation and the paper agree: in the order of the systems, and in the rough size of ratios.

use super::findings::{Findings, Happened, Row, Table};

/// Systems that differ by less than this part count as equal.
const EQUAL: f64 = 0.05;
/// Ratios agree roughly where they differ by no more than this factor.
const ROUGHLY: f64 = 2.0;

/// What a comparison came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The same order, and about the same size.
    Agrees,
    /// The same order; ours is so many times the paper's, or what is gained or lost by it is.
    OtherSize(f64),
    /// What is better there is worse here, or equal.
    OtherOrder,
}

/// One number held against the paper's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// The places of the row and of the system.
    pub(super) row: usize,
    pub(super) system: usize,
    /// The ratios to the reference, or the numbers themselves where there is none.
    pub(super) ours: f64,
    pub(super) paper: f64,
    pub(super) verdict: Verdict,
}

/// All that can be compared in a table.
pub(super) fn comparisons(table: &Table) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (place, row) in table.rows.iter().enumerate() {
        for system in 0..table.systems.len() {
            if table.reference != Some(system)
                && let Some((ours, paper)) = pair(row, system, table.reference)
            {
                let verdict = match table.reference {
                    Some(_) => of_ratios(ours, paper),
                    None => of_sizes(ours, paper),
                };
                all.push(Comparison {
                    row: place,
                    system,
                    ours,
                    paper,
                    verdict,
                });
            }
        }
    }
    all
}

/// Ours and the paper's number of a system, as ratios to the reference if there is one.
fn pair(row: &Row, system: usize, reference: Option<usize>) -> Option<(f64, f64)> {
    Some((
        ratio(&row.ours, system, reference)?,
        ratio(&row.paper, system, reference)?,
    ))
}

/// The number of a system by that of the reference; `None` where one is missing or the reference is 0.
pub(super) fn ratio(
    numbers: &[Option<f64>],
    system: usize,
    reference: Option<usize>,
) -> Option<f64> {
    let own = numbers.get(system).copied().flatten()?;
    let Some(reference) = reference else {
        return Some(own);
    };
    let base = numbers.get(reference).copied().flatten()?;
    (base != 0.0).then(|| own / base)
}

fn of_ratios(ours: f64, paper: f64) -> Verdict {
    if side(ours) != side(paper) {
        return Verdict::OtherOrder;
    }
    let is_small = |ratio: f64| (1.0 / ROUGHLY..ROUGHLY).contains(&ratio);
    if side(paper) == 0 {
        Verdict::Agrees
    } else if is_small(ours) && is_small(paper) {
        // What is gained or lost counts: 1.1 is not about 1.5.
        of_sizes((ours - 1.0).abs(), (paper - 1.0).abs())
    } else {
        of_sizes(ours, paper)
    }
}

fn of_sizes(ours: f64, paper: f64) -> Verdict {
    if ours == paper {
        return Verdict::Agrees;
    }
    let factor = ours / paper;
    if (1.0 / ROUGHLY..=ROUGHLY).contains(&factor) {
        Verdict::Agrees
    } else {
        Verdict::OtherSize(factor)
    }
}

/// Below, about at, or above the reference.
fn side(ratio: f64) -> i8 {
    if ratio < 1.0 - EQUAL {
        -1
    } else {
        i8::from(ratio > 1.0 + EQUAL)
    }
}

/// What sets two systems apart most in the runs that a table is about, in words; nothing where those are not counted.
pub(super) fn set_apart(findings: &Findings, table: &Table, one: &str, other: &str) -> Vec<String> {
    if table.is_counted {
        differences(&findings.happened, one, other)
    } else {
        Vec::new()
    }
}

/// What sets two systems apart most here: the counts that differ by most, in words.
fn differences(happened: &[Happened], one: &str, other: &str) -> Vec<String> {
    let find = |name: &str| happened.iter().find(|happened| happened.system == name);
    let (Some(own), Some(others)) = (find(one), find(other)) else {
        return Vec::new();
    };
    let mut apart: Vec<(f64, String)> = own
        .counts
        .iter()
        .filter_map(|(name, count)| {
            let (_, against) = others.counts.iter().find(|(another, _)| another == name)?;
            let largest = count.abs().max(against.abs());
            (largest > 0.0).then(|| {
                let apart = (count - against).abs() / largest;
                let words = format!(
                    "{name}: {one} {}, {other} {}",
                    written(*count),
                    written(*against)
                );
                (apart, words)
            })
        })
        .filter(|(apart, _)| *apart > EQUAL)
        .collect();
    // Stable: what differs as much stays in the order in which it is counted.
    apart.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    apart.into_iter().take(4).map(|(_, words)| words).collect()
}

/// A count as people read it.
pub(super) fn written(count: f64) -> String {
    crate::live::metric::Unit::Count.write(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::metric::Unit;

    fn table(reference: Option<usize>, ours: [f64; 2], paper: [f64; 2]) -> Table {
        Table {
            title: String::new(),
            unit: Unit::Count,
            systems: vec!["a".into(), "b".into()],
            reference,
            better: crate::live::metric::Better::Neither,
            is_course: false,
            is_counted: true,
            rows: vec![Row::beside(
                "",
                ours.map(Some).to_vec(),
                paper.map(Some).to_vec(),
            )],
        }
    }

    fn verdict(ours: [f64; 2], paper: [f64; 2]) -> Verdict {
        comparisons(&table(Some(0), ours, paper))[0].verdict
    }

    #[test]
    fn the_order_comes_before_the_size() {
        assert_eq!(verdict([10.0, 15.0], [1.0, 2.0]), Verdict::Agrees);
        assert_eq!(verdict([10.0, 9.0], [1.0, 2.0]), Verdict::OtherOrder);
        assert_eq!(verdict([10.0, 10.2], [1.0, 2.0]), Verdict::OtherOrder);
        assert_eq!(verdict([10.0, 10.2], [1.0, 0.97]), Verdict::Agrees);
        assert_eq!(verdict([10.0, 50.0], [1.0, 2.0]), Verdict::OtherSize(2.5));
        assert_eq!(verdict([2.0, 2.25], [1.0, 1.5]), Verdict::OtherSize(0.25));
        assert_eq!(verdict([2.0, 2.5], [1.0, 1.5]), Verdict::Agrees);
    }

    #[test]
    fn without_a_reference_numbers_are_compared() {
        let all = comparisons(&table(None, [1.0, 0.0], [1.5, 0.0]));
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|one| one.verdict == Verdict::Agrees));
        let all = comparisons(&table(None, [1.0, 3.0], [4.0, 0.0]));
        assert_eq!(all[0].verdict, Verdict::OtherSize(0.25));
        assert_eq!(all[1].verdict, Verdict::OtherSize(f64::INFINITY));
    }

    #[test]
    fn what_is_missing_is_not_compared() {
        let mut table = table(Some(0), [0.0, 1.0], [1.0, 2.0]);
        assert!(comparisons(&table).is_empty(), "a reference of 0");
        table.rows[0].ours[1] = None;
        assert!(comparisons(&table).is_empty());
    }

    #[test]
    fn what_differs_most_is_said() {
        let happened = |system: &str, promoted, failed| Happened {
            system: system.to_owned(),
            counts: [("promoted", promoted), ("failed", failed), ("same", 3.0)]
                .map(|(name, count)| (name.to_owned(), count))
                .to_vec(),
        };
        let both = [happened("a", 100.0, 0.0), happened("b", 90.0, 8.0)];
        assert_eq!(
            differences(&both, "a", "b"),
            ["failed: a 0, b 8.00", "promoted: a 100, b 90.00"]
        );
        assert!(differences(&both, "c", "b").is_empty());
    }
}
