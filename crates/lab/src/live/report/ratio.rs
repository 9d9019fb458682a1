//! A ratio in words, always with its spread if the spread exceeds the effect.

use crate::live::results::{Results, Spread};

/// A ratio: `1.50x`, or `~1.02x, 0.97 to 1.06` where the rounds differ by more than the effect
/// ([`Spread::tells`]). [`notes`] says what the mark means.
pub(super) fn write(ratio: Spread) -> String {
    let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(number);
    if is_bare(ratio) {
        format!("{median}x")
    } else {
        format!("~{median}x, {low} to {high}")
    }
}

/// Whether a ratio may stand alone: it tells something, or the rounds do not differ in what is written of them.
fn is_bare(ratio: Spread) -> bool {
    ratio.tells() || number(ratio.low) == number(ratio.high)
}

/// What is to be said once beside all ratios of these results.
pub(super) fn notes(all: &[Results]) -> Vec<String> {
    let mut notes = Vec::new();
    if !all.iter().flat_map(ratios).all(is_bare) {
        notes.push(
            "~: the rounds differ by more than the effect; the lowest and the highest ratio of a round follow"
                .to_owned(),
        );
    }
    let once = all
        .iter()
        .filter(|results| results.settings.rounds == 1 && ratios(results).next().is_some());
    let names: Vec<&str> = once.map(|results| results.experiment.as_str()).collect();
    if !names.is_empty() {
        notes.push(format!(
            "ratios of {} are of one round: how far several would differ is not known",
            names.join(", ")
        ));
    }
    notes
}

/// Every ratio that a report on these results writes.
fn ratios(results: &Results) -> impl Iterator<Item = Spread> {
    let modes = results.metrics.iter().flat_map(|metric| &metric.modes);
    let goals = results.goals.iter().filter(|goal| goal.is_ratio);
    modes
        .filter_map(|mode| mode.ratio_to_base)
        .chain(goals.filter_map(|goal| goal.found))
}

/// With fewer decimals the larger it is: 123, 12.3, 1.23, 0.012.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    fn of(values: &[f64]) -> String {
        write(Spread::of(values).unwrap())
    }

    #[test]
    fn a_ratio_within_the_noise_is_marked() {
        assert_eq!(of(&[1.4, 1.5, 1.45]), "1.45x");
        assert_eq!(of(&[0.97, 1.02, 1.06]), "~1.02x, 0.97 to 1.06");
        assert_eq!(of(&[1.001, 1.0, 1.002]), "1.00x");
        assert_eq!(of(&[1.234]), "1.23x");
        assert_eq!(of(&[123.4]), "123x");
        assert_eq!(of(&[12.34]), "12.3x");
        assert_eq!(of(&[0.0123]), "0.012x");
    }

    #[test]
    fn the_notes_say_what_is_there() {
        let three = example::three_rounds();
        assert_eq!(notes(std::slice::from_ref(&three)).len(), 1);
        let one = example::one_round();
        assert_eq!(notes(std::slice::from_ref(&one)).len(), 1);
        let both = notes(&[three, one]);
        assert!(both[0].starts_with("~: "));
        assert_eq!(
            both[1],
            "ratios of gups are of one round: how far several would differ is not known"
        );
        assert!(notes(&[]).is_empty());
    }
}
