//! What came of actions by hand: `mega promote --json` and `mega demote --json`.

use std::collections::BTreeMap;

use mega_core::{ActionKind, Outcome};
use serde::Serialize;

use super::{ExchangeReport, HostPage};

/// The words for one kind of action.
pub(crate) struct Words {
    /// What mega is doing.
    pub(crate) verb: &'static str,
    /// Several such actions.
    pub(crate) plural: &'static str,
    /// What a region or a span was, when it is done.
    pub(crate) done: &'static str,
    /// What it is where nothing had to be done.
    pub(crate) already_so: &'static str,
    /// What a dry run leaves out.
    pub(crate) would_be: &'static str,
}

/// The words for a kind of action.
pub(crate) const fn words(kind: ActionKind) -> Words {
    match kind {
        ActionKind::Promote => Words {
            verb: "promoting",
            plural: "promotions",
            done: "promoted",
            already_so: "huge already",
            would_be: "would be promoted",
        },
        ActionKind::Demote => Words {
            verb: "demoting",
            plural: "demotions",
            done: "demoted",
            already_so: "base pages already",
            would_be: "would be demoted",
        },
        ActionKind::PromoteGiant => Words {
            verb: "promoting",
            plural: "promotions to giant pages",
            done: "promoted",
            already_so: "giant already",
            would_be: "would be promoted",
        },
        ActionKind::DemoteGiant => Words {
            verb: "demoting",
            plural: "demotions of giant pages",
            done: "demoted",
            already_so: "huge pages already",
            would_be: "would be demoted",
        },
        ActionKind::FreeZero => Words {
            verb: "searching",
            plural: "searches for zero-filled huge pages",
            done: "relieved",
            already_so: "with nothing to give back",
            would_be: "would be searched",
        },
    }
}

/// What `mega promote --json` and `mega demote --json` print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ActionReport {
    pub(crate) version: u32,
    pub(crate) pid: u32,
    /// `promote` or `demote`; `promote_giant`, `demote_giant` or `free_zero` of spans.
    pub(crate) action: ActionKind,
    /// Regions that were asked for, or spans.
    pub(crate) regions: u64,
    /// Changed, and seen to be so.
    pub(crate) done: u64,
    pub(crate) already_so: u64,
    /// Without a page: there is nothing to change.
    pub(crate) empty: u64,
    /// By cause.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Left alone by a dry run.
    pub(crate) not_tried: u64,
    /// Bytes resident in the changed regions, or in spans that gave something back, before.
    pub(crate) resident_before: u64,
    /// And after.
    pub(crate) resident_after: u64,
    /// Bytes that were copied to make giant pages.
    pub(crate) copied: u64,
    /// Bytes that the host exchanged for it instead.
    pub(crate) exchanged: u64,
    /// What came of all exchanges of the machine meanwhile; `null` where no host offers them.
    pub(crate) exchange: Option<ExchangeReport>,
    /// By which pages the host maps these; `null` where the machine is no guest.
    pub(crate) host_page: Option<HostPage>,
}

impl ActionReport {
    pub(crate) fn new(version: u32, pid: u32, action: ActionKind) -> Self {
        ActionReport {
            version,
            pid,
            action,
            regions: 0,
            done: 0,
            already_so: 0,
            empty: 0,
            failures: BTreeMap::new(),
            not_tried: 0,
            resident_before: 0,
            resident_after: 0,
            copied: 0,
            exchanged: 0,
            exchange: None,
            host_page: None,
        }
    }

    /// Counts regions without a page.
    pub(crate) fn record_empty(&mut self, regions: u64) {
        self.regions += regions;
        self.empty += regions;
    }

    /// Counts what came of one action.
    pub(crate) fn record(&mut self, outcome: Outcome) {
        self.regions += 1;
        match outcome {
            Outcome::Done {
                resident_before,
                resident_after,
            } => {
                self.done += 1;
                self.resident_before += resident_before;
                self.resident_after += resident_after;
            }
            Outcome::Remapped { copied, exchanged } => {
                self.done += 1;
                self.copied += copied;
                self.exchanged += exchanged;
            }
            Outcome::AlreadySo => self.already_so += 1,
            Outcome::Failed(cause) => {
                *self.failures.entry(cause.name().to_owned()).or_default() += 1;
            }
            Outcome::NotTried => self.not_tried += 1,
        }
    }
}
