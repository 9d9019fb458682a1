//! `churn`: pieces of memory mapped, filled, checked and unmapped again and again, so that mappings vanish
//! under whoever looks at them.

use super::access::{advise, map, sum, sum_of_touched, touch};
use super::arguments::Common;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE};
use crate::random::{Random, below};

/// Pieces that exist at a time.
const PIECES: usize = 8;

struct Piece {
    area: Area,
    seed: u64,
}

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut random = Random::new(common.seed);
    let most = (common.size() / PIECES).max(HUGE_PAGE);
    let mut pieces = Vec::with_capacity(PIECES);
    for _ in 0..PIECES {
        pieces.push(piece(&mut random, most, common)?);
    }
    // No area is told: none lasts.
    reporter.ready(Vec::new())?;
    stop.start();
    let (mut operations, mut wrong) = (0, 0_u64);
    while operations == 0 || !stop.reached() {
        let slot = below(random.word(), PIECES);
        wrong += u64::from(!pieces[slot].is_right());
        pieces[slot] = piece(&mut random, most, common)?;
        operations += 1;
    }
    let done = Done::new(stop.elapsed(), operations)?;
    wrong += pieces
        .iter()
        .map(|piece| u64::from(!piece.is_right()))
        .sum::<u64>();
    Ok(done.checked(wrong, 0))
}

fn piece(random: &mut Random, most: usize, common: &Common) -> Result<Piece, Error> {
    let mut area = map(1 + below(random.word(), most))?;
    let seed = random.word();
    touch(&mut area, 1, seed);
    advise(&area, common)?;
    Ok(Piece { area, seed })
}

impl Piece {
    fn is_right(&self) -> bool {
        sum(&self.area) == sum_of_touched(&self.area, 1, self.seed)
    }
}
