//! How far the demo is, on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::plan::Plan;

/// How far the demo is.
pub(super) struct Progress {
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    /// Shows nothing yet but how long it will take.
    pub(super) fn new(plan: &Plan) -> Self {
        let total = Duration::from_secs_f64(plan.total_seconds());
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
            // A template that does not parse would leave the default bar, which does as well.
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        if bar.is_none() {
            eprintln!(
                "mega demo: it takes about {:.0} seconds",
                total.as_secs_f64()
            );
        }
        Progress {
            bar,
            started: Instant::now(),
        }
    }

    /// Says what is being done now.
    pub(super) fn step(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("mega demo: {what}"),
        }
        self.tick();
    }

    /// Lets time show.
    pub(super) fn tick(&self) {
        if let Some(bar) = &self.bar {
            let passed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let all = bar.length().unwrap_or(passed);
            // The plan is an estimate: the end is shown when it is reached, not before.
            bar.set_position(passed.min(all.saturating_sub(1)));
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
