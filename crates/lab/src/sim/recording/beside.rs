//! Programs that run beside recordings, until these are through.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use mega_core::{HUGE_PAGE_SIZE, bytes};
use mega_sim::kernel::Pid;

use crate::sim::programs::{Churn, Done, Operations, Pattern, Resident};
use crate::sim::testbed::Testbed;

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1 << 32);
/// Of a sparse program, one chunk of so many bytes in so many is used.
const CHUNK: u64 = 64 << 10;
const EVERY: usize = 8;

/// Each operation that is done stands for so many, as in Trident's figures: minutes of them would take hours otherwise.
const STANDS_FOR: u64 = 16;

/// What a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cache,
    Graph,
    Updates,
    Idle,
    Churn,
    Sparse,
    Strides,
}

const KINDS: [(&str, Kind); 7] = [
    ("cache", Kind::Cache),
    ("graph", Kind::Graph),
    ("updates", Kind::Updates),
    ("idle", Kind::Idle),
    ("churn", Kind::Churn),
    ("sparse", Kind::Sparse),
    ("strides", Kind::Strides),
];

/// A program beside recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    kind: Kind,
    bytes: u64,
}

impl Beside {
    /// Parses a kind and how much memory it has, as `cache:2GiB`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let known = || {
            let names = KINDS.map(|(name, _)| name).join(", ");
            format!("'{text}' is no program; write it as cache:2GiB, with one of {names}")
        };
        let (name, size) = text.split_once(':').ok_or_else(known)?;
        let (_, kind) = KINDS
            .iter()
            .find(|(one, _)| *one == name)
            .ok_or_else(known)?;
        let bytes = bytes::parse(size)?;
        if bytes < HUGE_PAGE_SIZE {
            return Err(format!(
                "'{text}' has too little memory; give it 2MiB at least"
            ));
        }
        Ok(Beside { kind: *kind, bytes })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        let mut names = KINDS.iter().filter(|(_, kind)| *kind == self.kind);
        names.next().map_or("", |(name, _)| name)
    }

    /// Whether it does operations that are counted.
    pub(super) fn is_counted(&self) -> bool {
        matches!(self.kind, Kind::Cache | Kind::Graph | Kind::Updates)
    }

    /// Starts it. What it has done is told, where that is counted.
    pub(super) fn start(&self, bed: &mut Testbed, seed: u64) -> (Pid, Option<Rc<RefCell<Done>>>) {
        let bytes = self.bytes;
        let operations = |bed: &mut Testbed, piece, pattern, nanoseconds| {
            let costs = *bed.machine.kernel().costs();
            let work = costs.cycles(Duration::from_nanos(nanoseconds));
            let program = Operations::new(bytes, piece, pattern, (u64::MAX, work), seed);
            let (program, done) = program.standing_for(STANDS_FOR).telling();
            (bed.start(program), Some(done))
        };
        match self.kind {
            Kind::Cache => operations(bed, HUGE_PAGE_SIZE, Pattern::KeyValues, 300),
            Kind::Graph => operations(bed, u64::MAX / 2, Pattern::Search, 100),
            Kind::Updates => operations(bed, bytes, Pattern::Gups, 0),
            Kind::Idle => (bed.start(Resident::new(bytes, bytes, FOREVER)), None),
            Kind::Churn => (bed.start(Churn::new(bytes, u32::MAX)), None),
            Kind::Sparse => (bed.start(Resident::sparse(bytes, CHUNK, EVERY)), None),
            Kind::Strides => (bed.start(Resident::strides(bytes)), None),
        }
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_sizes_are_read() {
        let cache = Beside::parse("cache:2GiB").unwrap();
        assert_eq!((cache.name(), cache.bytes()), ("cache", 2 << 30));
        assert_eq!(Beside::parse(&cache.to_string()), Ok(cache));
        for wrong in ["cache", "cash:2GiB", "cache:2", "cache:many"] {
            assert!(Beside::parse(wrong).is_err(), "{wrong}");
        }
    }
}
