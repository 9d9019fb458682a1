//! How much a policy may compact, and the bookkeeping that keeps a selection within it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::block::Unit;
use super::candidate::Candidate;
use super::zone::{PhysicalObservation, ZoneKind};

/// What a selection is for and what it may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Blocks or chunks.
    pub unit: Unit,
    /// How many to empty at most.
    pub count: u64,
    /// Base pages to migrate at most.
    pub pages: u64,
}

/// One block or chunk to empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ToEmpty {
    /// Block or chunk.
    pub unit: Unit,
    /// Its first frame.
    pub first_pfn: u64,
    /// Base pages that are migrated for it.
    pub pages: u32,
    /// Whether it is free afterwards. A policy that looks before it moves has no other targets; those that
    /// scan move pages away from unmovable ones in vain.
    pub empties: bool,
}

/// Why a candidate cannot be taken as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// As many as were asked for are taken.
    Enough,
    /// It has more pages to move than the budget has left.
    OverBudget,
    /// Its node has too little free memory outside what is taken.
    NoRoom,
}

/// A selection being made: what is left of the goal, and of the free memory that takes the pages.
pub(super) struct Selection {
    goal: Goal,
    /// Free base pages per node that are not in a target and that the kernel does not keep for itself.
    room: BTreeMap<u32, u64>,
    targets: Vec<ToEmpty>,
}

impl Selection {
    pub(super) fn new(observation: &PhysicalObservation, goal: &Goal) -> Self {
        let mut room = BTreeMap::new();
        for zone in observation
            .zones
            .iter()
            .filter(|zone| zone.kind != ZoneKind::Dma)
        {
            let free = zone.free_pages().saturating_sub(zone.reserve);
            *room.entry(zone.node).or_default() += free;
        }
        Selection {
            goal: *goal,
            room,
            targets: Vec::new(),
        }
    }

    /// Takes all of `candidate`: its pages are moved and it is free then.
    pub(super) fn take(&mut self, candidate: &Candidate) -> Result<(), Refusal> {
        if self.goal.count == 0 {
            return Err(Refusal::Enough);
        }
        self.charge(candidate, candidate.movable)?;
        self.goal.count -= 1;
        self.push(candidate, candidate.movable, true);
        Ok(())
    }

    /// Moves `pages` of `candidate` without emptying it.
    pub(super) fn take_in_vain(
        &mut self,
        candidate: &Candidate,
        pages: u32,
    ) -> Result<(), Refusal> {
        if self.goal.count == 0 {
            return Err(Refusal::Enough);
        }
        self.charge(candidate, pages)?;
        self.push(candidate, pages, false);
        Ok(())
    }

    pub(super) fn into_targets(self) -> Vec<ToEmpty> {
        self.targets
    }

    fn charge(&mut self, candidate: &Candidate, pages: u32) -> Result<(), Refusal> {
        if u64::from(pages) > self.goal.pages {
            return Err(Refusal::OverBudget);
        }
        // Its own free pages take nothing while it is being emptied.
        let needed = u64::from(pages) + u64::from(candidate.free);
        let room = self.room.entry(candidate.node).or_default();
        *room = room.checked_sub(needed).ok_or(Refusal::NoRoom)?;
        self.goal.pages -= u64::from(pages);
        Ok(())
    }

    fn push(&mut self, candidate: &Candidate, pages: u32, empties: bool) {
        self.targets.push(ToEmpty {
            unit: candidate.unit,
            first_pfn: candidate.first_pfn,
            pages,
            empties,
        });
    }
}
