//! Why an experiment says something else than the paper, and how that is known.
//!
//! An experiment declares its reasons; the report puts each beneath the comparisons that it covers. Which comparisons disagree,
//! and by how much, is computed and never declared.

use super::findings::{Findings, Table};
use super::verdict::written;

/// Why some comparisons come out as they do.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) of: &'static [Part],
    /// A sentence, or several.
    pub(super) why: &'static str,
    pub(super) known: &'static [Known],
}

/// Comparisons that a reason covers. Where no names are given, all.
#[derive(Debug)]
pub(super) struct Part {
    /// How the titles of the tables begin.
    pub(super) tables: &'static [&'static str],
    pub(super) rows: &'static [&'static str],
    pub(super) systems: &'static [&'static str],
}

/// How a reason is known.
#[derive(Debug)]
pub(super) enum Known {
    /// Numbers of this very run show it; they are printed beside it.
    Run(&'static [Number]),
    /// The paper says it, in this place.
    Paper(&'static str),
    /// Published code says it, in this place.
    Source(&'static str),
    /// A run in which one thing was different shows it: which thing, and what came of it.
    Varied(&'static str),
    /// It is not known. What was tried.
    Unknown(&'static str),
    /// The number is no finding: it was put in.
    Input,
}

/// A number of a run.
#[derive(Debug)]
pub(super) enum Number {
    /// The simulation's, of a table, a row and a system. The table's title begins so.
    Cell(&'static str, &'static str, &'static str),
    /// What was counted, of a system.
    Count(&'static str, &'static str),
}

impl Part {
    fn has(&self, table: &str, row: &str, system: &str) -> bool {
        let is_among = |names: &[&str], name: &str| names.is_empty() || names.contains(&name);
        (self.tables.is_empty() || self.tables.iter().any(|title| table.starts_with(title)))
            && is_among(self.rows, row)
            && is_among(self.systems, system)
    }
}

impl Reason {
    /// Whether it covers the comparison of that row and system.
    pub(super) fn covers(&self, table: &Table, row: usize, system: usize) -> bool {
        let (row, system) = (&table.rows[row].name, &table.systems[system]);
        self.of
            .iter()
            .any(|part| part.has(&table.title, row, system))
    }

    /// Whether what it covers was put in, so that nothing can be found by comparing it.
    pub(super) fn is_input(&self) -> bool {
        self.known.iter().any(|known| matches!(known, Known::Input))
    }

    /// Whether nobody knows it.
    pub(super) fn is_unknown(&self) -> bool {
        let mut known = self.known.iter();
        known.any(|known| matches!(known, Known::Unknown(_)))
    }

    /// The numbers of a run that show it.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> impl Iterator<Item = &'static Number> {
        self.known.iter().flat_map(|known| match known {
            Known::Run(numbers) => *numbers,
            _ => &[],
        })
    }

    /// The sentence, with how it is known, and with the numbers of the run that show it.
    pub(super) fn in_words(&self, findings: &Findings) -> String {
        let mut text = self.why.to_owned();
        for known in self.known {
            let sentence = match known {
                Known::Run(numbers) => {
                    let numbers = numbers.iter().filter_map(|number| number.written(findings));
                    let numbers: Vec<String> = numbers.collect();
                    if numbers.is_empty() {
                        continue;
                    }
                    format!("In this run: {}.", numbers.join("; "))
                }
                Known::Paper(place) => format!("So the paper ({place})."),
                Known::Source(place) => format!("So published code ({place})."),
                Known::Varied(what) => format!("Tried: {what}"),
                Known::Unknown(tried) => format!("Why is not known. Tried: {tried}"),
                Known::Input => continue,
            };
            text = format!("{text} {sentence}").trim().to_owned();
        }
        text
    }
}

impl Number {
    /// With what it is. `None` where the run has no such number.
    pub(super) fn written(&self, findings: &Findings) -> Option<String> {
        match *self {
            Number::Cell(title, row, system) => {
                let mut tables = findings.tables.iter();
                let table = tables.find(|table| table.title.starts_with(title))?;
                let place = table.systems.iter().position(|name| name == system)?;
                let row = table.rows.iter().find(|one| one.name == row)?;
                let number = table.unit.write(row.ours.get(place).copied().flatten()?);
                Some(format!("{title}, {}, {system}: {number}", row.name))
            }
            Number::Count(name, system) => {
                let mut all = findings.happened.iter();
                let happened = all.find(|happened| happened.system == system)?;
                let (_, count) = happened.counts.iter().find(|(other, _)| other == name)?;
                Some(format!("{name}, {system}: {}", written(*count)))
            }
        }
    }
}
