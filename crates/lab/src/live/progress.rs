//! How far the experiments are, on standard error: a bar on a terminal, plain lines elsewhere.

use std::fmt::Display;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// How far the experiments are.
pub(super) struct Progress {
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// The number of steps in all.
    pub(super) fn new(steps: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps);
            let template = "{bar:30} {pos:>3} of {len} steps, {eta} left  {msg}";
            // A template that does not parse would leave the default bar, which does as well.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(500));
            bar
        });
        Progress { bar }
    }

    /// Says which step begins: a mode, or what else there is in a round.
    pub(super) fn step(&self, experiment: &str, round: u32, rounds: u32, what: &dyn Display) {
        let text = format!("{experiment}: round {round} of {rounds}, {what}");
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => eprintln!("mega lab: {text}"),
        }
    }

    /// One step is over.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
