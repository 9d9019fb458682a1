//! The moves of PARSEC's Canneal over a random netlist, such as its generator makes: two elements are drawn, and the places of all their
//! neighbours are looked up (`annealer_thread.cpp`, `netlist_elem.cpp`, `canneal_netlist.pl`).

use crate::random::{Random, mix};
use crate::sim::numbers::number;

/// Of each eleven slots, so many have an element (the artifact of the Trident paper: 10000 by 11000 slots, 100 million elements).
const SLOTS: u64 = 11;
const ELEMENTS: u64 = 10;
/// Elements that lead to an element.
const FAN_IN: u64 = 5;
/// Bytes of a slot: a name, two vectors and a pointer (`netlist_elem`, with libstdc++ on x86-64), and of its place.
const SLOT: u64 = 88;
const PLACE: u64 = 8;
/// Bytes on the heap for each element: two vectors of eight pointers, and a node of the map of names; with malloc's own 80 each.
const PIECE: u64 = 80;
const HEAP: u64 = 3 * PIECE;
/// Elements with their slots and heap: with 100 million of them that is 32.2 GiB, and the paper says 32.
const GROUP: u64 = SLOTS * (SLOT + PLACE) + ELEMENTS * HEAP;

/// What the array of elements takes of so many bytes: it is mapped first, at once.
pub(in super::super) fn arrays(bytes: u64) -> Vec<u64> {
    vec![bytes / GROUP * SLOTS * SLOT]
}

/// The netlist in its memory: the heap, the places, and the elements.
pub(super) struct Netlist {
    slots: u64,
    elements: u64,
    places: u64,
    array: u64,
    /// The element of the last move, which has a part in the next one.
    last: u64,
}

impl Netlist {
    /// As many elements as fit into so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let groups = (bytes / GROUP).max(1);
        let (slots, elements) = (groups * SLOTS, groups * ELEMENTS);
        Netlist {
            slots,
            elements,
            places: elements * HEAP,
            array: elements * HEAP + slots * PLACE,
            last: 0,
        }
    }

    /// What the next move touches.
    pub(super) fn next(&mut self, random: &mut Random) -> Vec<u64> {
        let one = self.last;
        self.last = random.below(self.slots);
        let mut touched = Vec::new();
        for slot in [one, self.last] {
            self.cost(slot, &mut touched);
        }
        touched
    }

    /// Looks up where all neighbours of a slot are.
    fn cost(&self, slot: u64, touched: &mut Vec<u64>) {
        touched.push(self.array + slot * SLOT);
        if slot >= self.elements {
            return;
        }
        // What an element has does not change: it comes from its number.
        let mut own = Random::new(mix(slot));
        for count in [FAN_IN, fan_out(&mut own)] {
            touched.push(own.below(self.elements * HEAP / PIECE) * PIECE);
            for _ in 0..count {
                touched.push(self.array + own.below(self.elements) * SLOT);
                // Swaps have put it anywhere.
                touched.push(self.places + own.below(self.slots) * PLACE);
            }
        }
    }
}

/// Elements that an element leads to: as many as have drawn it, so by Poisson's law (Knuth's way to draw by it).
fn fan_out(random: &mut Random) -> u64 {
    let mut part = || number(random.word() >> 11) / number(1 << 53);
    let least = (-number(FAN_IN)).exp();
    let mut product = part();
    let mut count = 0;
    while product > least {
        product *= part();
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_leads_to_as_many_as_lead_to_it() {
        let mut random = Random::new(1);
        let draws = 10_000;
        let sum: u64 = (0..draws).map(|_| fan_out(&mut random)).sum();
        assert!((49_000..51_000).contains(&sum), "{sum}");
    }

    /// Ten neighbours for each of two elements, of each an element and a place, and three touches of its own.
    #[test]
    fn a_move_looks_up_the_neighbours_of_two_elements() {
        let mut netlist = Netlist::new(100 << 20);
        let mut random = Random::new(2);
        let moves = 5000;
        let touched: usize = (0..moves).map(|_| netlist.next(&mut random).len()).sum();
        let each = touched as f64 / f64::from(moves);
        // A slot in eleven is empty.
        let expected = 2.0 * (1.0 + 22.0 * 10.0 / 11.0);
        assert!((each / expected - 1.0).abs() < 0.03, "{each} {expected}");
    }

    #[test]
    fn it_has_the_size_that_the_paper_says() {
        let bytes = 100_000_000 / ELEMENTS * GROUP;
        let gibibytes = bytes as f64 / f64::from(1 << 30);
        assert!((31.5..33.0).contains(&gibibytes), "{gibibytes}");
    }
}
