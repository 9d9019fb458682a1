//! Measurements of [`super::trident_tables`] beside the paper's numbers.

use std::fmt::Write;

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
        write!(text, "{state:<24}")?;
        for mechanism in MECHANISMS {
            write!(text, "{mechanism:>17}")?;
        }
        writeln!(text)?;
        for shape in Shape::ALL {
            write!(text, "{:<24}", shape.name())?;
            for mechanism in MECHANISMS {
                let case = find(measurements, mechanism, shape, fragmented);
                write!(text, "{:>17}", case.map_or("-".to_owned(), mapped_here))?;
            }
            writeln!(text)?;
            for program in of_shape(shape) {
                let there = if fragmented {
                    program.fragmented
                } else {
                    program.unfragmented
                };
                write!(text, "{:<24}", format!("  paper: {}", program.name))?;
                for mapped in there {
                    write!(text, "{:>17}", mapped_there(program, mapped))?;
                }
                writeln!(text, "{:>17}", "-")?;
            }
        }
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
    writeln!(
        text,
        "{:<24}{:>17}{:>17}{:>17}{:>17}",
        "", "fault", "promotion, nc", "promotion", "FMFI"
    )?;
    for fragmented in [false, true] {
        writeln!(
            text,
            "{}",
            if fragmented {
                "fragmented"
            } else {
                "unfragmented"
            }
        )?;
        for shape in Shape::ALL {
            let smart = find(measurements, SMART, shape, fragmented);
            let sequential = find(measurements, SEQUENTIAL, shape, fragmented);
            let fault = smart.map(|case| share(case.counts.fell_back, case.counts.faulted));
            let promotion = |case: &Case| share(case.refused, case.promoted);
            let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            writeln!(
                text,
                "{:<24}{:>17}{:>17}{:>17}{:>17}",
                format!("  {}", shape.name()),
                cell(fault),
                cell(sequential.map(promotion)),
                cell(smart.map(promotion)),
                cell(smart.map(|case| format!("{:.3}", case.fmfi))),
            )?;
            if fragmented {
                for program in of_shape(shape) {
                    let (fault, promotion) = program.failed;
                    let fault = fault.map_or("NA".to_owned(), |percent| format!("{percent:.0} %"));
                    let name = format!("    paper: {}", program.name);
                    writeln!(
                        text,
                        "{name:<24}{fault:>17}{:>17}{:>17}{:>17}",
                        "-",
                        format!("{promotion:.0} %"),
                        "0.95"
                    )?;
                }
            }
        }
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
    writeln!(
        text,
        "{:<24}{:>17}{:>17}{:>17}{:>17}",
        "", "chunks emptied", "not emptied", "pages moved", "moved/emptied"
    )?;
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
        writeln!(
            text,
            "{mechanism:<24}{emptied:>17}{kept:>17}{moved:>17}{each:>17.0}"
        )?;
        per_chunk.push(each);
    }
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
