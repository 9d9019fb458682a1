//! How an experiment was run, for people.

use mega_core::bytes;

use crate::live::experiments;
use crate::live::results::{Results, Settings};

/// In one line, with what the tables show.
pub(super) fn line(results: &Results) -> String {
    let settings = &results.settings;
    let rounds = match settings.rounds {
        1 => "one round".to_owned(),
        rounds => format!("medians of {rounds} rounds"),
    };
    let turns = if settings.in_turns {
        "; in each, all modes' programs existed at once and took turns"
    } else {
        ""
    };
    let manager = if is_by_defaults(results) {
        "the manager has its defaults".to_owned()
    } else {
        format!(
            "the manager looks every {:.0} ms",
            settings.interval_seconds * 1000.0
        )
    };
    format!(
        "{}; {rounds} of {} s{turns}; {manager}; in brackets the ratio to base",
        bytes::format(settings.size_bytes),
        settings.measured_seconds,
    )
}

/// The command that repeats it.
pub(super) fn command(results: &Results) -> String {
    let Settings {
        size_bytes,
        rounds,
        measured_seconds,
        interval_seconds,
        in_turns: _,
    } = results.settings;
    let usual = experiments::find(&results.experiment).map(|experiment| (experiment.modes)());
    let modes: Vec<String> = match usual {
        Some(usual) if usual == results.modes => Vec::new(),
        _ => results
            .modes
            .iter()
            .map(|mode| format!(" --mode {mode}"))
            .collect(),
    };
    let interval = if is_by_defaults(results) {
        String::new()
    } else {
        format!(" --interval {interval_seconds}")
    };
    format!(
        "mega lab live {} --size {} --rounds {rounds} --seconds {measured_seconds}{interval}{}",
        results.experiment,
        argument(size_bytes),
        modes.concat()
    )
}

fn is_by_defaults(results: &Results) -> bool {
    experiments::find(&results.experiment).is_some_and(|experiment| experiment.by_defaults)
}

/// A number of bytes as [`bytes::parse`] reads exactly it.
fn argument(size: u64) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if size > 0 && size.is_multiple_of(factor) {
            return format!("{}{unit}", size / factor);
        }
    }
    size.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn the_command_repeats_the_settings() {
        assert_eq!(
            command(&example::three_rounds()),
            "mega lab live gups --size 512MiB --rounds 3 --seconds 3 --interval 0.2"
        );
    }

    #[test]
    fn the_line_says_which_way_it_was() {
        let mut results = example::three_rounds();
        assert_eq!(
            line(&results),
            "512 MiB; medians of 3 rounds of 3 s; in each, all modes' programs existed at once and took turns; the \
             manager looks every 200 ms; in brackets the ratio to base"
        );
        results.settings.in_turns = false;
        assert!(line(&results).contains("3 rounds of 3 s; the manager looks"));
        results.experiment = "busy".to_owned();
        assert!(line(&results).contains("the manager has its defaults"));
        assert!(!command(&results).contains("--interval"));
    }

    proptest::proptest! {
        #[test]
        fn a_size_reads_as_it_is_written(size: u64, shift in 0..40u32) {
            let size = size >> shift << shift;
            proptest::prop_assert_eq!(bytes::parse(&argument(size)), Ok(size));
        }
    }
}
