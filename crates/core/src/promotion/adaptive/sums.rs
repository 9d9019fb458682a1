//! One process added up.

use crate::observation::RegionObservation;
use crate::page::{BASE_PAGE_SIZE, PAGES_PER_REGION, PageSize};

use super::state::State;

/// One process added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Translations of its working set.
    pub(super) translations: f64,
    /// Base pages in use, outside huge ones.
    pub(super) base_pages: f64,
    /// Huge pages in use, outside giant ones.
    pub(super) huge_in_use: f64,
    resident_bytes: u64,
    /// Base pages that promotions added.
    added: u64,
}

impl Sums {
    pub(super) fn add(&mut self, region: &RegionObservation, state: &State) {
        self.translations += state.translations();
        self.resident_bytes += region.resident_bytes();
        self.added += u64::from(state.bloat());
        match region.page_size {
            PageSize::Base => self.base_pages += state.used(),
            PageSize::Huge => self.huge_in_use += state.translations(),
            PageSize::Giant => {}
        }
    }

    /// Base pages in use, at most: of a huge page nobody knows how many.
    pub(super) fn pages_in_use(&self) -> f64 {
        self.base_pages + self.huge_in_use * f64::from(PAGES_PER_REGION)
    }

    /// Bytes that promotions may still add to the process: what is `allowed`, as a share of what is resident, less what they
    /// added already.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub(super) fn bloat_left(&self, allowed: f64) -> u64 {
        let allowed = (self.resident_bytes as f64 * allowed) as u64;
        allowed.saturating_sub(self.added * BASE_PAGE_SIZE)
    }
}
