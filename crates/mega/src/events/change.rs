//! What can change, in JSON and in words. `docs/interfaces.md` describes the fields.

use std::collections::BTreeMap;

use mega_core::{ProcessId, bytes};
use serde::{Deserialize, Serialize};

/// The longest reason that is kept, in bytes: it bounds what the log holds.
const LONGEST: usize = 400;

/// Something that changed, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Counts the events of a manager from 1.
    pub(crate) sequence: u64,
    /// In seconds since 1970.
    pub(crate) time: f64,
    #[serde(flatten)]
    pub(crate) change: Change,
}

/// A process of a selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Who {
    /// The selection; `run` for `mega run`.
    pub(crate) selection: String,
    pub(crate) pid: u32,
    /// In clock ticks since boot.
    pub(crate) start_time: u64,
    /// The command's name, up to 15 bytes; empty where the process has ended.
    pub(crate) name: String,
}

impl Who {
    pub(crate) fn new(selection: &str, process: ProcessId, name: String) -> Self {
        Who {
            selection: selection.to_owned(),
            pid: process.pid,
            start_time: process.start_time,
            name,
        }
    }
}

/// How far a promised coverage is reached. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fulfilment {
    /// The part that is to be in huge pages, 0 to 1.
    pub(crate) promised: f64,
    /// The part that is, 0 to 1.
    pub(crate) coverage: f64,
    /// What has a physical page, in regions that huge pages can map.
    pub(crate) mapped: u64,
    /// Of that, in huge or giant pages.
    pub(crate) huge: u64,
    /// The rest, by what is in the way, as in `mega coverage`; only what the region itself shows.
    pub(crate) rest: BTreeMap<String, u64>,
    /// Why the last action on the process that failed did so; `null` where none failed.
    pub(crate) last_failure: Option<String>,
    /// Free blocks of 2 MiB on the machine.
    pub(crate) free_blocks: u64,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Change {
    /// A process has as much in huge pages as is promised.
    CoverageKept {
        #[serde(flatten)]
        who: Who,
        #[serde(flatten)]
        fulfilment: Fulfilment,
    },
    /// A process has had less for some seconds.
    CoverageBroken {
        #[serde(flatten)]
        who: Who,
        #[serde(flatten)]
        fulfilment: Fulfilment,
    },
    /// A process belongs to a selection from now on.
    ProcessManaged {
        #[serde(flatten)]
        who: Who,
    },
    /// A process has ended, or belongs to the selection no longer.
    ProcessLeft {
        #[serde(flatten)]
        who: Who,
    },
    /// A process belongs to a selection, and cannot be managed.
    ProcessRefused {
        #[serde(flatten)]
        who: Who,
        why: String,
    },
    /// A new configuration holds.
    Reloaded {
        /// How many selections it has.
        selections: u64,
    },
    /// A new configuration was refused, and the old one stays.
    ReloadRefused { why: String },
    /// Something failed that is tried again, or gone on without.
    Error {
        /// `null` where it concerns all.
        selection: Option<String>,
        why: String,
    },
}

/// How much a change matters, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Debug,
    Info,
    Warning,
    Error,
}

impl Change {
    /// The names of all events.
    pub(crate) const NAMES: [&'static str; 8] = [
        "coverage_kept",
        "coverage_broken",
        "process_managed",
        "process_left",
        "process_refused",
        "reloaded",
        "reload_refused",
        "error",
    ];

    /// The place of its name in [`Change::NAMES`].
    pub(crate) fn index(&self) -> usize {
        match self {
            Change::CoverageKept { .. } => 0,
            Change::CoverageBroken { .. } => 1,
            Change::ProcessManaged { .. } => 2,
            Change::ProcessLeft { .. } => 3,
            Change::ProcessRefused { .. } => 4,
            Change::Reloaded { .. } => 5,
            Change::ReloadRefused { .. } => 6,
            Change::Error { .. } => 7,
        }
    }

    /// Its name in JSON.
    pub(crate) fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// An error of a selection, or of all.
    pub(crate) fn error(selection: Option<&str>, why: &str) -> Self {
        Change::Error {
            selection: selection.map(str::to_owned),
            why: shortened(why),
        }
    }

    /// A process that cannot be managed.
    pub(crate) fn refused(who: Who, why: &str) -> Self {
        Change::ProcessRefused {
            who,
            why: shortened(why),
        }
    }

    /// A configuration that was refused.
    pub(crate) fn reload_refused(why: &str) -> Self {
        Change::ReloadRefused {
            why: shortened(why),
        }
    }

    pub(crate) fn severity(&self) -> Severity {
        match self {
            // On a busy machine processes come and go all the time.
            Change::ProcessManaged { .. } | Change::ProcessLeft { .. } => Severity::Debug,
            Change::CoverageKept { .. } | Change::Reloaded { .. } => Severity::Info,
            Change::CoverageBroken { .. } | Change::ProcessRefused { .. } => Severity::Warning,
            Change::Error { .. } => Severity::Warning,
            Change::ReloadRefused { .. } => Severity::Error,
        }
    }

    /// The process that it is about.
    pub(crate) fn who(&self) -> Option<&Who> {
        match self {
            Change::CoverageKept { who, .. }
            | Change::CoverageBroken { who, .. }
            | Change::ProcessManaged { who }
            | Change::ProcessLeft { who }
            | Change::ProcessRefused { who, .. } => Some(who),
            Change::Reloaded { .. } | Change::ReloadRefused { .. } | Change::Error { .. } => None,
        }
    }

    /// The selection that it is about.
    pub(crate) fn selection(&self) -> Option<&str> {
        match self {
            Change::Error { selection, .. } => selection.as_deref(),
            other => other.who().map(|who| who.selection.as_str()),
        }
    }

    /// How far the promise is reached, where it is about that.
    pub(crate) fn fulfilment(&self) -> Option<&Fulfilment> {
        match self {
            Change::CoverageKept { fulfilment, .. } | Change::CoverageBroken { fulfilment, .. } => {
                Some(fulfilment)
            }
            _ => None,
        }
    }

    /// In one line.
    pub(crate) fn in_words(&self) -> String {
        let of = |who: &Who, what: &str| {
            let Who {
                selection,
                pid,
                name,
                ..
            } = who;
            format!("{selection}: {name} (pid {pid}) {what}")
        };
        match self {
            Change::CoverageKept { who, fulfilment } => {
                of(who, &format!("has {}", fulfilment.in_words()))
            }
            Change::CoverageBroken { who, fulfilment } => {
                let missing = fulfilment.missing_in_words();
                of(who, &format!("has only {}{missing}", fulfilment.in_words()))
            }
            Change::ProcessManaged { who } => of(who, "is managed"),
            Change::ProcessLeft { who } => of(who, "is managed no longer"),
            Change::ProcessRefused { who, why } => of(who, &format!("is not managed: {why}")),
            Change::Reloaded { selections } => {
                format!("reloaded: managing {selections} selections")
            }
            Change::ReloadRefused { why } => {
                format!("not reloaded, the old configuration stays: {why}")
            }
            Change::Error {
                selection: Some(selection),
                why,
            } => format!("{selection}: {why}"),
            Change::Error {
                selection: None,
                why,
            } => why.clone(),
        }
    }
}

impl Fulfilment {
    fn in_words(&self) -> String {
        // Rounded down: what is written as reached is reached.
        let percent = |part: f64| (part * 1000.0 + 1e-9).floor() / 10.0;
        format!(
            "{} % in huge pages, {} % are promised",
            percent(self.coverage),
            percent(self.promised)
        )
    }

    /// What is missing and why, after a colon.
    fn missing_in_words(&self) -> String {
        let mut words: Vec<String> = self
            .rest
            .iter()
            .map(|(obstacle, size)| {
                let why = match obstacle.as_str() {
                    "none" => "with nothing in the way",
                    "partly_mapped" => "mapped in part",
                    "swapped" => "partly in swap",
                    other => other,
                };
                format!("{} {why}", bytes::format(*size))
            })
            .collect();
        if let Some(cause) = &self.last_failure {
            words.push(format!("last failure: {}", cause.replace('_', " ")));
        }
        words.push(format!("{} free blocks", self.free_blocks));
        format!(": {}", words.join(", "))
    }
}

/// The beginning of a reason.
fn shortened(why: &str) -> String {
    let Some((end, _)) = why.char_indices().find(|&(at, _)| at >= LONGEST) else {
        return why.to_owned();
    };
    format!("{}...", &why[..end])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::events) fn who() -> Who {
        let process = ProcessId {
            pid: 7,
            start_time: 9,
        };
        Who::new("guests", process, "qemu".to_owned())
    }

    fn fulfilment() -> Fulfilment {
        Fulfilment {
            promised: 0.95,
            coverage: 0.8125,
            mapped: 32 << 21,
            huge: 26 << 21,
            rest: BTreeMap::from([
                ("none".to_owned(), 4 << 21),
                ("swapped".to_owned(), 2 << 21),
            ]),
            last_failure: Some("no_memory".to_owned()),
            free_blocks: 3,
        }
    }

    /// One of each, in the order of the names.
    fn all() -> [Change; 8] {
        let (who, fulfilment) = (who(), fulfilment());
        [
            Change::CoverageKept {
                who: who.clone(),
                fulfilment: fulfilment.clone(),
            },
            Change::CoverageBroken {
                who: who.clone(),
                fulfilment,
            },
            Change::ProcessManaged { who: who.clone() },
            Change::ProcessLeft { who: who.clone() },
            Change::refused(who, "it is hidden"),
            Change::Reloaded { selections: 2 },
            Change::reload_refused("no"),
            Change::error(Some("guests"), "no"),
        ]
    }

    #[test]
    fn names_are_as_serialized_and_events_are_read_back() {
        for (index, change) in all().into_iter().enumerate() {
            let event = Event {
                sequence: 3,
                time: 1.5,
                change,
            };
            let json = serde_json::to_value(&event).expect("serializes");
            assert_eq!(json["event"], Change::NAMES[index]);
            assert_eq!(event.change.name(), Change::NAMES[index]);
            assert_eq!(json["sequence"], 3);
            let read: Event = serde_json::from_value(json).expect("it is read");
            assert_eq!(read, event);
        }
    }

    #[test]
    fn a_broken_promise_is_told_with_its_causes() {
        let [_, broken, ..] = all();
        assert_eq!(
            broken.in_words(),
            "guests: qemu (pid 7) has only 81.2 % in huge pages, 95 % are promised: 8 MiB with nothing in the way, 4 MiB partly in swap, last failure: no memory, 3 free blocks"
        );
    }

    #[test]
    fn what_the_log_keeps_of_a_reason_is_bounded() {
        let Change::Error { why, .. } = Change::error(None, &"ä".repeat(5000)) else {
            panic!("an error");
        };
        assert_eq!(why.len(), LONGEST + 3);
    }
}
