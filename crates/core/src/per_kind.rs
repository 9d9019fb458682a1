//! One value for each kind of action.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::action::ActionKind;

/// One `T` for each kind of action. In JSON it is an object whose fields are named by the kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T>([T; ActionKind::ALL.len()]);

impl<T> PerKind<T> {
    /// The value of each kind.
    pub fn iter(&self) -> impl Iterator<Item = (ActionKind, &T)> {
        ActionKind::ALL.into_iter().zip(&self.0)
    }

    /// The values, of all kinds.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T> Index<ActionKind> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: ActionKind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<ActionKind> for PerKind<T> {
    fn index_mut(&mut self, kind: ActionKind) -> &mut T {
        &mut self.0[kind as usize]
    }
}

impl PerKind<u64> {
    /// Each pair of counts of two, put together by `put`.
    #[must_use]
    pub fn zip(&self, other: &Self, put: impl Fn(u64, u64) -> u64) -> Self {
        PerKind(ActionKind::ALL.map(|kind| put(self[kind], other[kind])))
    }
}

/// The values given, of the others the default.
impl<T: Default, const N: usize> From<[(ActionKind, T); N]> for PerKind<T> {
    fn from(given: [(ActionKind, T); N]) -> Self {
        let mut values = PerKind(ActionKind::ALL.map(|_| T::default()));
        for (kind, value) in given {
            values[kind] = value;
        }
        values
    }
}

impl AddAssign<&PerKind<u64>> for PerKind<u64> {
    fn add_assign(&mut self, other: &PerKind<u64>) {
        for (kind, count) in other.iter() {
            self[kind] += count;
        }
    }
}

impl<T: Serialize> Serialize for PerKind<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(kind, value)| (kind.name(), value)))
    }
}

/// Kinds that are missing have the default value; names that no kind has are passed over.
impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for PerKind<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut named = BTreeMap::<String, T>::deserialize(deserializer)?;
        Ok(PerKind(
            ActionKind::ALL.map(|kind| named.remove(kind.name()).unwrap_or_default()),
        ))
    }
}

/// A module for `#[serde(flatten, with = "…")]`: each kind's count is a field of its own, by this name. Fields that are
/// missing count 0, fields that are nobody's are passed over.
macro_rules! as_fields {
    ($(#[$doc:meta])* $module:ident, $name:path) => {
        $(#[$doc])*
        pub mod $module {
            use super::{ActionKind, Deserializer, PerKind, Serializer};

            /// Writes a field for each kind.
            ///
            /// # Errors
            /// The serializer's.
            pub fn serialize<S: Serializer>(
                counts: &PerKind<u64>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.collect_map(counts.iter().map(|(kind, count)| ($name(kind), count)))
            }

            /// Reads the fields of the kinds.
            ///
            /// # Errors
            /// The deserializer's.
            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<PerKind<u64>, D::Error> {
                super::from_fields(deserializer, $name)
            }
        }
    };
}

as_fields! {
    /// Fields named for what was done.
    done, ActionKind::name_of_done
}
as_fields! {
    /// Fields named for what a dry run left out.
    left_out, ActionKind::name_of_left_out
}
as_fields! {
    /// Fields named for what is wanted.
    wanted, ActionKind::name_of_wanted
}

fn from_fields<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: fn(ActionKind) -> &'static str,
) -> Result<PerKind<u64>, D::Error> {
    /// A field of the object that the counts are part of.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Field {
        Count(u64),
        Another(IgnoredAny),
    }
    let fields = BTreeMap::<String, Field>::deserialize(deserializer)?;
    Ok(PerKind(ActionKind::ALL.map(
        |kind| match fields.get(name(kind)) {
            Some(Field::Count(count)) => *count,
            Some(Field::Another(_)) | None => 0,
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_place() {
        let mut numbers = PerKind::<usize>::default();
        for (number, kind) in ActionKind::ALL.into_iter().enumerate() {
            numbers[kind] = number;
        }
        assert!(numbers.values().copied().eq(0..ActionKind::ALL.len()));
        assert!(
            numbers
                .iter()
                .all(|(kind, number)| kind as usize == *number)
        );
    }

    #[test]
    fn its_names_are_those_of_the_kinds() {
        for kind in ActionKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn counts_are_fields_of_the_object_that_they_are_part_of() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Both {
            name: String,
            #[serde(flatten, with = "done")]
            done: PerKind<u64>,
            #[serde(flatten, with = "left_out")]
            left_out: PerKind<u64>,
        }
        let both = Both {
            name: "web".to_owned(),
            done: PerKind::from([(ActionKind::Promote, 3), (ActionKind::FreeZero, 2)]),
            left_out: PerKind::from([(ActionKind::Demote, 1)]),
        };
        let json = serde_json::to_value(&both).unwrap();
        assert_eq!(json["promoted"], 3);
        assert_eq!(json["would_demote"], 1);
        assert_eq!(serde_json::from_value::<Both>(json).unwrap(), both);
        let older = serde_json::json!({"name": "web", "promoted": 3, "freed_zero": 2, "would_demote": 1, "more": [1]});
        assert_eq!(serde_json::from_value::<Both>(older).unwrap(), both);
    }
}
