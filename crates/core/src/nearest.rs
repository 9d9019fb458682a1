//! Which known name was meant by one that is not known.

/// The name most like `name`, if any needs at most half its letters inserted, removed, replaced or swapped.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    names
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= candidate.len() / 2)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_like_name_is_offered() {
        let known = ["policy", "interval"];
        assert_eq!(nearest("polcy", known), Some("policy"));
        assert_eq!(nearest("Interval", known), Some("interval"));
        assert_eq!(nearest("colour", known), None);
    }
}
