//! Who manages memory: Linux alone, or Linux with one of mega's policies.
//!
//! The papers' policies run as their papers have them: every 5 s, and without budgets. `adaptive` runs as `mega run` has it: at
//! the interval that the programs ask for, within the default budgets, and with compaction where promotions lacked blocks.

use std::time::Duration;

use mega_core::compaction::{self, CompactionPolicy};
use mega_core::engine::{Budgets, Engine, Interval};
use mega_core::promotion::{self, Parameters};
use mega_sim::Settings;
use mega_sim::kernel::{ChunkChoice, KhugepagedSettings, Thp};

use super::numbers::number;
use crate::error::Error;

/// Which pages faults take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    Base,
    Huge,
    Giant,
    /// Giant pages where one fits, otherwise base pages.
    GiantOnly,
}

/// When memory is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// In each period, by as much as the policy's budget allows, as the papers have it.
    Periodically,
    /// Where promotions lacked blocks, as mega does it.
    OnDemand,
}

/// A compaction policy, and when it is at work.
pub(super) type Scheduled = (Box<dyn CompactionPolicy>, When);

/// A system.
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    faults: Faults,
    khugepaged: bool,
    policy: Option<&'static str>,
    compaction: Option<(&'static str, When)>,
    giant_pages: bool,
    chunk_choice: ChunkChoice,
    /// Whether the hypervisor exchanges memory where a guest's kernel would copy huge pages for giant ones.
    exchanges: bool,
    /// The share of a core that a policy of the papers may use.
    cpu_share: f64,
}

/// Linux with base pages only.
pub(super) const BASE: System = System {
    name: "base",
    faults: Faults::Base,
    khugepaged: false,
    policy: None,
    compaction: None,
    giant_pages: false,
    chunk_choice: ChunkChoice::LeastOccupied,
    exchanges: false,
    cpu_share: 1.0,
};

/// Linux with THP always, and khugepaged's defaults.
pub(super) const THP: System = System {
    name: "thp",
    faults: Faults::Huge,
    khugepaged: true,
    ..BASE
};

/// Ingens: its promotion, and its compaction of what lies lowest.
pub(super) const INGENS: System = System {
    name: "ingens",
    policy: Some("ingens"),
    compaction: Some(("ingens", When::Periodically)),
    ..BASE
};

/// MEGA: its promotion and its compaction.
pub(super) const MEGA: System = System {
    name: "mega",
    policy: Some("mega"),
    compaction: Some(("mega", When::Periodically)),
    ..BASE
};

/// `HawkEye`: huge pages at faults where blocks are free, and its promotion.
pub(super) const HAWKEYE: System = System {
    name: "hawkeye",
    faults: Faults::Huge,
    policy: Some("hawkeye"),
    ..BASE
};

/// Trident: giant pages at faults where chunks are free, and its promotion.
pub(super) const TRIDENT: System = System {
    name: "trident",
    faults: Faults::Giant,
    policy: Some("trident"),
    giant_pages: true,
    ..BASE
};

/// Trident's faults, without promotion.
pub(super) const TRIDENT_FAULTS: System = System {
    name: "fault-only",
    policy: None,
    ..TRIDENT
};

/// Trident with Linux's compaction: one chunk after the other.
pub(super) const TRIDENT_NC: System = System {
    name: "trident-nc",
    policy: Some("trident-nc"),
    chunk_choice: ChunkChoice::Sequential,
    ..TRIDENT
};

/// Trident without huge pages.
pub(super) const TRIDENT_1G_ONLY: System = System {
    name: "trident-1g-only",
    faults: Faults::GiantOnly,
    policy: Some("trident-1g-only"),
    ..TRIDENT
};

/// Trident in a guest that lets promotion use a tenth of a core (section 7, "Performance with Trident-PV").
pub(super) const TRIDENT_TENTH: System = System {
    cpu_share: 0.1,
    ..TRIDENT
};

/// The same where the hypervisor exchanges memory.
pub(super) const TRIDENT_PV: System = System {
    name: "trident-pv",
    exchanges: true,
    ..TRIDENT_TENTH
};

/// mega's own policy on a stock kernel with the module.
pub(super) const ADAPTIVE: System = System {
    name: "adaptive",
    policy: Some("adaptive"),
    compaction: Some(("mega", When::OnDemand)),
    ..BASE
};

/// The same where faults take huge pages, as under THP always.
pub(super) const ADAPTIVE_HUGE: System = System {
    faults: Faults::Huge,
    ..ADAPTIVE
};

/// Ingens's where faults take huge pages.
pub(super) const INGENS_HUGE: System = System {
    faults: Faults::Huge,
    ..INGENS
};

/// MEGA's where faults take huge pages.
pub(super) const MEGA_HUGE: System = System {
    faults: Faults::Huge,
    ..MEGA
};

/// mega's own policy on the patched kernel.
pub(super) const ADAPTIVE_GIANT: System = System {
    giant_pages: true,
    ..ADAPTIVE
};

/// No manager and no promotion, for what compares compaction only.
pub(super) const fn compacting(name: &'static str, policy: Option<&'static str>) -> System {
    System {
        name,
        compaction: match policy {
            Some(policy) => Some((policy, When::Periodically)),
            None => None,
        },
        ..BASE
    }
}

impl System {
    /// What the kernel is set to.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            thp: match self.faults {
                Faults::Base => Thp::Madvise,
                Faults::Huge | Faults::Giant | Faults::GiantOnly => Thp::Always,
            },
            huge_faults: self.faults != Faults::GiantOnly,
            giant_faults: self.takes_giant(),
            giant_pages: self.giant_pages,
            chunk_choice: self.chunk_choice,
            zeroes_ahead: self.takes_giant(),
            exchanges: self.exchanges,
            ..Settings::default()
        }
    }

    /// Whether faults take giant pages.
    fn takes_giant(&self) -> bool {
        matches!(self.faults, Faults::Giant | Faults::GiantOnly)
    }

    /// khugepaged, where it runs.
    pub(super) fn khugepaged(&self) -> Option<KhugepagedSettings> {
        self.khugepaged.then(KhugepagedSettings::default)
    }

    /// The manager, where there is one.
    pub(super) fn engine(&self) -> Result<Option<Engine>, Error> {
        let Some(name) = self.policy else {
            return Ok(None);
        };
        let policy = promotion::build(name, &Parameters::new())
            .map_err(|error| Error::Failed(error.to_string()))?;
        let (budgets, interval) = if name == promotion::DEFAULT_POLICY {
            (Budgets::default(), Interval::Auto)
        } else {
            (bounded_by(self.cpu_share), Interval::Fixed(Interval::EQUAL))
        };
        Ok(Some(Engine::new(policy, budgets, interval)))
    }

    /// Whether its policy asks what a process would gain: then it runs on a calibrated machine, as `mega run` should.
    pub(super) fn asks_what_is_gained(&self) -> bool {
        self.policy == Some(promotion::DEFAULT_POLICY)
    }

    /// The compaction, its budget as many times smaller as memory is smaller than that of the paper's machine.
    pub(super) fn compaction(&self, parts: u64) -> Result<Option<Scheduled>, Error> {
        let Some((name, when)) = self.compaction else {
            return Ok(None);
        };
        let policy = compaction::build(name, &budget(name, parts))
            .map_err(|error| Error::Failed(error.to_string()))?;
        Ok(Some((policy, when)))
    }
}

/// The papers' systems bound nothing but, where one says so, the CPU time.
fn bounded_by(cpu_share: f64) -> Budgets {
    Budgets {
        cpu_share,
        copy_bytes_per_second: 1 << 50,
        standstill: 1.0,
    }
}

/// A part of the policy's default budget: whole MiB, one at least. What has no budget gets none.
fn budget(name: &str, parts: u64) -> Parameters {
    let registry = compaction::registry().iter();
    let parameters = registry
        .filter(|info| info.name == name)
        .flat_map(|info| info.parameters);
    parameters
        .filter(|parameter| parameter.name == "budget")
        .map(|parameter| {
            let part = (parameter.default / number(parts.max(1))).floor().max(1.0);
            (parameter.name.to_owned(), part)
        })
        .collect()
}

/// What a machine without a manager rests for at a time.
pub(super) const PERIOD: Duration = Interval::EQUAL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_can_be_built() {
        for system in [
            BASE,
            THP,
            INGENS,
            MEGA,
            HAWKEYE,
            TRIDENT,
            TRIDENT_FAULTS,
            TRIDENT_NC,
            TRIDENT_1G_ONLY,
            TRIDENT_PV,
            ADAPTIVE,
            ADAPTIVE_GIANT,
            compacting("linux", Some("linux")),
            compacting("trident", Some("trident")),
        ] {
            let engine = system.engine().unwrap();
            assert_eq!(
                engine.map(|engine| engine.policy_name()),
                system.policy,
                "{}",
                system.name
            );
            let compaction = system.compaction(7).unwrap();
            assert_eq!(compaction.is_some(), system.compaction.is_some());
        }
    }

    #[test]
    fn budgets_shrink_with_memory() {
        let pages = |parts| {
            let (policy, _) = MEGA.compaction(parts).unwrap().unwrap();
            policy.budget_pages()
        };
        assert_eq!(pages(1), 200 * 256);
        assert_eq!(pages(4), 50 * 256);
        assert_eq!(pages(1000), 256);
    }
}
