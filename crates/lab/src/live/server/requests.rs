//! What a load asks for.

use crate::random::{Random, below};

/// GETs to a SET: `memtier_benchmark`'s default.
const GETS_TO_A_SET: usize = 10;

/// A request for the value of a number's key, or to store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Set(u64),
    Get(u64),
}

/// GETs, and a SET for every ten, of numbers below `keys`, each as likely as any other, without end.
pub(crate) fn gets_and_sets(keys: u64, seed: u64) -> impl Iterator<Item = Request> + Send {
    let mut random = Random::new(seed);
    let keys = usize::try_from(keys).unwrap_or(usize::MAX);
    std::iter::repeat_with(move || {
        let number = below(random.word(), keys) as u64;
        if below(random.word(), GETS_TO_A_SET + 1) == 0 {
            Request::Set(number)
        } else {
            Request::Get(number)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_eleven_is_a_set_and_all_are_below_the_limit() {
        let requests: Vec<Request> = gets_and_sets(100, 3).take(11_000).collect();
        let sets = |request: &&Request| matches!(request, Request::Set(_));
        assert!((900..1100).contains(&requests.iter().filter(sets).count()));
        assert!(requests.iter().all(|request| match request {
            Request::Set(number) | Request::Get(number) => *number < 100,
        }));
    }
}
