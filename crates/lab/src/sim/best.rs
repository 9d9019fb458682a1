//! Where `adaptive` is as good as the best of the systems beside it, and where it is not.

use super::findings::{Findings, Table};
use super::report::significant;
use super::system::ADAPTIVE;
use super::verdict::set_apart;
use crate::live::metric::Better;

/// How far from the best counts as being it.
const NEAR: f64 = 1.02;

/// All rows of an experiment that have `adaptive` and a better and a worse.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Standing {
    /// How many there are.
    pub(super) rows: usize,
    /// Those in which it is within 2 % of the best.
    pub(super) near: usize,
    /// A sentence for the others of each table that have the same best.
    pub(super) behind: Vec<String>,
    /// The tables that have no such row, and why.
    pub(super) not_judged: Vec<String>,
}

/// Rows of a table in which another system is better.
struct Behind<'a> {
    best: usize,
    /// Name, `adaptive`'s number and the best one.
    rows: Vec<(&'a str, f64, f64)>,
}

/// How `adaptive` stands.
pub(super) fn standing(findings: &Findings) -> Standing {
    let mut standing = Standing::default();
    for table in &findings.tables {
        if let Some(reason) = why_not_judged(table) {
            standing
                .not_judged
                .push(format!("{} ({reason})", table.title));
            continue;
        }
        let mut behind: Vec<Behind<'_>> = Vec::new();
        for row in 0..table.rows.len() {
            let Some((own, best, place)) = own_and_best(table, row) else {
                continue;
            };
            standing.rows += 1;
            if is_near(own, best, table.better) {
                standing.near += 1;
                continue;
            }
            let row = (table.rows[row].name.as_str(), own, best);
            match behind.iter_mut().find(|behind| behind.best == place) {
                Some(behind) => behind.rows.push(row),
                None => behind.push(Behind {
                    best: place,
                    rows: vec![row],
                }),
            }
        }
        let sentences = behind.iter();
        let sentences = sentences.map(|behind| sentence(findings, table, behind));
        standing.behind.extend(sentences);
    }
    standing
}

/// Why a table says nothing of `adaptive`; `None` where it does.
fn why_not_judged(table: &Table) -> Option<&'static str> {
    if !table.systems.iter().any(|name| name == ADAPTIVE.name) {
        return Some("adaptive is not in it");
    }
    (table.better == Better::Neither).then_some("neither more nor less is better")
}

/// The number of `adaptive` in a row, the best one, and its place. `None` where it has none, or nothing is better.
fn own_and_best(table: &Table, row: usize) -> Option<(f64, f64, usize)> {
    let row = &table.rows[row];
    let own = table
        .systems
        .iter()
        .position(|name| name == ADAPTIVE.name)?;
    let numbers = row.ours.iter().enumerate();
    let mut numbers: Vec<(usize, f64)> = numbers
        .filter_map(|(place, number)| number.map(|number| (place, number)))
        .collect();
    match table.better {
        Better::Lower => numbers.sort_by(|(_, one), (_, other)| one.total_cmp(other)),
        Better::Higher => numbers.sort_by(|(_, one), (_, other)| other.total_cmp(one)),
        Better::Neither => return None,
    }
    let &(place, best) = numbers.first()?;
    // Where it never came to that, it has no number: that is worse than any.
    let missing = match table.better {
        Better::Lower => f64::INFINITY,
        _ => 0.0,
    };
    Some((row.ours[own].unwrap_or(missing), best, place))
}

fn is_near(own: f64, best: f64, better: Better) -> bool {
    match better {
        Better::Higher => own * NEAR >= best,
        _ => own <= best * NEAR,
    }
}

fn sentence(findings: &Findings, table: &Table, behind: &Behind<'_>) -> String {
    let (name, other) = (ADAPTIVE.name, &table.systems[behind.best]);
    let rows: Vec<&str> = behind.rows.iter().map(|(row, _, _)| *row).collect();
    let rows = match rows[..] {
        [first, .., last] if table.is_course && rows.len() > 2 => {
            format!("{} rows from {first} to {last}", rows.len())
        }
        _ => rows.join(", "),
    };
    let mut text = format!("{}, {rows}: ", table.title);
    text += &compared(table, behind, name, other);
    let why = set_apart(findings, table, name, other);
    if why.is_empty() {
        text += ".";
    } else {
        text += &format!(". What happened here: {}.", why.join("; "));
    }
    text
}

/// How far it is behind in these rows: from the least to the most.
fn compared(table: &Table, behind: &Behind<'_>, name: &str, other: &str) -> String {
    if behind.rows.iter().any(|(_, own, _)| own.is_infinite()) {
        return format!("{name} did not come to that, {other} did");
    }
    let range = |numbers: Vec<f64>, write: &dyn Fn(f64) -> String| {
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(0.0, f64::max);
        match (write(least), write(most)) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        }
    };
    let own = behind.rows.iter().map(|(_, own, _)| *own).collect();
    let best = behind.rows.iter().map(|(_, _, best)| *best).collect();
    if behind.rows.iter().any(|(_, _, best)| *best == 0.0) {
        let write = |number| table.unit.write(number);
        return format!(
            "{name} has {}, {other} {}",
            range(own, &write),
            range(best, &write)
        );
    }
    let ratios = behind
        .rows
        .iter()
        .map(|(_, own, best)| own / best)
        .collect();
    format!(
        "{name} has {} times as much as {other}",
        range(ratios, &significant)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::metric::Unit;
    use crate::sim::findings::{Happened, Row};
    use crate::sim::numbers::number;

    fn findings(better: Better, rows: &[[Option<f64>; 2]]) -> Findings {
        let rows = rows.iter().map(|ours| Row::ours("case", ours.to_vec()));
        let systems = vec!["thp".to_owned(), "adaptive".to_owned()];
        Findings {
            memory_bytes: 0,
            tables: vec![Table::new("time", Unit::Count, systems, rows.collect()).better(better)],
            happened: Vec::new(),
        }
    }

    #[test]
    fn two_percent_count_as_the_best_and_more_is_told() {
        let rows = [
            [Some(100.0), Some(102.0)],
            [Some(100.0), Some(150.0)],
            [Some(9.0), Some(1.0)],
        ];
        let lower = standing(&findings(Better::Lower, &rows));
        assert_eq!((lower.rows, lower.near), (3, 2));
        assert_eq!(
            lower.behind,
            ["time, case: adaptive has 1.50 times as much as thp."]
        );
        let higher = standing(&findings(Better::Higher, &rows));
        assert_eq!((higher.rows, higher.near), (3, 2));
        assert_eq!(
            higher.behind,
            ["time, case: adaptive has 0.11 times as much as thp."]
        );
        let neither = standing(&findings(Better::Neither, &rows));
        assert_eq!((neither.rows, neither.near), (0, 0));
        assert_eq!(
            neither.not_judged,
            ["time (neither more nor less is better)"]
        );
        let mut without = findings(Better::Lower, &rows);
        without.tables[0].systems[1] = "ingens".to_owned();
        assert_eq!(
            standing(&without).not_judged,
            ["time (adaptive is not in it)"]
        );
    }

    #[test]
    fn what_it_never_reached_is_told() {
        let standing = standing(&findings(
            Better::Lower,
            &[[Some(1.0), None], [Some(0.0), Some(2.0)]],
        ));
        assert_eq!(
            standing.behind,
            ["time, case, case: adaptive did not come to that, thp did."]
        );
        let zero = findings(Better::Lower, &[[Some(0.0), Some(2.0)]]);
        assert_eq!(
            super::standing(&zero).behind,
            ["time, case: adaptive has 2.00, thp 0."]
        );
    }

    #[test]
    fn what_happened_in_other_runs_is_no_reason() {
        let mut findings = findings(Better::Lower, &[[Some(1.0), Some(2.0)]]);
        findings.happened = ["thp", "adaptive"]
            .map(|system| Happened {
                system: system.to_owned(),
                counts: vec![("promoted".to_owned(), number(system.len() as u64))],
            })
            .to_vec();
        let behind = "time, case: adaptive has 2.00 times as much as thp";
        assert_eq!(
            standing(&findings).behind,
            [format!(
                "{behind}. What happened here: promoted: adaptive 8.00, thp 3.00."
            )]
        );
        findings.tables[0].is_counted = false;
        assert_eq!(standing(&findings).behind, [format!("{behind}.")]);
    }

    /// A course of many points is told in one sentence.
    #[test]
    fn rows_behind_the_same_system_are_told_together() {
        let rows = [1.0, 2.0, 4.0].map(|own| [Some(8.0), Some(own)]);
        let mut findings = findings(Better::Higher, &rows);
        findings.tables[0].is_course = true;
        assert_eq!(
            standing(&findings).behind,
            ["time, 3 rows from case to case: adaptive has 0.12 to 0.50 times as much as thp."]
        );
    }
}
