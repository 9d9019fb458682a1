//! Numbers as damo writes them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number that is not negative: as a number, or as a string with or without commas between its digits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl Number {
    /// Without what is behind the point.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as far as an u64 goes; not negative
    pub(super) fn whole(self) -> u64 {
        self.0 as u64
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNumber)
    }
}

struct AnyNumber;

impl Visitor<'_> for AnyNumber {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not negative, or a string of one")
    }

    #[allow(clippy::cast_precision_loss)] // addresses and nanoseconds have 53 bits
    fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
        if number.is_finite() && number >= 0.0 {
            Ok(Number(number))
        } else {
            Err(E::custom(format!("{number} is no number of this kind")))
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
        let digits = text.replace(',', "");
        let number = digits.parse();
        number
            .map_err(|_| E::custom(format!("\"{text}\" is no number")))
            .and_then(|number| self.visit_f64(number))
    }
}
