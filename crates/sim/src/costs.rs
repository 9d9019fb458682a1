//! What things cost, in cycles: one table, each entry with where it comes from.

use std::time::Duration;

/// Nanoseconds in a second.
const NANOSECONDS: u128 = 1_000_000_000;

/// Cycles that each thing takes on one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Cycles in a second.
    pub hertz: u64,
    /// A page fault, without zeroing.
    pub fault: u64,
    /// A page fault that maps a giant page, without zeroing.
    pub giant_fault: u64,
    /// Zeroing a base page. A larger page costs as much for each base page in it.
    pub zero_page: u64,
    /// Copying a base page to another place.
    pub copy_page: u64,
    /// Migrating a base page, beyond the copy: unmapping, TLB shootdown, mapping.
    pub migrate_page: u64,
    /// Looking at a frame while compacting.
    pub scan_frame: u64,
    /// Promoting a region, beyond zeroing and copying.
    pub collapse: u64,
    /// Splitting a huge page.
    pub split: u64,
    /// Mapping a span by a giant page, beyond copying.
    pub map_giant: u64,
    /// Mapping a span by huge pages again.
    pub split_giant: u64,
    /// The hypervisor's exchange of what is behind two huge pages, in a batch of 512.
    pub exchange: u64,
    /// Reading and clearing the Accessed bit of a base page that is mapped.
    pub look_page: u64,
    /// The same for a huge page.
    pub look_huge: u64,
    /// Looking whether a base page holds only zeros.
    pub inspect_page: u64,
}

impl Costs {
    /// MEGA's machine (section 4: Core i7 at 2.3 GHz), and what the paper does not say as it was measured on other machines
    /// of that frequency.
    ///
    /// | entry | time | source |
    /// |---|---|---|
    /// | fault and zeroing | 0.659 us, 0.229 us a page | MEGA, table 2: 0.888 us for a base page, 118.2 us for a huge one |
    /// | copy | 0.458 us a page | twice the zeroing: it reads as well |
    /// | fault of a giant page | 2.7 ms | Trident, section 5.1.2, without zeroing |
    /// | promotion | 0.6 ms a region, with 512 copies | `mega_core::gain::Price` (2 virtual CPUs, Linux 6.18) |
    /// | split | 0.1 ms | `docs/architecture.md`, "Budgets and the lock bound" |
    /// | giant page | 82 us to map, 6 us to split | the project's patched 6.12 in emulation, without a copy |
    /// | exchange | 0.977 us | Trident, section 6: about 500 us for 1 GiB in one batch |
    /// | look | 11.5 ms per GiB of base pages, 0.15 ms of huge ones | `crates/linux/src/observe/clear.rs`, and 0.5 ms for reading |
    /// | migration | 1 us beyond the copy | an estimate: not measured |
    /// | scanning a frame | 5 ns | an estimate: a cache miss for every few `struct page`s |
    /// | looking for zeros | 0.115 us a page | half the zeroing: an estimate |
    #[must_use]
    pub fn mega_notebook() -> Self {
        let hertz = 2_300_000_000;
        let ns = |nanoseconds: u64| cycles(Duration::from_nanos(nanoseconds), hertz);
        Costs {
            hertz,
            fault: ns(659),
            giant_fault: ns(2_700_000),
            zero_page: ns(229),
            copy_page: ns(458),
            migrate_page: ns(1_000),
            scan_frame: ns(5),
            collapse: ns(365_000),
            split: ns(100_000),
            map_giant: ns(82_000),
            split_giant: ns(6_000),
            exchange: ns(977),
            look_page: ns(44),
            look_huge: ns(290),
            inspect_page: ns(115),
        }
    }

    /// Trident's machine (table 1: Xeon Gold 6140 at 2.3 GHz). Section 5.1.2: a fault of 1 GiB takes 400 ms, so zeroing
    /// takes 1.526 us a page (and 2 MiB 0.78 ms; the paper says 0.85); without zeroing it takes 2.7 ms. Section 5.2: 1 GiB is
    /// copied in 600 ms, 2.29 us a page. What the paper does not say is that of
    /// [`Costs::mega_notebook`].
    #[must_use]
    pub fn trident_server() -> Self {
        let hertz = 2_300_000_000;
        let ns = |nanoseconds: u64| cycles(Duration::from_nanos(nanoseconds), hertz);
        Costs {
            zero_page: ns(1_526),
            copy_page: ns(2_289),
            giant_fault: ns(2_700_000),
            ..Costs::mega_notebook()
        }
    }

    /// The promotion of a region whose base pages are all mapped.
    #[must_use]
    pub const fn promotion(&self) -> u64 {
        self.collapse + 512 * self.copy_page
    }

    /// How long `cycles` take, in whole nanoseconds.
    #[must_use]
    pub fn time(&self, cycles: u64) -> Duration {
        let nanoseconds = u128::from(cycles) * NANOSECONDS / u128::from(self.hertz.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The cycles in that time.
    #[must_use]
    pub fn cycles(&self, time: Duration) -> u64 {
        cycles(time, self.hertz)
    }
}

fn cycles(time: Duration, hertz: u64) -> u64 {
    let cycles = time.as_nanos() * u128::from(hertz) / NANOSECONDS;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The papers' own figures come out again.
    #[test]
    fn faults_take_what_the_papers_say() {
        let mega = Costs::mega_notebook();
        let microseconds = |costs: &Costs, cycles| costs.time(cycles).as_secs_f64() * 1e6;
        let base = microseconds(&mega, mega.fault + mega.zero_page);
        assert!((base - 0.888).abs() < 0.01, "{base}");
        let huge = microseconds(&mega, mega.fault + 512 * mega.zero_page);
        assert!((huge - 118.2).abs() < 1.0, "{huge}");
        let trident = Costs::trident_server();
        let giant = microseconds(&trident, 512 * 512 * trident.zero_page);
        assert!((giant / 400_000.0 - 1.0).abs() < 0.01, "{giant}");
    }
}
