//! One value for each kind of action.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};

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

/// As fields named for what was done.
pub(crate) fn done<S: Serializer>(counts: &PerKind<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        counts
            .iter()
            .map(|(kind, count)| (kind.name_of_done(), count)),
    )
}

/// As fields named for what a dry run left out.
pub(crate) fn left_out<S: Serializer>(
    counts: &PerKind<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        counts
            .iter()
            .map(|(kind, count)| (kind.name_of_left_out(), count)),
    )
}

/// As fields named for what is wanted.
pub(crate) fn wanted<S: Serializer>(
    counts: &PerKind<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        counts
            .iter()
            .map(|(kind, count)| (kind.name_of_wanted(), count)),
    )
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
}
