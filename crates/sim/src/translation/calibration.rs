//! What a touch costs on a simulated core, measured as `mega doctor --calibrate` measures it on a live one: over working sets
//! of several sizes, by base pages and by huge pages, in ways that differ.
//!
//! A simulated core waits for each touch, whatever comes between two. So of the ways there are three: touches anywhere, those of one
//! region after each other, and neighbours together, which use whole lines of the page table. Nothing is left to chance: each number is exact.

use std::time::Duration;

use mega_core::worth::{
    Calibration, Estimate, METHOD, Point, TOUCHES_PER_VISIT, Touching, Validity,
};
use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, PageSize, mix};

use super::{Mmu, Processor, Walk};
use crate::costs::Costs;

/// The smallest working set, and how many times as large the next one is.
const SMALLEST: u64 = 1 << 20;
const STEP: u64 = 4;
/// The ways that a core that waits for each touch can tell apart.
const WAYS: [Touching; 3] = [
    Touching::Serial,
    Touching::SerialVisits,
    Touching::Neighbours,
];
/// Touches that fill TLBs and caches before those that count, two lines of data and tables at least with each: so many, or as many
/// as the largest cache has lines; or as many for each page of the working set as are touched together, so that of each line of the
/// table, too, several have been.
const WARM_UP: u64 = 1 << 18;
/// Touches that count.
const MEASURED: u64 = 1 << 14;
/// Lines of a base page.
const LINES: u64 = BASE_PAGE_SIZE / 64;
/// Touches of a region that follow each other.
const VISIT: u64 = TOUCHES_PER_VISIT as u64;
/// Pages whose entries share a line.
const NEIGHBOURS: u64 = 8;

/// Measures a core of a processor in a machine with so many bytes of memory.
#[must_use]
pub fn calibrate(processor: &Processor, walk: Walk, costs: &Costs, memory: u64) -> Calibration {
    let sizes =
        std::iter::successors(Some(SMALLEST), |size| Some(size * STEP)).take_while(|&size| {
            // The smallest is always there.
            size == SMALLEST || size <= memory / 2
        });
    let promotion = Estimate::exact(costs.time(costs.promotion()).as_secs_f64());
    let points = sizes.flat_map(|size| WAYS.map(|way| point(processor, walk, size, way)));
    Calibration {
        valid_for: Validity {
            processor: processor.name.to_owned(),
            kernel: "simulated".to_owned(),
            hypervisor: matches!(walk, Walk::Nested(_)).then(|| "simulated".to_owned()),
            memory,
            method: METHOD,
        },
        made: 0,
        points: points.collect(),
        apart: None,
        giant: None,
        promotion,
        copy: promotion,
    }
}

fn point(processor: &Processor, walk: Walk, size: u64, way: Touching) -> Point {
    let fills = WARM_UP.max(lines_of_caches(processor) / 2);
    let warm_up = WarmUp {
        lines: 0,
        touches: fills.min(NEIGHBOURS * (size / BASE_PAGE_SIZE)),
    };
    measure(processor, walk, size, way, warm_up)
}

/// What a touch takes once all of the working set has been touched that the caches can hold, its data as well as its page tables: what
/// a program sees that has run for long. `None` for a way that a core that waits for each touch cannot tell from another.
///
/// A calibration asks for what is saved alone, and so waits for the page tables only: of a working set that fits into the caches its
/// touches find less there.
#[must_use]
pub fn touch_time(processor: &Processor, walk: Walk, size: u64, way: Touching) -> Option<Point> {
    let warm_up = WarmUp {
        lines: lines_of_caches(processor).min(size / 64),
        touches: WARM_UP,
    };
    WAYS.contains(&way)
        .then(|| measure(processor, walk, size, way, warm_up))
}

/// What is done before anything counts.
#[derive(Clone, Copy)]
struct WarmUp {
    /// The first lines of the working set are touched, one after the other.
    lines: u64,
    /// Then it is touched as it is when that counts.
    touches: u64,
}

fn lines_of_caches(processor: &Processor) -> u64 {
    let lines = processor.caches.map(|(cache, _)| cache.entries as u64);
    lines.into_iter().fold(0, u64::max)
}

fn measure(processor: &Processor, walk: Walk, size: u64, way: Touching, warm_up: WarmUp) -> Point {
    let [base, huge] = [PageSize::Base, PageSize::Huge]
        .map(|page_size| nanoseconds(processor, walk, size, way, page_size, warm_up));
    Point {
        working_set: size,
        touching: way,
        ns: base,
        saved: Estimate::exact(base - huge),
    }
}

/// Nanoseconds that a touch takes.
fn nanoseconds(
    processor: &Processor,
    walk: Walk,
    size: u64,
    way: Touching,
    page_size: PageSize,
    warm_up: WarmUp,
) -> f64 {
    let mut mmu = Mmu::new(processor, walk);
    for line in 0..warm_up.lines {
        mmu.touch(line * 64, page_size);
    }
    let mut order = Order { way, size, next: 0 };
    for _ in 0..warm_up.touches {
        order.touch(&mut mmu, page_size);
    }
    mmu.reset_counts();
    for _ in 0..MEASURED {
        order.touch(&mut mmu, page_size);
    }
    #[allow(clippy::cast_precision_loss)] // some millions
    let cycles = mmu.counts().cycles as f64 / MEASURED as f64;
    cycles * Duration::from_secs(1).as_nanos() as f64 / processor.hertz as f64
}

/// The order in which pages are touched.
struct Order {
    way: Touching,
    size: u64,
    next: u64,
}

impl Order {
    fn touch(&mut self, mmu: &mut Mmu, page_size: PageSize) {
        let number = self.next;
        self.next += 1;
        let pages = self.size / BASE_PAGE_SIZE;
        match self.way {
            Touching::Neighbours => {
                let place = scattered(number / NEIGHBOURS);
                let first = place % (pages / NEIGHBOURS) * NEIGHBOURS;
                let page = first + number % NEIGHBOURS;
                // From page to page the line moves, or all would fall into one set of the cache.
                let line = (place >> 50) + number % NEIGHBOURS * 9;
                mmu.touch(page * BASE_PAGE_SIZE + line % LINES * 64, page_size);
            }
            Touching::SerialVisits => {
                let place = scattered(number);
                let region = scattered(number / VISIT) % (self.size / HUGE_PAGE_SIZE).max(1);
                let in_region = (place % HUGE_PAGE_SIZE.min(self.size)) & !63;
                mmu.touch(region * HUGE_PAGE_SIZE + in_region, page_size);
            }
            _ => {
                let place = scattered(number);
                let line = (place >> 50) % LINES;
                let page = place % pages;
                mmu.touch(page * BASE_PAGE_SIZE + line * 64, page_size);
            }
        }
    }
}

/// Numbers that lie anywhere, the same each time: the words of Steele, Lea and Flood's splitmix64.
pub(super) fn scattered(number: u64) -> u64 {
    mix(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_core::worth::Locality;

    use crate::translation::{PROCESSORS, SAPPHIRE_RAPIDS};

    #[test]
    fn a_calibration_makes_sense_and_what_is_larger_saves_more() {
        for processor in PROCESSORS {
            let costs = Costs::mega_notebook();
            let calibration = calibrate(processor, Walk::Native, &costs, 256 << 20);
            assert_eq!(calibration.nonsense(), None, "{}", processor.name);
            assert_eq!(
                calibration.working_sets(),
                [1 << 20, 4 << 20, 16 << 20, 64 << 20]
            );
            let saved = |size| calibration.saved_ns(size, 1e3, Locality::SCATTERED).value;
            assert!(saved(64 << 20) > saved(4 << 20), "{}", processor.name);
            let together = Locality {
                pages_per_line: 8.0,
                touches_per_visit: 8.0,
            };
            let visits = Locality {
                touches_per_visit: 64.0,
                ..Locality::SCATTERED
            };
            let visits = calibration.saved_ns(64 << 20, 1e3, visits).value;
            assert!(visits <= saved(64 << 20), "{}", processor.name);
            let together = calibration.saved_ns(64 << 20, 1e3, together).value;
            assert!(together < visits, "{}", processor.name);
        }
    }

    /// Of a working set that the last cache holds, no touch goes to memory, and huge pages save what a calibration says.
    #[test]
    fn what_the_caches_hold_is_found_there() {
        let processor = &SAPPHIRE_RAPIDS;
        let size = 8 << 20;
        let point = touch_time(processor, Walk::Native, size, Touching::Serial).unwrap();
        let cycles = |ns: f64| ns * processor.hertz as f64 / 1e9;
        let of_data = cycles(point.ns - point.saved.value);
        let (_, last_cache) = processor.caches[2];
        assert!(of_data < last_cache as f64, "{of_data}");
        let costs = Costs::of(processor);
        let calibration = calibrate(processor, Walk::Native, &costs, 2 * size);
        let calibrated = calibration
            .points
            .iter()
            .find(|point| point.working_set == 4 << 20 && point.touching == Touching::Serial);
        let saved = calibrated.unwrap().saved.value;
        assert!(point.saved.value >= saved, "{point:?} {saved}");
        assert_eq!(
            touch_time(processor, Walk::Native, size, Touching::Stream),
            None
        );
    }

    #[test]
    fn nested_walks_save_more() {
        let saved = |walk| {
            let costs = Costs::trident_server();
            let calibration = calibrate(PROCESSORS[0], walk, &costs, 256 << 20);
            calibration
                .saved_ns(64 << 20, 1e3, Locality::SCATTERED)
                .value
        };
        assert!(saved(Walk::Nested(PageSize::Base)) > saved(Walk::Native));
    }
}
