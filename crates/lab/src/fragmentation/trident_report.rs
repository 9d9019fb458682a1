//! Measurements of [`super::trident_tables`] beside the paper's numbers.

use std::fmt::Write;

use mega_core::table::Table;

use super::shape::Shape;
use super::trident_paper::{Mapped, PROGRAMS, PaperProgram};
use super::trident_tables::{Case, MECHANISMS, Measurement};

/// The mechanisms whose compaction is compared.
const SEQUENTIAL: &str = "trident-nc";
const SMART: &str = "trident";

/// All three tables.
pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = mapped(&mut text, measurements);
    let _ = failed(&mut text, measurements);
    let _ = moved(&mut text, measurements);
    text
}

/// Table 3.
fn mapped(text: &mut String, measurements: &[Measurement]) -> std::fmt::Result {
    writeln!(
        text,
        "Trident table 3: memory mapped by 1 GiB pages + by 2 MiB pages, percent of the footprint\n"
    )?;
    for fragmented in [false, true] {
        let state = if fragmented {
            "fragmented"
        } else {
            "unfragmented"
        };
        let headings: Vec<&str> = std::iter::once(state)
            .chain(MECHANISMS.iter().copied())
            .collect();
        let mut table = Table::new(&headings);
        for shape in Shape::ALL {
            let mut row = vec![shape.name().to_owned()];
            row.extend(MECHANISMS.iter().map(|mechanism| {
                let case = find(measurements, mechanism, shape, fragmented);
                case.map_or("-".to_owned(), mapped_here)
            }));
            table.row(row);
            for program in of_shape(shape) {
                let there = if fragmented {
                    program.fragmented
                } else {
                    program.unfragmented
                };
                let mut row = vec![format!("  paper: {}", program.name)];
                row.extend(there.map(|mapped| mapped_there(program, mapped)));
                row.push("-".to_owned());
                table.row(row);
            }
        }
        write!(text, "{table}")?;
        writeln!(text)?;
    }
    Ok(())
}

/// Table 4.
fn failed(text: &mut String, measurements: &[Measurement]) -> std::fmt::Result {
    writeln!(
        text,
        "Trident table 4: allocations of 1 GiB that failed, percent of the attempts (how many those were)\n"
    )?;
    for fragmented in [false, true] {
        let state = if fragmented {
            "fragmented"
        } else {
            "unfragmented"
        };
        let mut table = Table::new(&[state, "fault", "promotion, nc", "promotion", "FMFI"]);
        for shape in Shape::ALL {
            let smart = find(measurements, SMART, shape, fragmented);
            let sequential = find(measurements, SEQUENTIAL, shape, fragmented);
            let fault = smart.map(|case| share(case.counts.fell_back, case.counts.faulted));
            let promotion = |case: &Case| share(case.refused, case.promoted);
            let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            table.row([
                shape.name().to_owned(),
                cell(fault),
                cell(sequential.map(promotion)),
                cell(smart.map(promotion)),
                cell(smart.map(|case| format!("{:.3}", case.fmfi))),
            ]);
            // The paper has them for fragmented memory.
            for program in of_shape(shape).filter(|_| fragmented) {
                let (fault, promotion) = program.failed;
                table.row([
                    format!("  paper: {}", program.name),
                    fault.map_or("NA".to_owned(), |percent| format!("{percent:.0} %")),
                    "-".to_owned(),
                    format!("{promotion:.0} %"),
                    "0.95".to_owned(),
                ]);
            }
        }
        write!(text, "{table}")?;
    }
    writeln!(text)
}

/// Figure 7, of what the kernel emptied by itself.
#[allow(clippy::cast_precision_loss)] // counts of pages, far below 2^53
fn moved(text: &mut String, measurements: &[Measurement]) -> std::fmt::Result {
    writeln!(
        text,
        "Trident figure 7: pages that the kernel moved to empty chunks, memory fragmented (the paper: smart compaction \
         copies up\nto 85 % fewer bytes)\n"
    )?;
    let mut table = Table::new(&[
        "",
        "chunks emptied",
        "not emptied",
        "pages moved",
        "moved/emptied",
    ]);
    let mut per_chunk = Vec::new();
    for mechanism in [SEQUENTIAL, SMART] {
        let cases = || {
            let shapes = Shape::ALL.into_iter();
            shapes.filter_map(|shape| find(measurements, mechanism, shape, true))
        };
        let emptied: u64 = cases().map(|case| case.counts.emptied).sum();
        let kept: u64 = cases().map(|case| case.counts.kept).sum();
        let moved: u64 = cases().map(|case| case.counts.moved).sum();
        let each = moved as f64 / emptied.max(1) as f64;
        table.row([
            mechanism.to_owned(),
            emptied.to_string(),
            kept.to_string(),
            moved.to_string(),
            format!("{each:.0}"),
        ]);
        per_chunk.push(each);
    }
    write!(text, "{table}")?;
    if let [sequential, smart] = per_chunk[..]
        && sequential > 0.0
    {
        writeln!(
            text,
            "\nsmart compaction moved {:.0} % fewer pages for each chunk",
            (1.0 - smart / sequential) * 100.0
        )?;
    }
    Ok(())
}

fn find<'a>(
    measurements: &'a [Measurement],
    mechanism: &str,
    shape: Shape,
    fragmented: bool,
) -> Option<&'a Case> {
    let of_mechanism = measurements
        .iter()
        .find(|measurement| measurement.mechanism == mechanism)?;
    of_mechanism
        .cases
        .iter()
        .find(|case| case.shape == shape && case.fragmented == fragmented)
}

fn of_shape(shape: Shape) -> impl Iterator<Item = &'static PaperProgram> {
    PROGRAMS
        .iter()
        .filter(move |program| program.shape == shape)
}

#[allow(clippy::cast_precision_loss)] // bytes of a machine's memory, far below 2^53
fn mapped_here(case: &Case) -> String {
    percents(case.giant as f64, case.huge as f64, case.footprint as f64)
}

fn mapped_there(program: &PaperProgram, (giant, huge): Mapped) -> String {
    percents(giant, huge, program.footprint)
}

fn percents(giant: f64, huge: f64, footprint: f64) -> String {
    let percent = |part: f64| part / footprint.max(1.0) * 100.0;
    format!("{:.0} + {:.0}", percent(giant), percent(huge))
}

/// The failed part of all attempts; NA where there were none.
#[allow(clippy::cast_precision_loss)] // some attempts
fn share(failed: u64, done: u64) -> String {
    match failed + done {
        0 => "NA".to_owned(),
        attempts => format!(
            "{:.0} % ({attempts})",
            failed as f64 / attempts as f64 * 100.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::giant_settings::Counts;
    use super::*;

    fn case(shape: Shape, fragmented: bool, moved: u64) -> Case {
        Case {
            shape,
            fragmented,
            fmfi: 0.95,
            footprint: 1000,
            giant: 920,
            huge: 80,
            promoted: 2,
            refused: 1,
            counts: Counts {
                faulted: 0,
                fell_back: 3,
                emptied: 2,
                kept: 0,
                moved,
            },
        }
    }

    #[test]
    fn each_number_stands_beside_the_papers() {
        let measurement = |mechanism: &str, moved| Measurement {
            mechanism: mechanism.to_owned(),
            cases: vec![case(Shape::BySteps, true, moved)],
        };
        let text = report(&[measurement(SEQUENTIAL, 200_000), measurement(SMART, 50_000)]);
        let has = |words: &[&str]| {
            text.lines()
                .any(|line| line.split_whitespace().eq(words.iter().copied()))
        };
        assert!(
            has(&["by-steps", "-", "92", "+", "8", "92", "+", "8", "-"]),
            "{text}"
        );
        assert!(
            has(&[
                "paper:", "Redis", "0", "+", "0", "57", "+", "23", "64", "+", "32", "-"
            ]),
            "{text}"
        );
        assert!(
            has(&[
                "by-steps", "100", "%", "(3)", "33", "%", "(3)", "33", "%", "(3)", "0.950"
            ]),
            "{text}"
        );
        assert!(text.contains("moved 75 % fewer pages"), "{text}");
    }
}
