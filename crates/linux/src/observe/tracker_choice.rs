//! Which tracker to use: the one asked for, or else the best that works here.

use std::sync::Arc;

use crate::Error;
use crate::kernel::Kernel;
use crate::observe::tracker::{self, Tracker, TrackerKind};

/// The tracker chosen, and what was found on the way.
pub struct Choice {
    /// It, started; or that none works.
    pub tracker: Result<Box<dyn Tracker>, Error>,
    /// Those that work here, of those tried.
    pub available: Vec<TrackerKind>,
    /// Those that do not, each with what is missing.
    pub unavailable: Vec<(TrackerKind, String)>,
}

/// Starts the tracker `wanted`, or else tries all and keeps the best that works here.
#[must_use]
pub fn choose(kernel: &Arc<dyn Kernel>, wanted: Option<TrackerKind>) -> Choice {
    let mut chosen = None;
    let mut available = Vec::new();
    let mut unavailable = Vec::new();
    let candidates = TrackerKind::ALL
        .into_iter()
        .filter(|&kind| wanted.is_none_or(|wanted| wanted == kind));
    for kind in candidates {
        match tracker::open_one(kernel, kind) {
            Ok(tracker) => {
                available.push(kind);
                chosen.get_or_insert(tracker);
            }
            Err(error) => unavailable.push((kind, error.to_string())),
        }
    }
    Choice {
        tracker: chosen.ok_or_else(|| none(wanted, &unavailable)),
        available,
        unavailable,
    }
}

fn none(wanted: Option<TrackerKind>, unavailable: &[(TrackerKind, String)]) -> Error {
    let feature = match wanted {
        Some(kind) => format!("the {kind} tracker"),
        None => "a way to see what a process has mapped".to_owned(),
    };
    let reasons: Vec<&str> = unavailable
        .iter()
        .map(|(_, reason)| reason.as_str())
        .collect();
    Error::Missing {
        feature,
        remedy: reasons.join("; "),
    }
}
