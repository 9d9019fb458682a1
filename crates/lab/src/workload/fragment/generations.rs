//! MEGA's way (section 4.5): generations of memory. Each fills the holes that the one before left.

use super::generation::Generation;
use crate::error::Error;
use crate::workload::arguments::Common;
use crate::workload::report::{Accessed, AreaReport, Done, Reporter};
use crate::workload::stop::Stop;

/// Generations after the first.
const GENERATIONS: u64 = 5;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let (held, mut wrong) = generations(common.size(), common.seed)?;
    reporter.ready(vec![AreaReport::new(
        "held",
        held.area(),
        held.area().pages(),
        Accessed::None,
    )])?;
    stop.start();
    stop.wait();
    wrong += held.wrong_pages();
    Ok(Done::new(stop.elapsed(), GENERATIONS)?.checked(wrong, 0))
}

/// The last generation, half of `bytes`, and the pages of those before that were wrong when they were freed.
fn generations(bytes: usize, seed: u64) -> Result<(Generation, u64), Error> {
    let mut last = Generation::allocate(bytes, seed)?;
    let mut wrong = last.wrong_pages();
    last.halve()?;
    for generation in 1..=GENERATIONS {
        let next = Generation::allocate(bytes / 2, seed.wrapping_add(generation))?;
        wrong += last.wrong_pages();
        last = next;
    }
    Ok((last, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_held_and_right() {
        let (held, wrong) = generations(8 << 20, 7).unwrap();
        assert_eq!(held.area().bytes(), 4 << 20);
        assert_eq!((wrong, held.wrong_pages()), (0, 0));
    }
}
