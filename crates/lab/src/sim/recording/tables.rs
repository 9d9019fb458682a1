//! What recordings came to under each system, as tables.

use super::beside::Beside;
use super::file::Recorded;
use super::running::{Run, Seen, SeenBeside};
use crate::live::metric::{Better, Unit};
use crate::sim::findings::{Row, Table};
use crate::sim::numbers::{number, share};
use crate::sim::system::System;

/// Of the runs under some systems, in their order.
pub(super) fn tables(
    systems: &[System],
    runs: &[Run],
    recorded: &[Recorded],
    beside: &[Beside],
) -> Vec<Table> {
    let names = named(recorded, beside);
    let (of_recorded, of_beside) = names.split_at(recorded.len());
    let table = |title: &str, unit, better, rows| {
        let systems = systems.iter().map(|system| system.name.to_owned());
        Table::new(title, unit, systems.collect(), rows).better(better)
    };
    let each = |value: &dyn Fn(&Seen, &Recorded) -> Option<f64>| -> Vec<Row> {
        let rows = of_recorded.iter().zip(recorded).enumerate();
        rows.map(|(place, (name, one))| {
            Row::ours(
                name,
                runs.iter()
                    .map(|run| value(&run.recorded[place], one))
                    .collect(),
            )
        })
        .collect()
    };
    let each_beside = |value: &dyn Fn(&SeenBeside) -> Option<f64>| -> Vec<Row> {
        let rows = of_beside.iter().enumerate();
        rows.map(|(place, name)| {
            Row::ours(
                name,
                runs.iter().map(|run| value(&run.beside[place])).collect(),
            )
        })
        .collect()
    };
    let all = |name: &str, value: &dyn Fn(&Run) -> f64| {
        vec![Row::ours(
            name,
            runs.iter().map(|run| Some(value(run))).collect(),
        )]
    };
    let mut tables = vec![
        table(
            "CPU time",
            Unit::Seconds,
            Better::Lower,
            each(&|seen, _| Some(seen.cpu)),
        ),
        table(
            "time of translation, as far as touches were measured",
            Unit::Seconds,
            Better::Lower,
            each(&|seen, one| one.touches_measured().then_some(seen.translation)),
        ),
        table(
            "how late it is in the end",
            Unit::Seconds,
            Better::Lower,
            each(&|seen, _| seen.late),
        ),
        table(
            "time that it stood still for promotions",
            Unit::Seconds,
            Better::Lower,
            each(&|seen, _| Some(seen.stood)),
        ),
    ];
    let mut large = each(&|seen, _| Some(share(seen.mapped.large, seen.mapped.resident)));
    large.extend(each_beside(&|seen| {
        Some(share(seen.mapped.large, seen.mapped.resident))
    }));
    tables.push(table(
        "part of its memory in huge and giant pages, without what is blind",
        Unit::Share,
        Better::Neither,
        large,
    ));
    tables.push(table(
        "resident memory, without what is blind",
        Unit::Bytes,
        Better::Lower,
        each(&|seen, _| seen.mapped.mean()),
    ));
    let speeds: Vec<Row> = each_beside(&|seen| seen.speed);
    let counted: Vec<Row> = speeds
        .into_iter()
        .zip(beside)
        .filter_map(|(row, one)| one.is_counted().then_some(row))
        .collect();
    if !counted.is_empty() {
        tables.push(table(
            "operations a second",
            Unit::PerSecond,
            Better::Higher,
            counted,
        ));
    }
    tables.push(table(
        "CPU time of the manager, of one core",
        Unit::Share,
        Better::Lower,
        all("all", &|run| run.manager),
    ));
    tables.push(table(
        "free memory in blocks at the end",
        Unit::Bytes,
        Better::Higher,
        all("the machine", &|run| number(run.free_in_blocks)),
    ));
    tables.push(table(
        "blind, as a part of what it had when it was recorded",
        Unit::Share,
        Better::Neither,
        each(&|_, one| Some(one.blind())),
    ));
    tables
}

/// What each is called: those of the same name have numbers.
fn named(recorded: &[Recorded], beside: &[Beside]) -> Vec<String> {
    let names = recorded.iter().map(|one| one.name.clone());
    let names: Vec<String> = names
        .chain(beside.iter().map(|one| one.name().to_owned()))
        .collect();
    let is_many = |name: &String| names.iter().filter(|one| *one == name).count() > 1;
    let numbered = names.iter().enumerate().map(|(place, name)| {
        if !is_many(name) {
            return name.clone();
        }
        let before = names[..place].iter().filter(|one| *one == name).count();
        format!("{name} {}", before + 1)
    });
    numbered.collect()
}
