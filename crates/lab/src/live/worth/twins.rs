//! What no prediction from touches can tell: two programs that touch as many pages as often, and gain differently.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::results::ProgramResult;
use super::{in_bytes, percent};

/// The program that waits for each of its touches.
const WAITS: &str = "chase";
/// The one that keeps its pace and waits for none. It was made for this and is like no other program, so no bar is about it.
pub(super) const PACED: &str = "paced";

/// What the two show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Twins {
    /// By how much a prediction that is the same for both is off for one of them at least: a share of CPU time, 0 to 1.
    pub(super) least_off: f64,
}

impl Twins {
    /// `None` where one of them was not measured.
    pub(super) fn of(programs: &[ProgramResult]) -> Option<Self> {
        let (waits, paced) = both(programs)?;
        let apart = waits.measured.value - paced.measured.value;
        Some(Twins {
            least_off: apart.abs() / 2.0,
        })
    }
}

fn both(programs: &[ProgramResult]) -> Option<(&ProgramResult, &ProgramResult)> {
    let named = |name: &str| programs.iter().find(|program| program.name == name);
    Some((named(WAITS)?, named(PACED)?))
}

/// A paragraph about them; nothing where one was not measured.
pub(super) fn in_words(programs: &[ProgramResult]) -> String {
    let mut text = String::new();
    let (Some((waits, paced)), Some(twins)) = (both(programs), Twins::of(programs)) else {
        return text;
    };
    let touches = |program: &ProgramResult| program.touches_per_second.value / 1e6;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "\n`{WAITS}` and `{PACED}` read lines at random: {:.2} and {:.2} M touches a second, over {} and {}. Huge pages save the one \
         {} and the other {}, as only the first waits for what it reads. Whoever sees pages cannot tell them apart, and what is \
         said of both alike is off by {:.1} points for one of them at least. No bar is about `{PACED}`.",
        touches(waits),
        touches(paced),
        in_bytes(waits.working_set),
        in_bytes(paced.working_set),
        percent(waits.measured),
        percent(paced.measured),
        100.0 * twins.least_off,
    );
    text
}
